package halt

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/pkg/events"
)

var at = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

// steered is a state after some controls, of which one comes each hour.
func steered(t *testing.T, s State, controls ...events.HaltControl) State {
	t.Helper()
	for i, c := range controls {
		var err error
		if s, err = Steer(s, Wish{HaltControl: c, Input: s.last() + 1}, at.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s State) last() uint64 {
	if len(s.Inputs) == 0 {
		return 0
	}
	return s.Inputs[len(s.Inputs)-1]
}

func stop(by, reason string) events.HaltControl {
	return events.HaltControl{Action: events.HaltAction, By: by, Reason: reason}
}

func release(number int) events.HaltControl {
	return events.HaltControl{Action: events.ReleaseAction, By: "bert", Number: number}
}

func TestSteer(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s State, c events.HaltControl, code string) {
		t.Helper()
		next, err := Steer(s, Wish{HaltControl: c, Input: 99}, at)
		no, ok := errors.AsType[*Refused](err)
		if !ok || no.Code != code || no.Hint == "" || len(next.Changes()) != len(s.Changes()) {
			t.Errorf("got %+v, want %s", err, code)
		}
	}
	t.Run("PLUS-21a a control that is delivered again changes nothing", func(t *testing.T) {
		t.Parallel()
		s := steered(t, State{}, stop("anna", "why"))
		again, err := Steer(s, Wish{HaltControl: stop("anna", "why"), Input: s.last()}, at)
		if err != nil || len(again.Changes()) != 1 {
			t.Errorf("%+v, %v", again.Changes(), err)
		}
		s = steered(t, s, release(1))
		if again, err = Steer(s, Wish{HaltControl: stop("anna", "why"), Input: 1}, at); err != nil || again.Halted {
			t.Errorf("the first control halts it again: %+v, %v", again, err)
		}
	})
	t.Run("PLUS-21a a halt is not replaced by another one, and a late release ends no later halt", func(t *testing.T) {
		t.Parallel()
		refused(t, State{}, release(1), NotHalted)
		s := steered(t, State{}, stop("anna", "why"))
		refused(t, s, stop("carl", "other"), Halted)
		s = steered(t, s, release(1), stop("carl", "other"))
		refused(t, s, release(1), Stale)
		if !s.Halted || s.Number != 2 || s.By != "carl" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("PLUS-21a PLUS-18a a station that has moved is released by who says so alone, and one whose move was taken back as any other", func(t *testing.T) {
		t.Parallel()
		move := events.HaltControl{Action: events.MoveAction, By: "anna", Number: 1, To: "context eu", Place: "2026"}
		back := events.HaltControl{Action: events.ReturnAction, By: "anna", Number: 1}
		refused(t, State{}, move, NotHalted)
		s := steered(t, State{}, stop("anna", "move"))
		refused(t, s, back, NotMoved)
		late := move
		late.Number = 2
		refused(t, s, late, Stale)
		s = steered(t, s, move)
		if s.MovedTo != "context eu" || s.MovedPlace != "2026" || !s.Halted || s.MovedAt.IsZero() {
			t.Fatalf("%+v", s)
		}
		refused(t, s, release(1), Moved)
		refused(t, s, move, Moved)
		refused(t, s, stop("ben", "other"), Halted)
		if returned := steered(t, steered(t, s, back), release(1)); returned.Halted || returned.MovedTo != "" {
			t.Errorf("%+v", returned)
		}
		forced := release(1)
		forced.AlthoughMoved = true
		if s = steered(t, s, forced); s.Halted || s.MovedTo != "" {
			t.Errorf("%+v", s)
		}
		s = steered(t, s, stop("anna", "again"))
		refused(t, s, events.HaltControl{Action: events.ReturnAction, Number: 2}, NotMoved)
	})
	t.Run("PLUS-21a a control says what its action needs and nothing else", func(t *testing.T) {
		t.Parallel()
		for _, c := range []events.HaltControl{{Action: "stop"}, {Action: events.HaltAction}, {Action: events.HaltAction, Reason: "x", Number: 1},
			{Action: events.ReleaseAction}, {Action: events.MoveAction, Number: 1}, {Action: events.MoveAction, To: "x"},
			{Action: events.ReturnAction, Number: 1, To: "x"}, {Action: events.ReleaseAction, Number: 1, Place: "x"},
			{Action: events.MoveAction, Number: 1, To: "x", AlthoughMoved: true}, {Action: events.MoveAction, Number: 1, To: "a\nb"},
			{Action: events.MoveAction, Number: 1, To: strings.Repeat("x", events.MaxMovedTo+1)}} {
			if c.Check() == nil {
				t.Errorf("%+v is taken", c)
			}
		}
		c := events.HaltControl{Action: events.MoveAction, Number: 1, To: strings.Repeat("x", events.MaxMovedTo)}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	})
	t.Run("PLUS-21a the fold refuses what cannot follow", func(t *testing.T) {
		t.Parallel()
		s := steered(t, State{}, stop("anna", "why"))
		for _, p := range []events.Payload{&events.HaltOrderedData{Number: 2}, &events.HaltReleasedData{Number: 2},
			&events.HaltMovedData{Number: 2, To: "x"}, &events.HaltMovedData{Number: 1}, &events.HaltReturnedData{Number: 1}} {
			if _, err := Aggregate().Apply(s, events.Event{Subject: events.HaltID, Sequence: 2, Time: at}, p, "h"); err == nil {
				t.Errorf("%s folds", p.Kind())
			}
		}
		if _, err := Aggregate().Apply(s, events.Event{Subject: "other", Sequence: 2, Time: at}, &events.HaltReleasedData{Number: 1}, "h"); err == nil {
			t.Error("an event of another log folds")
		}
		if gaps := kerneltest.Registration(Aggregate(), rules); len(gaps) > 0 {
			t.Error(gaps)
		}
	})
}

func TestStood(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-21a all halts count for as long as they overlap, also the one in force", func(t *testing.T) {
		t.Parallel()
		s := steered(t, State{}, stop("a", "b"), release(1), stop("a", "b"), release(2), stop("a", "b")) // 8-9, 10-11, 12-
		for _, c := range []struct{ from, to, want time.Duration }{
			{0, 5 * time.Hour, 3 * time.Hour},
			{30 * time.Minute, 150 * time.Minute, time.Hour},
			{90 * time.Minute, 100 * time.Minute, 0},
			{5 * time.Hour, 6 * time.Hour, time.Hour},
			{-3 * time.Hour, -time.Hour, 0},
		} {
			if got := s.Stood(at.Add(c.from), at.Add(c.to)); got != c.want {
				t.Errorf("from %s to %s: got %s, want %s", c.from, c.to, got, c.want)
			}
		}
	})
	t.Run("PLUS-21a a log of halts has a row of limited size, which shows its state", func(t *testing.T) {
		t.Parallel()
		var s State
		for n := range events.MaxHaltPeriods + 3 {
			s = steered(t, s, stop("a", "b"), release(n+1))
		}
		if len(s.Past) != events.MaxHaltPeriods || len(s.Inputs) > events.MaxWorkInputs {
			t.Errorf("%d periods, %d inputs", len(s.Past), len(s.Inputs))
		}
		s.Sequence, s.Hash = 9, "h"
		row, err := View().Row(s, 7)
		if err != nil {
			t.Fatal(err)
		}
		if got, position, ok := View().Read(row); !ok || position != 7 || got.Sequence != 9 || got.Hash != "h" || got.Number != s.Number {
			t.Errorf("%+v", got)
		}
	})
}
