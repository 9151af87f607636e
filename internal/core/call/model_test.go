package call

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var theProgram = runtest.Ref("a", "c1-1", events.ToolRuntime)

// programmed is a run with a budget whose call c1-1 is carried out by a program.
func programmed(o func(*events.Options), prices map[string]events.Price) *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	a := c.Agents["worker"]
	a.Runtime, a.Model = &events.Runtime{Name: "p", Model: &events.RuntimeModel{API: events.FormAnthropic}}, "runtime/p"
	c.Agents, c.Prices = map[string]events.Agent{"worker": a}, prices
	o(&c.Options)
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "a program works", runtest.Asked(1, 1, events.ToolRuntime, `{"prompt":"work"}`)),
		runtest.CallYes(theProgram, Reconcilable), runtest.CallBegun(theProgram, 1))
	b.Append(runtest.Progressed(b.State().Open["c1-1"], "s"))
	return b
}

func tokens(n int64) func(*events.Options) { return func(o *events.Options) { o.MaxTokens = n } }

func TestModel(t *testing.T) {
	t.Parallel()
	q := ModelRequest{API: events.FormAnthropic, Model: "m", Bytes: 300, Output: 1000} // 300 tokens of input
	t.Run("PLUS-12e PLUS-3 what is set aside for a request counts until it is settled, and then what it used", func(t *testing.T) {
		t.Parallel()
		b := programmed(tokens(2000), nil)
		before := budget.Used(b.State()).Tokens
		say, most, refused := Reserve(b.State(), attempt(b), q)
		if len(say) != 1 || most != 1000 || refused != "" || say[0].(*events.CallReservedData).Tokens != 1300 {
			t.Fatalf("%+v, %d, %q", say, most, refused)
		}
		b.Append(say...)
		if got := budget.Used(b.State()).Tokens - before; got != 1300 {
			t.Errorf("held: %d", got)
		}
		b.Append(Settle(b.State(), attempt(b), q, 1, ModelUse{Input: 200, Output: 50, Cached: 900})...)
		if got := budget.Used(b.State()).Tokens - before; got != 250 || b.State().Open["c1-1"].Asking.Held != nil {
			t.Errorf("used: %d", got)
		}
		if again := Settle(b.State(), attempt(b), q, 1, ModelUse{}); len(again) != 0 {
			t.Errorf("settled twice: %v", again)
		}
	})
	t.Run("PLUS-12e PLUS-3 a request is limited to what is left, and refused where that is too little", func(t *testing.T) {
		t.Parallel()
		b := programmed(tokens(1000), nil)
		used := budget.Used(b.State()).Tokens
		say, most, _ := Reserve(b.State(), attempt(b), q)
		if len(say) != 1 || most != 1000-used-300 {
			t.Fatalf("%v, %d with %d used", say, most, used)
		}
		b.Append(say...)
		if say, _, refused := Reserve(b.State(), attempt(b), q); len(say) != 0 || refused == "" {
			t.Errorf("%v, %q", say, refused)
		}
	})
	t.Run("PLUS-12e PLUS-3 a budget of money needs the price of the model that the program names", func(t *testing.T) {
		t.Parallel()
		money := func(o *events.Options) { o.MaxCost = 20_000 }
		b := programmed(money, map[string]events.Price{"anthropic/m*": {Input: 1_000_000, Output: 10_000_000, Cached: 100_000}})
		say, most, refused := Reserve(b.State(), attempt(b), q)
		if len(say) != 1 || most != 1000 || say[0].(*events.CallReservedData).Cost != 10_300 {
			t.Fatalf("%+v, %d, %q", say, most, refused)
		}
		b.Append(say...)
		if say, most, _ = Reserve(b.State(), attempt(b), q); len(say) != 1 || most != 940 {
			t.Errorf("%+v, %d", say, most)
		}
		other := q
		other.Model = "unheard"
		if say, _, refused := Reserve(b.State(), attempt(b), other); len(say) != 0 || refused == "" {
			t.Errorf("without a price: %v, %q", say, refused)
		}
		b.Append(Settle(b.State(), attempt(b), q, 1, ModelUse{Input: 300, Output: 100})...)
		if s := b.State(); s.Cost != 1300 {
			t.Errorf("it cost %d", s.Cost)
		}
	})
	t.Run("PLUS-12e SAFE-7 a request whose settlement never came counts as what was set aside, once, and late ones change nothing", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(*runtest.Builder) []events.Payload{
			"the next attempt": func(*runtest.Builder) []events.Payload {
				return []events.Payload{runtest.CallBegun(theProgram, 2), runtest.CallBegun(theProgram, 3)}
			},
			"the end": func(b *runtest.Builder) []events.Payload {
				return Finish(b.State(), attempt(b), Result{Output: "done", Success: true})
			},
			"a failure that may pass": func(b *runtest.Builder) []events.Payload {
				return Fail(b.State(), attempt(b), Failure{Class: "transient", Transient: true}, noon)
			},
			"no answer": func(b *runtest.Builder) []events.Payload {
				return Settle(b.State(), attempt(b), q, 1, ModelUse{Unknown: true})
			},
		} {
			b := programmed(tokens(5000), nil)
			before, a := budget.Used(b.State()).Tokens, attempt(b)
			say, _, _ := Reserve(b.State(), a, q)
			b.Append(say...)
			b.Append(end(b)...)
			if got := budget.Used(b.State()).Tokens - before; got != 1300 {
				t.Errorf("after %s: %d", name, got)
			}
			if late := Settle(b.State(), a, q, 1, ModelUse{Input: 1}); len(late) != 0 {
				t.Errorf("after %s: %v", name, late)
			}
		}
	})
	t.Run("PLUS-12e before a program was given its work it asks no model", func(t *testing.T) {
		t.Parallel()
		b := programmed(tokens(5000), nil)
		b.Append(Finish(b.State(), attempt(b), Result{})...)
		if say, _, refused := Reserve(b.State(), Attempt{}, q); len(say) != 0 || refused == "" {
			t.Errorf("%v, %q", say, refused)
		}
	})
	t.Run("PLUS-12e PLUS-3 whatever is asked, answered late or never, what is set aside and used stays within the budget", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := programmed(tokens(rapid.Int64Range(100, 20_000).Draw(t, "budget")), nil)
			states := []Attempt{attempt(b)}
			open := map[int]int64{}
			for range rapid.IntRange(1, 40).Draw(t, "moves") {
				q := ModelRequest{API: "anthropic", Model: "m", Bytes: rapid.IntRange(0, 3000).Draw(t, "bytes"), Output: rapid.Int64Range(1, 4000).Draw(t, "output")}
				switch rapid.SampledFrom([]string{"ask", "ask", "settle", "again"}).Draw(t, "move") {
				case "ask":
					say, most, _ := Reserve(b.State(), states[len(states)-1], q)
					for _, p := range say {
						d := p.(*events.CallReservedData)
						if open[d.Request] = d.Tokens; most > q.Output {
							t.Fatalf("%d of %d", most, q.Output)
						}
					}
					b.Append(say...)
				case "settle":
					for n, held := range open {
						a := rapid.SampledFrom(states).Draw(t, "attempt")
						b.Append(Settle(b.State(), a, q, n, ModelUse{Output: int(rapid.Int64Range(0, held).Draw(t, "used"))})...)
						break
					}
				case "again":
					b.Append(runtest.CallBegun(theProgram, len(states)+1))
					b.Append(runtest.Progressed(b.State().Open["c1-1"], "s"))
					states = append(states, attempt(b))
				}
				if s := b.State(); budget.Used(s).Tokens > max(s.Options.MaxTokens, int64(s.Tokens.Total())) && len(open) > 0 {
					t.Fatalf("%d of %d tokens", budget.Used(s).Tokens, s.Options.MaxTokens)
				}
			}
		})
	})
}
