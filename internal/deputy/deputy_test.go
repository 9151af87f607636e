package deputy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

var at = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

func away(name, to string, until time.Duration, input uint64) Wish {
	return Wish{DeputyControl: events.DeputyControl{Action: events.AwayAction, To: to, Until: at.Add(until)}, For: name, Input: input}
}

func back(name string, input uint64) Wish {
	return Wish{DeputyControl: events.DeputyControl{Action: events.BackAction}, For: name, Input: input}
}

// after is a state after some wishes, which come at one time.
func after(t *testing.T, s State, now time.Time, all ...Wish) State {
	t.Helper()
	for _, w := range all {
		var err error
		if s, err = Steer(s, w, now); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestDeputies(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s State, w Wish, now time.Time, code string) {
		t.Helper()
		if _, err := Steer(s, w, now); err == nil {
			t.Errorf("%+v: taken", w)
		} else if no, ok := errors.AsType[*Refused](err); !ok || no.Code != code || no.Hint == "" {
			t.Errorf("%+v: %v", w, err)
		}
	}
	t.Run("PLUS-23b a deputy is named, replaced, ended, and ends by its time", func(t *testing.T) {
		t.Parallel()
		s := after(t, State{}, at, away("ann", "bob", time.Hour, 1), away("carol", "bob", 2*time.Hour, 2))
		if d := s.Of("ann"); d.To != "bob" || !d.Holds(at) || d.Holds(at.Add(time.Hour)) || d.Holds(at.Add(-time.Second)) {
			t.Errorf("%+v", d)
		}
		if again := after(t, s, at, away("ann", "bob", time.Hour, 1)); len(again.Changes()) != len(s.Changes()) {
			t.Error("a control that comes twice is carried out twice")
		}
		s = after(t, s, at, away("ann", "dan", 3*time.Hour, 3))
		if d := s.Of("ann"); d.To != "dan" || d.Number != 3 || len(s.Deputies.Deputies) != 2 {
			t.Errorf("%+v", s.Deputies)
		}
		s = after(t, s, at.Add(time.Minute), back("ann", 4))
		if d := s.Of("ann"); d.Number != 0 {
			t.Errorf("%+v", d)
		}
		refused(t, s, back("ann", 5), at, Here)
		refused(t, s, back("carol", 6), at.Add(2*time.Hour), Here) // its time is over
		if s = after(t, s, at.Add(3*time.Hour), away("eve", "bob", 4*time.Hour, 7)); len(s.Deputies.Deputies) != 1 {
			t.Errorf("what is over is kept: %+v", s.Deputies)
		}
	})
	t.Run("PLUS-23b a control that comes late, after a later one of the same person, changes nothing", func(t *testing.T) {
		t.Parallel()
		s := after(t, State{}, at, away("ann", "bob", time.Hour, 1), away("ann", "carol", time.Hour, 3), away("dan", "bob", time.Hour, 5))
		refused(t, s, away("ann", "bob", time.Hour, 2), at, Overtaken)
		s = after(t, s, at, away("eve", "bob", time.Hour, 4), back("ann", 6)) // those of others are not concerned
		refused(t, s, away("ann", "carol", time.Hour, 2), at, Overtaken)
		after(t, s, at, away("ann", "carol", time.Hour, 7))
	})
	t.Run("PLUS-23b what makes no sense is refused", func(t *testing.T) {
		t.Parallel()
		refused(t, State{}, away("ann", "Ann", time.Hour, 1), at, Input)
		refused(t, State{}, away("ann", "bob", 0, 1), at, Input)
		refused(t, State{}, away("ann", "bob", events.MaxAbsence+time.Second, 1), at, Input)
		after(t, State{}, at, away("ann", "bob", events.MaxAbsence, 1))
		for _, c := range []events.DeputyControl{{}, {Action: "x"}, {Action: events.AwayAction, To: "bob"}, {Action: events.AwayAction, Until: at},
			{Action: events.AwayAction, To: "a.b", Until: at}, {Action: events.AwayAction, To: "*", Until: at}, {Action: events.AwayAction, To: events.Gateway, Until: at},
			{Action: events.BackAction, To: "bob"}, {Action: events.BackAction, Reason: strings.Repeat("x", events.MaxReason+1)}} {
			if c.Check() == nil {
				t.Errorf("%+v", c)
			}
		}
		var s State
		for n := range events.MaxDeputies {
			s = after(t, s, at, away(fmt.Sprint("p", n), "bob", time.Hour, 0))
		}
		refused(t, s, away("one-more", "bob", time.Hour, 0), at, Full)
		after(t, s, at, away("p0", "dan", time.Hour, 0))
		after(t, s, at.Add(time.Hour), away("one-more", "bob", 2*time.Hour, 0))
	})
}
