package run_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestFinal(t *testing.T) {
	t.Parallel()
	ended := func(status events.Status, output string, schema string) run.State {
		return run.State{AgentName: "worker", Status: status, Agents: map[string]events.Agent{"worker": {Name: "worker", OutputSchema: json.RawMessage(schema)}},
			Result: &events.Result{Status: status, Success: status == events.Completed, Output: output, Cost: 7, Verified: []events.Verified{{Name: "true"}}}}
	}
	t.Run("DLV-6 DLV-7 a run that has not ended came to nothing, and one that has to what its log says", func(t *testing.T) {
		t.Parallel()
		if run.FinalOf(run.State{Status: events.Running}) != nil {
			t.Error("it is no end")
		}
		f := run.FinalOf(ended(events.Completed, "done", ""))
		if f.Output != "done" || f.Structured != nil || f.Cost != 7 || len(f.Verified) != 1 {
			t.Errorf("%+v", f)
		}
	})
	t.Run("DLV-7 structured output is there where the definition asks for it, the run completed and it is JSON", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			of   run.State
			want string
		}{
			{ended(events.Completed, `{"a":1}`, `{"type":"object"}`), `{"a":1}`},
			{ended(events.Completed, `{"a":1}`, ""), ""},
			{ended(events.Failed, `{"a":1}`, `{"type":"object"}`), ""},
			{ended(events.Completed, "no", `{"type":"object"}`), ""},
		} {
			if got := run.FinalOf(c.of).Structured; string(got) != c.want {
				t.Errorf("%+v: %s, want %s", c.of.Result, got, c.want)
			}
		}
	})
	t.Run("DLV-6 a final result is a result with more keys: who reads the one reads the other", func(t *testing.T) {
		t.Parallel()
		s := ended(events.Completed, `{"a":1}`, `{"type":"object"}`)
		s.Artifacts = run.Append(s.Artifacts, events.Artifact{ID: "a1", Name: "report", SHA256: "00", Size: 3})
		b, err := json.Marshal(run.FinalOf(s))
		if err != nil {
			t.Fatal(err)
		}
		var r events.Result
		if err := json.Unmarshal(b, &r); err != nil || !reflect.DeepEqual(&r, s.Result) {
			t.Errorf("%v\n%+v\n%+v", err, r, s.Result)
		}
		if !strings.Contains(string(b), `"artifacts":[{"id":"a1","type":"","name":"report","size":3,"digest":"00"`) {
			t.Errorf("%s", b)
		}
	})
}
