package kernel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-7b work is ended with its run, which the log and no hint decides", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		seed(t, s, started("other", 1))
		ends := runlog.NewEnds(newLedger(t, s, events.Toolrunner))
		work, done := ends.Context(t.Context(), "r")
		defer done()
		other, otherDone := ends.Context(t.Context(), "other")
		defer otherDone()
		ends.Hint(t.Context(), "r")
		if work.Err() != nil {
			t.Fatal("a hint ended the work of a run that goes on")
		}
		if _, err := newLedger(t, s, events.Planner).Write(t.Context(), "r", func(st run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Failed(st, "stopped", "enough")}, nil
		}); err != nil {
			t.Fatal(err)
		}
		ends.Hint(t.Context(), "r")
		if !errors.Is(context.Cause(work), runlog.ErrRunEnded) {
			t.Errorf("the work of a run that ended goes on: %v", context.Cause(work))
		}
		if other.Err() != nil {
			t.Error("the work of another run was ended")
		}
	})
	t.Run("LIFE-7b a hint that comes just before the work ends it too", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		seed(t, s, started("other", 1))
		ends := runlog.NewEnds(newLedger(t, s, events.Toolrunner))
		ends.Hint(t.Context(), "other")
		if _, err := newLedger(t, s, events.Planner).Write(t.Context(), "r", func(st run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Failed(st, "stopped", "enough")}, nil
		}); err != nil {
			t.Fatal(err)
		}
		ends.Hint(t.Context(), "r")
		work, done := ends.Context(t.Context(), "r")
		defer done()
		if !errors.Is(context.Cause(work), runlog.ErrRunEnded) {
			t.Errorf("the work of a run that ended goes on: %v", context.Cause(work))
		}
		other, otherDone := ends.Context(t.Context(), "other")
		defer otherDone()
		if other.Err() != nil {
			t.Error("a hint ended the work of a run that goes on")
		}
	})
}
