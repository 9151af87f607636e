package call

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestAnswerOfDelegate(t *testing.T) {
	t.Parallel()
	asked := func(k *run.Child) run.State {
		s := run.State{Status: events.Running, SubAgentResults: map[string]string{"k": "done"},
			Open: map[string]*run.Call{"c": {RequestedCall: events.RequestedCall{ID: "c", Tool: events.ToolDelegate}, Step: "s", Phase: run.CallDelegated}}}
		if k != nil {
			k.ID, k.Step, k.Call, k.Agent, k.Attempt = "k", "s", "c", "helper", 1
			s.Children = []*run.Child{k}
		}
		return s
	}
	end := func(retry bool) run.ChildEnd {
		return run.ChildEnd{FinishReason: events.FinishError, Error: "it broke", Retry: retry}
	}
	for what, c := range map[string]struct {
		child    *run.Child
		answered bool
		success  bool
		text     string
	}{
		"has not been spawned":       {nil, false, false, ""},
		"lives":                      {&run.Child{Outcome: events.ChildIsSpawned}, false, false, ""},
		"failed and is tried again":  {&run.Child{Outcome: events.ChildIsFailed, ChildEnd: end(true)}, false, false, ""},
		"failed for good":            {&run.Child{Outcome: events.ChildIsFailed, ChildEnd: end(false)}, true, false, "it broke"},
		"was refused":                {&run.Child{Outcome: events.ChildIsRefused, ChildEnd: end(false)}, true, false, "no child run was begun"},
		"has completed":              {&run.Child{Outcome: events.ChildIsCompleted}, true, true, "done"},
		"lives and is in background": {&run.Child{Outcome: events.ChildIsSpawned, OfCall: run.OfCall{Background: true}}, true, true, "k"},
	} {
		t.Run("SUB-3 SUB-4 a call is answered with what its child came to, which "+what, func(t *testing.T) {
			t.Parallel()
			r, ok := Answer(asked(c.child), "c", nil, time.Unix(9, 0))
			if ok != c.answered || r.Success != c.success || !strings.Contains(r.Output, c.text) || ok == (r.Output == "") {
				t.Errorf("%v %+v", ok, r)
			}
		})
	}
	t.Run("SUB-3 a question for the work of a child waits for its end, unless it says that it does not", func(t *testing.T) {
		t.Parallel()
		s := asked(&run.Child{Outcome: events.ChildIsSpawned, OfCall: run.OfCall{Background: true}})
		s.Open["c"].Tool, s.Open["c"].Phase = events.ToolDelegateResult, run.CallAllowed
		if r, ok := Answer(s, "c", json.RawMessage(`{"id":"k"}`), time.Unix(9, 0)); ok {
			t.Errorf("%+v", r)
		}
		if r, ok := Answer(s, "c", json.RawMessage(`{"id":"k","wait":false}`), time.Unix(9, 0)); !ok || !strings.Contains(r.Output, "still working") {
			t.Errorf("%v %+v", ok, r)
		}
	})
}
