package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// hooked is a law with the answers that are there, by call.
func hooked(answers map[string]string, rules ...events.Rule) Policy {
	l := law(rules...)
	l.Hooks = func(_ events.Agent, c *run.Call, _ string, _ json.RawMessage) ([]events.HookAnswer, bool) {
		a, ok := answers[c.ID]
		return []events.HookAnswer{{Hook: "station:h", On: events.OnPreTool, Answer: a, Message: "because"}}, ok
	}
	return l
}

func TestHooks(t *testing.T) {
	t.Parallel()
	bash := runtest.Asked(1, 1, "bash", `{"command":"make"}`)
	t.Run("GUARD-2 GUARD-14 no answer, no verdict; each answer stands in the verdict that follows from it", func(t *testing.T) {
		t.Parallel()
		b := asking(10, bash)
		if say := look(t, b, hooked(nil)); len(say) != 0 {
			t.Fatalf("before the hook was asked: %v", say)
		}
		a, ok := look(t, b, hooked(map[string]string{"c1-1": "continue"}))[0].(*events.CallAllowedData)
		if !ok || len(a.Hooks) != 1 {
			t.Errorf("%+v", a)
		}
		for _, answer := range []string{"block", "", "allow"} {
			r, ok := look(t, b, hooked(map[string]string{"c1-1": answer}))[0].(*events.CallRefusedData)
			if !ok || r.Code != events.RefusedHook || r.Rule != "hook:station:h" || !strings.Contains(r.Reason, "because") || len(r.Hooks) != 1 || r.RulesDigest == "" {
				t.Errorf("%q: %+v", answer, r)
			}
		}
		g, ok := look(t, b, hooked(map[string]string{"c1-1": "interrupt"}))[0].(*events.GateOpenedData)
		if !ok || g.Rule != "hook:station:h" || len(g.Hooks) != 1 {
			t.Errorf("%+v", g)
		}
	})
	t.Run("GUARD-2 a person who lets an interrupted call go on is not overruled, and no one is asked again", func(t *testing.T) {
		t.Parallel()
		b := asking(10, bash)
		b.Append(look(t, b, hooked(map[string]string{"c1-1": "interrupt"}))...)
		if say := look(t, b, hooked(map[string]string{"c1-1": "continue"})); len(say) != 0 {
			t.Fatalf("law 1: while it waits: %v", say)
		}
		g := b.State().Gates[0]
		answer, err := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", By: "anna", Hash: g.Hash, Input: 4})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(answer...)
		if a, ok := look(t, b, hooked(nil))[0].(*events.CallAllowedData); !ok || a.Gate != g.ID || a.Rule != "hook:station:h" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("GUARD-9 a call whose arguments are still to be fetched is neither refused nor allowed", func(t *testing.T) {
		t.Parallel()
		l := law()
		fetched := false
		l.Input = func(c *run.Call) (json.RawMessage, error) {
			if !fetched && c.ID == "c1-1" {
				return nil, ErrNotFetched
			}
			return c.Input, nil
		}
		b := asking(1, bash, runtest.Asked(1, 2, "read", `{"path":"x"}`))
		if say := look(t, b, l); len(say) != 0 {
			t.Fatalf("before the arguments are there: %v", say)
		}
		fetched = true
		if say := look(t, b, l); len(say) != 2 || say[0].Kind() != events.CallAllowed || say[1].Kind() != events.CallRefused {
			t.Errorf("%v", say)
		}
	})
	t.Run("GUARD-9 a deny of the rules stands whatever a hook says, and a gate of the rules whatever it permits", func(t *testing.T) {
		t.Parallel()
		yes := map[string]string{"c1-1": "continue"}
		if r, ok := look(t, asking(10, runtest.Asked(1, 1, "bash", `{"command":"git push --force"}`)), hooked(yes))[0].(*events.CallRefusedData); !ok || r.Rule != "force-push" || len(r.Hooks) != 0 {
			t.Errorf("%+v", r)
		}
		ask := events.Rule{ID: "careful", Tool: "bash", Action: "ask"}
		if g, ok := look(t, asking(10, bash), hooked(yes, ask))[0].(*events.GateOpenedData); !ok || g.Rule != "careful" || len(g.Hooks) != 1 {
			t.Errorf("%+v", g)
		}
		if r, ok := look(t, asking(10, bash), hooked(map[string]string{"c1-1": "block"}, ask))[0].(*events.CallRefusedData); !ok || r.Code != events.RefusedHook {
			t.Errorf("%+v", r)
		}
	})
	t.Run("PROP-9 TOOL-8 GUARD-2 the budget is kept whichever answers come when, and nothing is refused for it too early", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 6).Draw(t, "calls")
			budget := rapid.IntRange(0, 6).Draw(t, "budget")
			var calls []events.RequestedCall
			for i := range n {
				calls = append(calls, runtest.Asked(1, i+1, "bash", fmt.Sprintf(`{"command":"make %d"}`, i)))
			}
			b := asking(budget, calls...)
			answers, want, blocked := map[string]string{}, 0, 0
			order := rapid.Permutation(calls).Draw(t, "order")
			for _, c := range order {
				answers[c.ID] = rapid.SampledFrom([]string{"continue", "block"}).Draw(t, c.ID)
				say, err := Look(b.State(), noon, hooked(answers))
				if err != nil {
					t.Fatal(err)
				}
				b.Append(say[:rapid.IntRange(0, len(say)).Draw(t, "cut")]...)
			}
			rest, err := Look(b.State(), noon, hooked(answers))
			if err != nil {
				t.Fatal(err)
			}
			b.Append(rest...)
			if again, _ := Look(b.State(), noon, hooked(answers)); len(again) != 0 {
				t.Fatalf("law 1: said again %v", again)
			}
			s := b.State()
			for _, c := range calls {
				if answers[c.ID] == "continue" {
					want++
				}
			}
			for _, r := range run.All(s.ToolCallHistory) {
				if r.Code == events.RefusedHook {
					blocked++
				}
			}
			if s.CallsHeld != min(want, budget) {
				t.Fatalf("%d allowed and %d blocked, of %d with yes and a budget of %d", s.CallsHeld, blocked, want, budget)
			}
		})
	})
}
