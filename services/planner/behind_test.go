package planner

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/resolve"
)

// TestBehind has a planner that remembers a run as it was before a step of it was permitted, which
// another planner then gave to a child.
func TestBehind(t *testing.T) {
	t.Parallel()
	t.Run("SUB-3 SUB-8 the end of a child is settled by a planner that had not seen it being spawned", func(t *testing.T) {
		t.Parallel()
		clock := mem.NewHand(time.Now())
		store, err := mem.New("s1", mem.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		ledger := func(by events.Service) *runlog.Ledger {
			l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: store.JournalOf(by), Entropy: rand.Reader, Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		put := func(l *runlog.Ledger, id string, say ...events.Payload) run.State {
			w, err := l.Write(t.Context(), id, func(s run.State, _ time.Time) ([]events.Payload, error) {
				if len(say) == 0 {
					return nil, nil
				}
				next := say
				say = nil
				return next, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return w.State
		}
		behind, other, keeper := ledger(events.Planner), ledger(events.Planner), ledger(events.Gatekeeper)
		role, err := assemble(t, Config{Ledger: behind, Timers: store.Timers()}, assembly{made: resolve.Config{Agents: none{}}})
		if err != nil {
			t.Fatal(err)
		}
		put(other, "main", runtest.Created(), runtest.Started(), runtest.Plan(runtest.ChildStep("a")), runtest.Ready("a"))
		if s, err := behind.Fresh(t.Context(), "main"); err != nil || child.Owes(s) {
			t.Fatal(err)
		}
		put(keeper, "main", runtest.Allowed("a"))
		s, err := other.Fresh(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		s = put(other, "main", child.Next(s, clock.Now(), role.cfg.Names.Child)...)
		c := s.ChildOf("a")
		created, err := child.Born(s, c, strings.Repeat("a", 64))
		if err != nil {
			t.Fatal(err)
		}
		k := put(other, c.ID, created, runtest.Started(), plan.Single(created.TaskID, created.Task, created.Agent))
		end, err := lifecycle.Stop(k, clock.Now(), lifecycle.Wish{By: "anna"})
		if err != nil {
			t.Fatal(err)
		}
		if put(other, c.ID, end...); len(end) == 0 {
			t.Fatal("the child does not end")
		}
		k, err = behind.Fresh(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // as it is delivered twice
			if err := role.Event(t.Context(), runlog.ReceivedEvent{State: k, Kind: events.RunFailed, Run: c.ID, Deliveries: 1}); err != nil {
				t.Fatal(err)
			}
			s, err = other.Fresh(t.Context(), "main")
			if err != nil || len(s.Children) != 1 || s.Children[0].Lives() || s.Children[0].FinishReason != events.FinishStopped {
				t.Fatalf("%v %+v", err, s.Children[0])
			}
		}
	})
}
