package planner

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/session"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const short = `,"long_running":false`

// turn says a turn of a run's only step, as an executor does that heard of the run at once.
func (d *desk) turn(id string) {
	d.t.Helper()
	l, err := reactor.NewLedger(reactor.LedgerConfig{Station: "s1", By: events.Executor, Journal: d.st.JournalOf(events.Executor), Entropy: rand.Reader})
	if err == nil {
		_, err = l.Write(d.t.Context(), id, func(s run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{&events.TurnFinishedData{Event: "step_complete", Step: s.Plan.Steps[0].ID, Turn: 1, FinishReason: "stop",
				Calls: []events.RequestedCall{{ID: "c1-1", Tool: "read", ProviderID: "p", Input: []byte(`{}`)}}}}, nil
		})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// given gives the lock of a run to another one.
func (d *desk) given(from, to string) {
	d.put(session.Drop(d.session(), from))
	d.must(task(to, "s", ""))
}

// dispossessed checks that a run ended because another one has its lock.
func (d *desk) dispossessed(id, other string) {
	d.t.Helper()
	e, s := d.session(), d.state(id)
	if _, held := e.Holder(other); !held || len(e.Holders) != 1 || e.Parts != 0 {
		d.t.Errorf("%+v", e)
	}
	if s.Status != events.Failed || s.Result.FinishReason != events.FinishCancelled || !strings.Contains(s.Result.Error, "session s was given") {
		d.t.Errorf("%s %+v", s.Status, s.Result)
	}
}

func TestSessionBirths(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-14 SESS-5 the first fact of a direct run of a session says what that of any direct run says", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", short))
		d.must(letter{events.TaskSubject("s1"), `{"id":"r2","agent":"a","task":"do r2"` + short + `}`, 2})
		in, out := d.state("r1").Created, d.state("r2").Created
		if in.SessionFence != 1 || in.Event != out.Event || in.AgentID != out.AgentID || in.AgentName != out.AgentName || in.MaxSteps != out.MaxSteps || in.To != out.To || out.Event != events.RunStart {
			t.Errorf("%+v\n%+v", in, out)
		}
	})
	for name, more := range map[string]string{"wrapped": "", "direct": short} {
		t.Run("SESS-3 SESS-7 the planner dies before it has confirmed the lock of a run, which is given to another one: "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.shelf.meanwhile = func() { d.shelf.meanwhile = func() { d.shelf.fail = errCut } }
			if err := d.hear(task("r1", "s", more)); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if s := d.state("r1"); s.Sequence != 1 || s.Direct() != (more != "") {
				t.Fatalf("fact %d", s.Sequence)
			}
			d.given("r1", "r2")
			d.again()
			d.must(task("r1", "s", more))
			d.dispossessed("r1", "r2")
		})
	}
	t.Run("SESS-3 LIFE-14 a direct run that took a turn before its lock was confirmed ends where another run has it", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.shelf.meanwhile = func() {
			d.shelf.meanwhile = func() {
				d.turn("r1")
				d.given("r1", "r2")
			}
		}
		d.must(task("r1", "s", short))
		d.dispossessed("r1", "r2")
	})
	t.Run("SESS-3 LIFE-14 a direct run that was paused before its lock was confirmed ends where another run has it", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.shelf.meanwhile = func() {
			d.shelf.meanwhile = func() {
				d.must(letter{events.ControlSubject("s1", "r1"), `{"action":"pause"}`, 3})
				d.given("r1", "r2")
			}
		}
		d.must(task("r1", "s", short))
		d.dispossessed("r1", "r2")
	})
	t.Run("SESS-3 SESS-7 a task that comes again does not end its run, which has its lock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", short))
		d.turn("r1")
		d.again()
		d.must(task("r1", "s", short))
		if _, held := d.session().Holder("r1"); !held || d.state("r1").Status != events.Running {
			t.Errorf("%+v", d.session())
		}
	})
}
