package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// thrifty answers at once and uses 600 tokens, which is less than is set aside for its turn.
const thrifty = `
turns:
  - text: Done.
    usage: {input: 200, output: 400}
`

// budgets folds the budgets of the station from their log.
func (w *world) budgets() budgets.State {
	w.t.Helper()
	l, err := budgets.NewLedger(budgets.LedgerConfig{Station: "test", By: events.Planner, Journal: w.ports.BudgetLog,
		Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := l.Fresh(w.ctx(), events.BudgetID)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// budget sets a budget and returns once it is recorded.
func (w *world) budget(scope, of string, l events.BudgetLimits) {
	w.t.Helper()
	name, err := events.BudgetName(scope, of)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal(events.BudgetControl{Action: events.SetAction, Scope: scope, Of: of, BudgetLimits: l, By: "olga"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.BudgetSubject("test"), string(b))
	w.until("the budget is set", func() bool {
		is, ok := w.budgets().Find(name)
		return ok && is.BudgetLimits == l
	})
}

// taskOf sends a task of a project.
func (w *world) taskOf(project string, t events.Task) {
	w.t.Helper()
	b, err := json.Marshal(t)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.TaskSubject("test")+"."+project, string(b))
}

// spentBy is what the runs with some ids have used by themselves.
func (w *world) spentBy(ids ...string) (sum int64) {
	w.t.Helper()
	for _, id := range ids {
		sum += budget.Alone(w.state(id)).Tokens
	}
	return sum
}

// pausedFor waits until a run is paused for a budget.
func (w *world) pausedFor(id, name string) run.State {
	w.t.Helper()
	w.until(id+" waits for budget "+name, func() bool {
		s := w.state(id)
		return s.Status == events.Paused && strings.HasPrefix(s.PauseReason, "budget "+name)
	})
	return w.state(id)
}

// shifted is a clock that can be set forward.
type shifted struct{ by atomic.Int64 }

func (c *shifted) now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func TestSharedBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clock := &shifted{}
	w.ports.ScheduleClock = clock.now
	w.agent(events.Agent{Name: "thrifty", MaxOutputTokens: 500}, thrifty)
	w.start(events.Planner, events.Gatekeeper, events.Executor, events.Toolrunner, events.Persister)
	w.start(events.Planner, events.Executor) // two of each at once

	t.Run("PLUS-21b runs of a project stay within its month together, the one that meets the limit is paused, and goes on when the budget is raised", func(t *testing.T) {
		w := w.on(t)
		w.budget(events.ScopeProject, "web", events.BudgetLimits{Tokens: 3000})
		var ids []string
		for i := range 10 {
			id := fmt.Sprintf("web-%d", i)
			ids = append(ids, id)
			w.taskOf("web", events.Task{ID: id, Agent: "thrifty", Task: "go", By: "ada"})
		}
		stands := func() (done, waits int) {
			for _, id := range ids {
				switch s := w.state(id); {
				case s.Status == events.Completed:
					done++
				case s.Status == events.Paused && strings.HasPrefix(s.PauseReason, "budget project.web"):
					waits++
				}
			}
			return done, waits
		}
		var done, waits int
		w.until("all runs are done or wait, and all that are done are settled", func() bool {
			done, waits = stands()
			b := w.budgets()
			is, _ := b.Find("project.web")
			return done+waits == len(ids) && waits > 0 && is.Used.Tokens == int64(done)*600 && len(b.Holds) == waits &&
				len(budgets.Waiting(b)) == waits
		})
		if used := w.spentBy(ids...); done != 4 || used > 3000 {
			t.Errorf("%d done, %d wait, %d tokens used", done, waits, used)
		}
		w.budget(events.ScopeProject, "web", events.BudgetLimits{Tokens: 60_000})
		for _, id := range ids {
			if s := w.ended(id); s.Status != events.Completed {
				t.Errorf("%s: %+v", id, s.Result)
			}
		}
		w.until("all is settled", func() bool {
			b := w.budgets()
			is, _ := b.Find("project.web")
			return is.Used.Tokens == 6000 && len(b.Holds) == 0
		})
	})
	t.Run("PLUS-21c a run of a user waits for the next month, and a person who resumes it before changes nothing", func(t *testing.T) {
		w := w.on(t)
		w.budget(events.ScopeUser, "bert", events.BudgetLimits{Tokens: 500})
		w.task(events.Task{ID: "bert-1", Agent: "thrifty", Task: "go", By: "bert"})
		w.task(events.Task{ID: "carl-1", Agent: "thrifty", Task: "go", By: "carl"})
		s := w.pausedFor("bert-1", "user.bert")
		if !strings.Contains(s.PauseReason, events.NextMonth(clock.now()).Format(time.RFC3339)) {
			t.Errorf("%q", s.PauseReason)
		}
		w.publish(events.ControlSubject("test", "bert-1"), `{"action":"resume","by":"bert"}`)
		w.until("it is paused again", func() bool {
			s := w.state("bert-1")
			return s.ResumedAt > 0 && lastPaused(s)
		})
		if s := w.ended("carl-1"); s.Status != events.Completed || w.spentBy("bert-1") != 0 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-21d runs beyond those that may work at a time wait, and other projects do not", func(t *testing.T) {
		w := w.on(t)
		w.budget(events.ScopeProject, "mass", events.BudgetLimits{Runs: 2})
		var ids []string
		for i := range 12 {
			id := fmt.Sprintf("mass-%d", i)
			ids = append(ids, id)
			w.taskOf("mass", events.Task{ID: id, Agent: "thrifty", Task: "go"})
		}
		w.taskOf("other", events.Task{ID: "other-1", Agent: "thrifty", Task: "go"})
		w.ended("other-1")
		for _, id := range ids {
			if s := w.ended(id); s.Status != events.Completed {
				t.Errorf("%s: %+v", id, s.Result)
			}
		}
		w.until("all is settled", func() bool { _, working, waiting := w.budgets().Held("project.mass"); return working+waiting == 0 })
	})
}

func lastPaused(s run.State) bool {
	return s.Status == events.Paused && strings.HasPrefix(s.PauseReason, "budget ")
}
