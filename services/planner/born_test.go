package planner

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

const short = `,"long_running":false`

// given gives the lock of a run to another one.
func (d *desk) given(from, to string) {
	d.drop(from)
	d.must(task(to, "s", ""))
}

// dispossessed checks that a run ended because another one has its lock.
func (d *desk) dispossessed(id, other string) {
	d.t.Helper()
	e, s := d.session(), d.state(id)
	if _, held := e.Holder(other); !held || len(e.Holders) != 1 || e.Parts != 0 {
		d.t.Errorf("%+v", e)
	}
	if s.Status != events.Failed || s.Result.FinishReason != events.FinishCancelled || !strings.Contains(s.Result.Error, "session s was acquired") {
		d.t.Errorf("%s %+v", s.Status, s.Result)
	}
}

func TestSessionBirths(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"long": "", "short": short} {
		t.Run("SESS-3 SESS-7 the planner dies before it has confirmed the lock of a run, which is given to another one: "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kv.meanwhile = func() { d.kv.meanwhile = func() { d.kv.full = true } }
			if err := d.receive(task("r1", "s", more)); !errors.Is(err, kernel.ErrFull) {
				t.Fatal(err)
			}
			if s := d.state("r1"); s.Sequence != 1 || s.Direct() || s.Status != events.Created {
				t.Fatalf("event %d", s.Sequence)
			}
			d.given("r1", "r2")
			d.again()
			d.must(task("r1", "s", more))
			d.dispossessed("r1", "r2")
		})
	}
	for name, more := range map[string]string{"long": "", "short": short} {
		t.Run("SESS-3 SESS-7 another delivery of a task makes its run meanwhile and dies, and the lock is given to another one: "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kv.meanwhile = func() {
				d.kv.meanwhile = func() { d.kv.meanwhile = func() { d.kv.full = true } }
				if err := d.receive(task("r1", "s", more)); !errors.Is(err, kernel.ErrFull) {
					t.Errorf("the run was begun: %v", err)
				}
				d.given("r1", "r2")
			}
			d.must(task("r1", "s", more))
			d.dispossessed("r1", "r2")
		})
	}
	t.Run("SESS-3 SESS-7 a task that comes again does not end its run, which has its lock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", short))
		d.again()
		d.must(task("r1", "s", short))
		if _, held := d.session().Holder("r1"); !held || d.state("r1").Status != events.Running {
			t.Errorf("%+v", d.session())
		}
	})
}
