package assign_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	t.Run("CLOUD-1 CLOUD-2 an assignment is a task in the session of its work_id, with the repository at its ref", func(t *testing.T) {
		t.Parallel()
		const text = `{"work_id":"w-1","orchestrator_run_id":"orch_7","agent_id":42,"task":"go","workspace":{"repo":"https://example.com/a.git","ref":"v1"},"priority":3}`
		a, err := assign.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := a.TaskOf("s", "plane")
		want := events.Task{ID: got.ID, Agent: "42", Task: "go", Session: "ses_w-1", Repo: "https://example.com/a.git", Ref: "v1", Orchestrator: "orch_7", WorkID: "w-1", By: "plane"}
		x, _ := json.Marshal(got)
		y, _ := json.Marshal(want)
		if string(x) != string(y) || events.CheckID("run", got.ID) != nil {
			t.Errorf("%s, want %s", x, y)
		}
		other := a
		other.Task = "something else"
		if other.TaskOf("s", "plane").ID != got.ID || a.TaskOf("t", "plane").ID == got.ID {
			t.Error("the id of the run is not that of the work at the station")
		}
	})
	for name, text := range map[string]string{
		"no work_id": `{"agent_id":"a","task":"x"}`, "a work_id that is another subject": `{"work_id":"a.b","agent_id":"a"}`, "a wildcard": `{"work_id":"*"}`, "no JSON": `x`,
		"a list": `[]`, "an agent that is a list": `{"work_id":"w","agent_id":["a"]}`, "a long work_id": `{"work_id":"` + strings.Repeat("w", 61) + `"}`,
		"too many bytes": `{"work_id":"w","task":"` + strings.Repeat("x", assign.MaxAssignment) + `"}`,
	} {
		t.Run("CLOUD-1 is refused: "+name, func(t *testing.T) {
			t.Parallel()
			if a, err := assign.Read([]byte(text)); err == nil {
				t.Errorf("%+v", a)
			}
		})
	}
	t.Run("CLOUD-3 a response is bounded", func(t *testing.T) {
		t.Parallel()
		s := run.State{Status: events.Completed, Result: &events.Result{Success: true, Output: strings.Repeat("ä", 256<<10), TotalTokens: 7, DurationMS: 9}}
		r := assign.Assignment{WorkID: "w"}.ResponseTo(s, make([]events.Artifact, 1001))
		if len(r.Result) != 256<<10 || !r.Cut || len(r.Artifacts) != 1000 || r.Tokens != 7 || r.DurationMS != 9 || r.Status != "completed" {
			t.Errorf("%d %t %d", len(r.Result), r.Cut, len(r.Artifacts))
		}
	})
}
