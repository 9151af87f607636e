package budget_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCost(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 a cost is whole millionths, rounded up; what was cached has its own price", func(t *testing.T) {
		t.Parallel()
		prices := map[string]events.Price{"a/b": price, "c/d": {Input: 1, Output: 1}}
		for _, c := range []struct {
			refs, provider, model string
			u                     budget.Usage
			ref                   string
			cost                  events.MicroUSD
		}{
			{"a/b", "a", "b-2030", budget.Usage{Input: 1_000_000}, "a/b", 3_000_000},
			{"a/b", "a", "b", budget.Usage{Input: 1000, Cached: 1000, Output: 10}, "a/b", 450},
			{"c/d", "c", "d", budget.Usage{Input: 1}, "c/d", 1},
			{"x/y", "x", "y", budget.Usage{Input: 1e9}, "x/y", 0},
			{"c/d,a/b", "c", "d-1", budget.Usage{Input: 1000}, "c/d", 1},
			{"c/d,a/b", "elsewhere", "?", budget.Usage{Input: 1000}, "a/b", 3000},
		} {
			ref, cost := budget.Paid(prices, c.refs, c.provider, c.model, c.u)
			if ref != c.ref || cost != c.cost {
				t.Errorf("%s answered by %s/%s: got %s for %s, want %s for %s", c.refs, c.provider, c.model, cost, ref, c.cost, c.ref)
			}
		}
	})
	t.Run("PLUS-3 the longest name that fits has the price", func(t *testing.T) {
		t.Parallel()
		table := budget.Table{"a/*": {Input: 1}, "a/big*": {Input: 2}, "a/big": {Input: 3}}
		for ref, want := range map[string]events.MicroUSD{"a/small": 1, "a/big-2": 2, "a/big": 3} {
			if p, ok := table.Find(ref); !ok || p.Input != want {
				t.Errorf("%s: got %d, want %d", ref, p.Input, want)
			}
		}
		if _, ok := table.Find("b/x"); ok {
			t.Error("a model that no name fits has a price")
		}
	})
	t.Run("PLUS-3 the limit of an answer that is set aside is the one that is asked for", func(t *testing.T) {
		t.Parallel()
		if budget.DefaultMaxOutput != llm.DefaultMaxOutputTokens {
			t.Errorf("%d is set aside, %d asked for", budget.DefaultMaxOutput, llm.DefaultMaxOutputTokens)
		}
	})
}

func TestAsk(t *testing.T) {
	t.Parallel()
	next := func(b *runtest.Builder, step string, lost int) turn.Duty {
		return turn.NextAfter(b.State(), step, noon, lost)
	}
	need := func(b *runtest.Builder) budget.Amount {
		s := b.State()
		a, err := budget.Reserve(s, s.Step("a"))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	all := need(begun(created(1, 0), "a"))
	t.Run("PLUS-3ab LOOP-4 a turn that fits to the last token and millionth is asked for, one that does not ends the step with its own reason", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			tokens int64
			cost   events.MicroUSD
			reason string
		}{{all.Tokens, 0, ""}, {all.Tokens - 1, 0, events.FinishTokens}, {0, all.Cost, ""}, {0, all.Cost - 1, events.FinishCost}, {0, 0, ""}} {
			duty := next(begun(created(c.tokens, c.cost), "a"), "a", 0)
			if c.reason == "" {
				if duty.Ask == nil {
					t.Errorf("%+v: %+v", c, duty)
				}
				continue
			}
			f, ok := duty.Append[0].(*events.StepFailedData)
			if !ok || f.FinishReason != c.reason || f.RunReason != c.reason || !strings.Contains(f.Error, "maxOutputTokens") {
				t.Errorf("%+v: %+v", c, duty.Append)
			}
		}
	})
	t.Run("PLUS-3 of two steps that cannot both be served the later one waits, and goes on or ends by what the first one used", func(t *testing.T) {
		t.Parallel()
		for _, used := range []int{10, int(all.Tokens) - 100} {
			b := begun(created(all.Tokens*3/2, 0), "a", "b")
			first, second := next(b, "a", 0), next(b, "b", 0)
			if first.Ask == nil || second.Wait.IsZero() || second.Ask != nil {
				t.Fatalf("%+v %+v", first, second)
			}
			b.Append(turn.Finish(b.State(), *first.Ask, turn.Answer{Data: events.TurnFinishedData{InputTokens: used, FinishReason: events.FinishDone}})...)
			duty := next(b, "b", 0)
			if fits := int64(used)+all.Tokens <= all.Tokens*3/2; fits != (duty.Ask != nil) || fits == (len(duty.Append) > 0) {
				t.Errorf("%d used: %+v", used, duty)
			}
		}
	})
	t.Run("PLUS-3 a request of which no one knows counts as what was set aside for it", func(t *testing.T) {
		t.Parallel()
		b := begun(created(all.Tokens*2, 0), "a")
		duty := next(b, "a", 1)
		if duty.Ask == nil || len(next(b, "a", 2).Append) == 0 {
			t.Fatal("one lost request leaves room for another one, two do not")
		}
		b.Append(turn.Finish(b.State(), *duty.Ask, turn.Answer{Data: events.TurnFinishedData{InputTokens: 1, FinishReason: events.FinishDone}})...)
		if s := b.State(); s.Lost.Requests != 1 || s.Lost.Tokens != all.Tokens || budget.Used(s).Tokens != all.Tokens+1 {
			t.Errorf("%+v, used %+v", s.Lost, budget.Used(s))
		}
		b = begun(created(all.Tokens*3, 0), "a")
		b.Append(turn.Fail(b.State(), *next(b, "a", 0).Ask, turn.Failure{Error: "cut", Retryable: true, Begun: true}, noon)...)
		if s := b.State(); s.Lost.Requests != 1 || s.Lost.Tokens != all.Tokens {
			t.Errorf("an answer that was cut: %+v", s.Lost)
		}
	})
	t.Run("PLUS-3 a model without a price and a budget of money close each other out", func(t *testing.T) {
		t.Parallel()
		c := created(0, 1_000_000_000)
		c.Prices = nil
		f := next(begun(c, "a"), "a", 0).Append[0].(*events.StepFailedData)
		if f.FinishReason != events.FinishCost || !strings.Contains(f.Error, "INSPAN_PRICES") {
			t.Errorf("%+v", f)
		}
		if _, err := (budget.Table{}).Pin(c.Agents, true); err == nil {
			t.Error("a model without a price was pinned")
		}
		if pinned, err := (budget.Table{}).Pin(c.Agents, false); err != nil || pinned != nil {
			t.Errorf("%v %v", pinned, err)
		}
	})
	t.Run("PLUS-3 the sums of a run are those of its own prices, and the log gives them again", func(t *testing.T) {
		t.Parallel()
		b := begun(created(0, 1_000_000), "a")
		b.Append(turn.Finish(b.State(), *next(b, "a", 0).Ask, turn.Answer{Data: events.TurnFinishedData{InputTokens: 1000, OutputTokens: 100, CachedTokens: 500, FinishReason: events.FinishDone}})...)
		again, err := run.Fold(run.State{}, b.Events()...)
		want := events.MicroUSD(500*3 + 150 + 1500)
		if err != nil || again.Cost != want || len(again.Spent) != 1 || again.Spent[0].Cost != want || !again.Spent[0].Priced {
			t.Errorf("%v: %s, %+v; want %s", err, again.Cost, again.Spent, want)
		}
	})
}
