package toolrunner

import (
	"context"
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 a call is owed an attempt, nothing while an instance that lives works on it, and its outcome is unknown once that is lost", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		next := func() call.Kind {
			t.Helper()
			d, err := b.role.admit.next(t.Context(), runID, callID, b.State())
			if err != nil {
				t.Fatal(err)
			}
			return d.Kind
		}
		if got := next(); got != call.Begin {
			t.Errorf("allowed: got %v, want Begin", got)
		}
		begun := runtest.CallBegun(runtest.Ref("a", callID, "bash"), 1)
		b.Say(events.Toolrunner, begun)
		if got := next(); got != call.Unknown {
			t.Errorf("its instance is lost: got %v, want Unknown", got)
		}
		if err := b.Station.Leases().Renew(t.Context(), begun.Runner); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != call.Watch {
			t.Errorf("its instance lives: got %v, want Watch", got)
		}
	})
	t.Run("SAFE-7 its own instance works on it for as long as a worker does", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		begun := runtest.CallBegun(runtest.Ref("a", callID, "bash"), 1)
		begun.Runner = b.role.cfg.Instance
		leave, err := b.role.admit.claim(t.Context(), b.admitted())
		if err != nil {
			t.Fatal(err)
		}
		b.Say(events.Toolrunner, begun)
		for _, want := range []call.Kind{call.Watch, call.Unknown} {
			if d, err := b.role.admit.next(t.Context(), runID, callID, b.State()); err != nil || d.Kind != want {
				t.Errorf("got %v, %v, want %v", d.Kind, err, want)
			}
			if want == call.Watch {
				leave()
			}
		}
	})
	t.Run("SAFE-7 SBX-17 what a lost instance left on the machine is ended before its call goes on here, and only that of a lost one", func(t *testing.T) {
		t.Parallel()
		b, ended := newBed(t, call.Once), 0
		d := b.role.admit
		d.reap = func(context.Context) { ended++ }
		begun := runtest.CallBegun(runtest.Ref("a", callID, "bash"), 1)
		look := func(want int) {
			t.Helper()
			if _, err := d.next(t.Context(), runID, callID, b.State()); err != nil || ended != want {
				t.Errorf("%v, ended %d times, want %d", err, ended, want)
			}
		}
		look(0) // no one has begun it
		b.Say(events.Toolrunner, begun)
		look(1)
		if err := b.Station.Leases().Renew(t.Context(), begun.Runner); err != nil {
			t.Fatal(err)
		}
		look(1)
	})
	t.Run("where calls come from messages and republished events, one worker has a call", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		d := b.role.admit
		d.follow = true
		leave, err := d.claim(t.Context(), b.admitted())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.claim(t.Context(), b.admitted()); !later(err) {
			t.Errorf("a second worker: got %v, want a kernel.Later", err)
		}
		leave()
		if again, err := d.claim(t.Context(), b.admitted()); err != nil {
			t.Errorf("when the first has left: %v", err)
		} else {
			again()
		}
	})
}

func later(err error) bool {
	_, is := errors.AsType[*kernel.RetryAfter](err)
	return is
}
