package toolrunner

import (
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestScope(t *testing.T) {
	t.Parallel()
	t.Run("GIT-7 branches are shared in a session, else in a workflow, else by a run and those it started", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]events.RunCreatedData{"session/s": {Session: "s", WorkflowRun: "w", Orchestrator: "o"}, "workflow/w": {WorkflowRun: "w", Orchestrator: "o"}, "run/o": {Orchestrator: "o"}, "run/r": {}} {
			if got := delivery.Scope(&c, "r"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("GIT-2 a toolrunner without git has none to give", func(t *testing.T) {
		t.Parallel()
		if g := (&Role{}).gitWork(run.State{}, call.Attempt{}, &made{}, nil); g != nil {
			t.Errorf("got %v", g)
		}
	})
}
