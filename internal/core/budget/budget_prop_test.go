package budget_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var (
	noon  = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	price = events.Price{Input: 3_000_000, Output: 15_000_000, Cached: 300_000}
)

// created opens a run with the budgets given whose model has a price.
func created(tokens int64, cost events.MicroUSD) *events.RunCreatedData {
	c := runtest.Created()
	a := c.Agents["worker"]
	a.MaxOutputTokens = 100
	c.Agents = map[string]events.Agent{"worker": a}
	c.Options.MaxTokens, c.Options.MaxCost = tokens, cost
	c.Prices = map[string]events.Price{a.Model: price}
	return c
}

func begun(c *events.RunCreatedData, steps ...string) *runtest.Builder {
	b := runtest.New("main", "r1")
	plan := make([]events.PlanStep, len(steps))
	for i, s := range steps {
		plan[i] = runtest.Step(s)
	}
	b.Append(c, runtest.Started(), runtest.Plan(plan...))
	for _, s := range steps {
		b.Append(runtest.Ready(s), runtest.Allowed(s))
	}
	return b
}

// Whoever asks looks at a state that may be old, several steps ask side by side, and answers use at most what was set
// aside: the budget is never exceeded, and the steps that still run are never all stuck.
func TestBudgetProperty(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 steps side by side never use more than the budget, whatever they are told late", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.Int64Range(1, 20_000).Draw(t, "tokens")
			money := events.MicroUSD(0)
			if rapid.Bool().Draw(t, "money") {
				money = events.MicroUSD(rapid.Int64Range(1, 50_000).Draw(t, "cost"))
			}
			steps := []string{"a", "b", "c"}
			b := begun(created(limit, money), steps...)
			states := []run.State{b.State()}
			flight := map[string]turn.Task{}
			room := map[string]budget.Amount{}
			for i := range rapid.IntRange(1, 60).Draw(t, "moves") {
				id := rapid.SampledFrom(steps).Draw(t, "step")
				if task, asked := flight[id]; asked {
					d := events.TurnFinishedData{Provider: "scripted", Model: "test", InputTokens: int(rapid.Int64Range(0, room[id].Tokens-100).Draw(t, "in")),
						OutputTokens: rapid.IntRange(0, 100).Draw(t, "out"), FinishReason: events.FinishToolUse,
						Calls: []events.RequestedCall{{ProviderID: "p", Tool: "read", Input: fmt.Appendf(nil, "%d", i)}}}
					b.Append(turn.Finish(b.State(), task, turn.Answer{Data: d})...)
					for call, c := range b.State().Open {
						if c.Step == id {
							ref := runtest.Ref(id, call, "read")
							b.Append(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "ok"))
						}
					}
					delete(flight, id)
				} else {
					// A debt is looked at in any state since it was made.
					s := states[rapid.IntRange(0, len(states)-1).Draw(t, "seen")]
					now := b.State()
					if o, n := s.Step(id), now.Step(id); o.Owed != n.Owed || o.Status != n.Status || n.Status != events.StepIsRunning {
						s = now
					}
					switch duty := turn.Next(s, id, noon); {
					case duty.Ask != nil:
						need, err := budget.Reserve(s, duty.Ask.Step)
						if err != nil {
							t.Fatal(err)
						}
						flight[id], room[id] = *duty.Ask, need
					case len(duty.Append) > 0:
						b.Append(turn.Next(b.State(), id, noon).Append...)
					}
				}
				states = append(states, b.State())
				used := budget.Used(b.State())
				for other := range flight {
					used.Tokens, used.Cost = used.Tokens+room[other].Tokens, used.Cost+room[other].Cost
				}
				if used.Tokens > limit || money > 0 && used.Cost > money {
					t.Fatalf("%+v used and set aside, the budget is %d and %s", used, limit, money)
				}
				after := b.State()
				running, stuck := false, len(flight) == 0
				for _, st := range after.Plan.Steps {
					on := st.Status == events.StepIsRunning
					running, stuck = running || on, stuck && (!on || !turn.Next(after, st.ID, noon).Wait.IsZero())
				}
				if running && stuck {
					t.Fatal("all steps wait for each other")
				}
			}
		})
	})
}
