package run_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-8 PERS-18a a row of the index says where the run stands", func(t *testing.T) {
		t.Parallel()
		b := called(runtest.GateAt("g", "a", "c1-1"), runtest.Checkpoint(run.State{HarnessID: "r"}))
		i := run.InfoOf(b.State())
		if i.HarnessID != "r" || i.AgentName != "worker" || i.TaskID != "task-1" || i.Status != events.Running || i.StepsTotal != 4 ||
			i.StepsCompleted != 0 || i.CurrentStep != "a" || i.Turns != 1 || len(i.Gates) != 1 || i.LastCheckpoint == nil || i.Checkpoints != 1 ||
			i.CompletedAt != nil || i.Sequence != 8 || i.InputTokens != 20 || i.BudgetLeft != 100 || i.Task != "fix the wheel" {
			t.Errorf("got %+v", i)
		}
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped by anna"))
		if i := run.InfoOf(b.State()); i.CompletedAt == nil || i.FinishReason != events.FinishStopped || i.Error != "stopped by anna" {
			t.Errorf("at the end: got %+v", i)
		}
		if i := run.InfoOf(run.State{}); i.HarnessID != "" || i.CurrentStep != "" {
			t.Errorf("of nothing: got %+v", i)
		}
	})
	t.Run("LIFE-8 a long task is shortened, in valid text", func(t *testing.T) {
		t.Parallel()
		for _, unit := range []string{"x", "ü", "漢", "🙂"} {
			c := runtest.Created()
			c.Task = strings.Repeat(unit, 600)
			b := runtest.New("demo", "r")
			b.Append(c)
			if got := run.InfoOf(b.State()).Task; len(got) > 512 || len(got) < 509 || !utf8.ValidString(got) {
				t.Errorf("of %s: got %d bytes, valid %v", unit, len(got), utf8.ValidString(got))
			}
		}
	})
}
