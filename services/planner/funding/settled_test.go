package funding

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/part"
)

// onLedger is the runs of a ledger; nothing is to be changed or opened.
type onLedger struct {
	part.Runs
	*runlog.Ledger
}

func (l onLedger) Fresh(ctx context.Context, id string) (run.State, error) {
	return l.Ledger.Fresh(ctx, id)
}

func (l onLedger) State(ctx context.Context, id string) (run.State, error) {
	s, _, err := l.Ledger.State(ctx, id)
	return s, err
}

func (l onLedger) Write(ctx context.Context, id string, decide runlog.Decide) (runlog.Written, error) {
	return l.Ledger.Write(ctx, id, decide)
}

// TestSettledSinceRead has a planner look at a run that another one let go on, and that has ended and been settled
// since.
func TestSettledSinceRead(t *testing.T) {
	t.Parallel()
	s, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	rows := s.KV(topology.SessionBucket)
	log, err := budgets.NewLedger(budgets.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalFor(events.BudgetAggregate),
		Snapshots: budgets.View().Snapshots(rows), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	treasurer, err := New(Config{Ledger: log, Rows: rows, Timers: s.Timers()}, onLedger{Ledger: runs})
	if err != nil {
		t.Fatal(err)
	}
	decide := func(change func(budgets.State) (budgets.State, error)) budgets.State {
		t.Helper()
		b, err := treasurer.decide(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	decide(func(b budgets.State) (budgets.State, error) {
		return budgets.Steer(b, budgets.Wish{BudgetControl: events.BudgetControl{Action: "set", Scope: events.ScopeProject, Of: "web",
			BudgetLimits: events.BudgetLimits{Tokens: 3000}}, Input: 1}, time.Now())
	})
	decide(func(b budgets.State) (budgets.State, error) {
		return budgets.Reserve(b, budgets.Ask{Run: "r1", Budgets: []string{"project.web"}}, time.Now())
	})
	put := func(by events.Service, next func(s run.State) []events.Payload) run.State {
		t.Helper()
		l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: s.JournalOf(by), Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Write(t.Context(), "r1", func(s run.State, _ time.Time) ([]events.Payload, error) {
			say := next(s)
			next = func(run.State) []events.Payload { return nil }
			return say, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return w.State
	}
	always := func(say ...events.Payload) func(run.State) []events.Payload {
		return func(run.State) []events.Payload { return say }
	}
	created := runtest.Created()
	created.Options.Funds = &events.Funds{Budgets: []string{"project.web"}}
	put(events.Planner, always(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a")))
	read := put(events.Gatekeeper, always(runtest.Allowed("a")))
	put(events.Executor, always(runtest.Turn(1, "a", "Done."), runtest.StepDone("a", "Done.")))
	put(events.Planner, always(runtest.PlanDone(1)))
	end := put(events.Planner, func(s run.State) []events.Payload { return []events.Payload{runtest.Completed(s)} })
	if err := treasurer.Ended(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-21b a run that was settled since it was read gets no hold again, and is charged once", func(t *testing.T) {
		_, h, err := treasurer.reserve(t.Context(), read, true)
		now, fresh := log.Fresh(t.Context(), events.BudgetID)
		if err != nil || fresh != nil || h.Run != "" {
			t.Fatal(h, err, fresh)
		}
		if web, _ := now.Find("project.web"); web.Used.Tokens != budget.Alone(end).Tokens || web.Used.Tokens == 0 || len(now.Holds) > 0 {
			t.Errorf("%+v, %+v, and the run used %d", web, now.Holds, budget.Alone(end).Tokens)
		}
	})
	t.Run("PLUS-21b a run whose task comes again after its end gets no hold again, though its planner knew it not", func(t *testing.T) {
		again := runtest.Created()
		again.Project, again.Options.Funds = "web", nil
		err := treasurer.Fund(t.Context(), "r1", again, run.State{})
		now, fresh := log.Fresh(t.Context(), events.BudgetID)
		if err != nil || fresh != nil || len(now.Holds) > 0 || again.Options.Funds != nil {
			t.Error(now.Holds, again.Options.Funds, err, fresh)
		}
		another := runtest.Created()
		another.Project = "web"
		if err = treasurer.Fund(t.Context(), "r2", another, run.State{}); err != nil || another.Options.Funds == nil {
			t.Errorf("a run that does not exist got %v, %v", another.Options.Funds, err)
		}
	})
}
