package agentfile_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-10 an agent file takes each kind of check with all keys that a task has for it", func(t *testing.T) {
		t.Parallel()
		checks := `[
  {"kind":"command","name":"n","run":"true","expect":["x"],"from":"claim","timeout":"5m"},
  {"kind":"artifact","path":"report.md","type":"file","min_bytes":2},
  {"kind":"git","require":["commit","clean"]},
  {"kind":"schema","of":"output","schema":{"type":"object"}},
  {"kind":"person","approvers":["anna","bert"],"votes":2,"expires":"24h"},
  {"kind":"expr","expr":"len(output) > 0"},
  {"kind":"review","agent":"critic","rubric":"it does what the task says"}]`
		a, _, err := agentfile.Parse("coder", []byte("---\nname: coder\nmodel: scripted/coder\naccept: {checks: "+checks+"}\n---\n{{userInput}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var want []events.Check
		if err := json.Unmarshal([]byte(checks), &want); err != nil || a.Accept == nil || !reflect.DeepEqual(a.Accept.Checks, want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, a.Accept, want)
		}
		for i := range reflect.TypeFor[events.Check]().NumField() {
			key, _, _ := strings.Cut(reflect.TypeFor[events.Check]().Field(i).Tag.Get("json"), ",")
			if !strings.Contains(checks, `"`+key+`":`) {
				t.Errorf("the key %s of a check is not tried here", key)
			}
		}
	})
}
