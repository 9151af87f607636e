package move

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/pkg/events"
)

func TestPhase(t *testing.T) {
	t.Parallel()
	halted := func(number int, movedTo, place string) halt.State {
		return halt.State{Halt: events.Halt{Number: number, Halted: true, Reason: reason + "x", MovedTo: movedTo, MovedPlace: place}}
	}
	released := halt.State{Halt: events.Halt{Number: 1}}
	log := backup.State{Last: 9}
	copied := &record{From: "a", Halt: 1, Log: 9}
	for name, c := range map[string]struct {
		view  view
		phase phase
		err   error
	}{
		"nothing at the target":            {view{source: "a"}, fresh, nil},
		"an empty target":                  {view{source: "a", place: "b"}, fresh, nil},
		"the source itself":                {view{source: "a", place: "a"}, 0, ErrSame},
		"services of the target":           {view{source: "a", place: "b", served: "planner"}, 0, ErrServed},
		"another station":                  {view{source: "a", place: "b", toLog: log}, 0, ErrOther},
		"another restore":                  {view{source: "a", place: "b", restoring: true}, 0, ErrOther},
		"a copy of another source":         {view{source: "a", place: "b", restoring: true, rec: &record{From: "c"}}, 0, ErrOther},
		"a part of this copy":              {view{source: "a", place: "b", from: halted(1, "", ""), restoring: true, toLog: log, rec: copied}, copying, nil},
		"the copy has not begun":           {view{source: "a", place: "b", from: halted(1, "", ""), rec: copied}, copying, nil},
		"the source was released":          {view{source: "a", place: "b", from: released, restoring: true, toLog: log, rec: copied}, 0, ErrAborted},
		"the source was halted again":      {view{source: "a", place: "b", from: halted(2, "", ""), restoring: true, toLog: log, rec: copied}, 0, ErrAborted},
		"the target was disowned":          {view{source: "a", place: "b", from: halted(1, "", ""), to: halted(1, "a", "a"), restoring: true, toLog: log, rec: copied}, 0, ErrAborted},
		"an abort that was cut":            {view{source: "a", place: "b", from: halted(1, "b", "b"), to: halted(1, "a", "a"), restoring: true, toLog: log, rec: copied}, 0, ErrAborted},
		"a target that works, no mark":     {view{source: "a", place: "b", from: halted(1, "", ""), toLog: log, rec: copied}, 0, ErrOther},
		"the source is marked":             {view{source: "a", place: "b", from: halted(1, "b", "b"), restoring: true, toLog: log, rec: copied}, marked, nil},
		"the target works":                 {view{source: "a", place: "b", from: halted(1, "b", "b"), toLog: log, served: "planner"}, done, nil},
		"the source moved elsewhere":       {view{source: "a", place: "b", from: halted(1, "c", "c")}, 0, ErrElsewhere},
		"the target was lost and is empty": {view{source: "a", from: halted(1, "b", "b")}, 0, ErrElsewhere},
	} {
		got, err := c.view.phase()
		if got != c.phase || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("PLUS-18b %s: got %d, %v, want %d, %v", name, got, err, c.phase, c.err)
		}
	}
}
