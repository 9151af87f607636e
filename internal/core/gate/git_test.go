package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// gitLaw knows every tool and has no rules but the built-in ones.
func gitLaw(t *testing.T) Policy {
	t.Helper()
	rules, err := guard.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Tool: func(events.Agent, string) (Tool, bool) { return Tool{Effect: "idempotent"}, true },
		Check:  func(events.Agent, string, json.RawMessage) error { return nil },
		Input:  func(c *run.Call) (json.RawMessage, error) { return c.Input, nil },
		Rules:  func(events.Agent) (guard.Set, error) { return rules, nil },
		Action: func(tool string, _ json.RawMessage) guard.Action { return guard.Action{Tool: tool} }}
}

// delivering is a run at a given autonomy level that asks for one call in its delivery, with a budget of no calls.
func delivering(t *testing.T, autonomy int, approval bool, tool string) *runtest.Builder {
	t.Helper()
	return deliveringWith(t, autonomy, approval, tool, inputs[tool])
}

func deliveringWith(t *testing.T, autonomy int, approval bool, tool, input string) *runtest.Builder {
	t.Helper()
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Options.Autonomy, c.Options.MaxToolCalls = autonomy, 0
	c.Git = &events.GitWork{Collaboration: events.Sequential, RequireApproval: approval}
	b.Append(c, runtest.Started(), delivery.Wrap(c.Git, runtest.Plan(runtest.Step("a"))))
	for _, id := range []string{events.CheckoutStep, "a"} {
		b.Append(runtest.Ready(id), runtest.Allowed(id), runtest.StepDone(id, "done"))
	}
	b.Append(runtest.Ready(events.DeliverStep), runtest.Allowed(events.DeliverStep), runtest.Turn(1, events.DeliverStep, "", runtest.Asked(1, 1, tool, input)))
	return b
}

// inputs of the tools; all but the merge have the same.
var inputs = map[string]string{events.GitPush: pushed, events.GitCommit: pushed, events.GitPublish: pushed, events.GitMerge: `{"from":["a"],"onto":"1","commits":["2"]}`}

const pushed = `{"branch":"x","commit":"1"}`

func TestGit(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 C18 a push and a merge need a yes at every autonomy level, unless that is switched off; the budget of calls is the agents'", func(t *testing.T) {
		t.Parallel()
		for autonomy := 1; autonomy <= 5; autonomy++ {
			for tool, gated := range map[string]bool{events.GitPush: true, events.GitMerge: true, events.GitCommit: false, events.GitPublish: false} {
				for _, approval := range []bool{true, false} {
					b := delivering(t, autonomy, approval, tool)
					say, err := Look(b.State(), noon, gitLaw(t))
					if err != nil || len(say) != 1 {
						t.Fatalf("%v %v", say, err)
					}
					want := events.CallAllowed
					if gated && approval {
						want = events.GateOpened
					}
					if say[0].Kind() != want {
						t.Errorf("autonomy %d, %s, approval %v: %s, want %s", autonomy, tool, approval, say[0].Kind(), want)
					}
				}
			}
		}
	})
	t.Run("GATE-13 no one is asked about a merge that does not name the commits of both sides", func(t *testing.T) {
		t.Parallel()
		for _, input := range []string{`{"from":["a"]}`, `{"from":["a"],"onto":"1"}`, `{"from":["a"],"commits":["2"]}`, `{"from":["a","b"],"onto":"1","commits":["2"]}`} {
			for _, approval := range []bool{true, false} {
				b := deliveringWith(t, 5, approval, events.GitMerge, input)
				say, err := Look(b.State(), noon, gitLaw(t))
				if err != nil || len(say) != 1 {
					t.Fatalf("%v %v", say, err)
				}
				if no, refused := say[0].(*events.CallRefusedData); refused != approval || refused && (no.Code != events.RefusedInput || !strings.Contains(no.Hint, "sides")) {
					t.Errorf("%s, approval %v: %+v", input, approval, say[0])
				}
			}
		}
	})
	t.Run("GATE-13 SAFE-9 the yes is for the very arguments", func(t *testing.T) {
		t.Parallel()
		b := delivering(t, 5, true, events.GitPush)
		say, _ := Look(b.State(), noon, gitLaw(t))
		g := say[0].(*events.GateOpenedData)
		b.Append(g)
		if g.Rule != delivery.RuleApproval {
			t.Errorf("%+v", g)
		}
		b.Append(runtest.Yes(b.State().Gates[0]))
		say, _ = Look(b.State(), noon, gitLaw(t))
		if a, ok := say[0].(*events.CallAllowedData); !ok || a.Gate != g.Gate || a.InputHash != digest([]byte(`{"branch":"x","commit":"1"}`)) || a.BudgetLeft != 0 {
			t.Errorf("%+v", say)
		}
	})
	t.Run("GATE-13 a no refuses the call of the harness at once, and no run is paused for it", func(t *testing.T) {
		t.Parallel()
		b := delivering(t, 5, true, events.GitPush)
		say, _ := Look(b.State(), noon, gitLaw(t))
		b.Append(say...)
		g := b.State().Gates[0]
		b.Append(runtest.No(g, "not now"))
		if paused, _ := lifecycle.Rejected(b.State(), noon); len(paused) != 0 {
			t.Errorf("%+v", paused)
		}
		say, _ = Look(b.State(), noon, gitLaw(t))
		if len(say) != 1 {
			t.Fatalf("%v", say)
		}
		if no, ok := say[0].(*events.CallRefusedData); !ok || no.Code != events.RefusedByPerson {
			t.Errorf("%+v", say[0])
		}
	})
	t.Run("GUARD-9 a step of the harness may call its own tools and no other", func(t *testing.T) {
		t.Parallel()
		for _, tool := range []string{"bash", "write", "git_branch"} {
			b := delivering(t, 5, true, tool)
			say, _ := Look(b.State(), noon, gitLaw(t))
			if no, ok := say[0].(*events.CallRefusedData); !ok || no.Code != events.RefusedPermission {
				t.Errorf("%s: %s", tool, fmt.Sprint(say))
			}
		}
	})
}
