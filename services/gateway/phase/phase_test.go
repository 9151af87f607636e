package phase_test

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
)

func TestOf(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-1 a run and its row in the index are in the same phase", func(t *testing.T) {
		t.Parallel()
		gates := []*run.Gate{{ID: "g", StepID: "s", Status: run.GatePending}}
		for _, c := range []struct {
			status events.Status
			reason string
			gates  []*run.Gate
			want   phase.Phase
			rests  bool
		}{
			{events.Created, "", nil, phase.Queued, false}, {events.Running, "", nil, phase.Working, false}, {events.Running, "", gates, phase.Waiting, true},
			{events.Paused, "", gates, phase.Paused, true}, {events.Completed, events.FinishDone, nil, phase.Completed, true}, {events.Failed, events.FinishError, nil, phase.Failed, true},
			{events.Failed, events.FinishStopped, gates, phase.Stopped, true}, {events.Failed, events.FinishCancelled, nil, phase.Stopped, true}, {"", "", nil, phase.Working, false},
		} {
			s := run.State{Status: c.status, Gates: c.gates, Plan: &run.Plan{Steps: []*run.Step{{ID: "s", Status: events.StepIsReady}}}}
			if c.reason != "" {
				s.Result = &events.Result{FinishReason: c.reason}
			}
			info := run.Info{Status: c.status, FinishReason: c.reason, Gates: s.Waiting()}
			if got := phase.Of(s); got != c.want || phase.OfInfo(info) != got || got.Rests() != c.rests || got.Ended() != c.status.Ended() {
				t.Errorf("%s %s: %s, want %s", c.status, c.reason, got, c.want)
			}
		}
	})
}
