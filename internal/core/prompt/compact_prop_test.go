package prompt

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// text draws words of a length that matters.
func text(t *rapid.T, what string, most int) string {
	return strings.Repeat(rapid.SampledFrom([]string{"word ", "x", "世界", "{\"a\":1}\n"}).Draw(t, what+" of"), rapid.IntRange(0, most).Draw(t, what))
}

// working draws a run whose step took turns of calls with results of any size, and is owed the next one.
func working(t *rapid.T) (run.State, events.Agent) {
	b := runtest.New("main", "r")
	created := runtest.Created()
	a := runtest.Agent("worker", "read")
	a.ContextWindow = rapid.SampledFrom([]int{1000, 1000, 4000, 50_000}).Draw(t, "window")
	if rapid.Bool().Draw(t, "own settings") {
		n := rapid.IntRange(0, 60_000).Draw(t, "protect")
		a.Compaction = &events.Compaction{Threshold: rapid.Float64Range(0.3, 1).Draw(t, "threshold"), ProtectTokens: &n}
	}
	created.Agents["worker"] = a
	b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	for n := 1; n <= rapid.IntRange(0, 25).Draw(t, "turns"); n++ {
		var calls []events.RequestedCall
		for i := 1; i <= rapid.IntRange(1, 3).Draw(t, "calls"); i++ {
			input, _ := json.Marshal(map[string]string{"path": text(t, "input", 40)})
			calls = append(calls, runtest.Asked(n, i, "read", string(input)))
		}
		turn := runtest.Turn(n, "a", text(t, "said", 100), calls...)
		turn.InputTokens, turn.OutputTokens = rapid.IntRange(0, 2*a.ContextWindow).Draw(t, "in"), rapid.IntRange(0, 200).Draw(t, "out")
		b.Append(turn)
		for _, c := range calls {
			ref := runtest.Ref("a", c.ID, "read")
			if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
				b.Append(runtest.CallNo(ref))
				continue
			}
			done := runtest.CallDone(ref, 0, text(t, "result", 600))
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "images") {
				done.Images = append(done.Images, image(1000, 600))
			}
			b.Append(runtest.CallYes(ref, "read"), done)
		}
	}
	return b.State(), a
}

// applied is a state after a compaction, without a log around it.
func applied(s run.State, c *Cut, summary string) run.State {
	st := *s.Step("a")
	before := 0
	if st.Compacted != nil {
		before = st.Compacted.Count
	}
	st.Compacted = &run.Compacted{Through: c.Through, After: s.Turns().Len(), Count: before + 1, Summary: summary}
	plan := *s.Plan
	plan.Steps = []*run.Step{&st}
	s.Plan = &plan
	return s
}

func TestJudge(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-7 LOOP-8 LOOP-9 LOOP-19 compaction always comes to an end, protects what is newest, and keeps calls and results together", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, a := working(t)
			long := rapid.Bool().Draw(t, "long summaries")
			turns := s.Turns().Len()
			for round := 0; ; round++ {
				in := Input{State: s, Step: s.Step("a"), Agent: a, User: "fix the wheel", Tools: 20}
				p := Assemble(in)
				v := Judge(in, p)
				if v.Cut == nil {
					if m := measure(in, p); v.Full == "" && m.total > SettingsOf(in.State, a, in.Step).Window {
						t.Fatalf("%d tokens are sent, the window has %d", m.total, a.ContextWindow)
					}
					return
				}
				if round >= turns {
					t.Fatalf("%d compactions of %d turns", round+1, turns)
				}
				c := v.Cut
				if st := in.Step.Compacted; st != nil && c.Through <= st.Through {
					t.Fatalf("through %d after %d", c.Through, st.Through)
				}
				if n := Tokens(c.Ask(in).User); float64(n)*c.Ratio > float64(a.ContextWindow) {
					t.Fatalf("the request for a summary has %d tokens (times %.2f), the window %d", n, c.Ratio, a.ContextWindow)
				}
				summary := "short"
				if long {
					summary = strings.Repeat("long ", 20_000)
				}
				summary = c.Shorten(summary)
				if n := scaled(Tokens(summary), c.Ratio); n > c.Summary+50 {
					t.Fatalf("a summary of %d tokens, %d were asked for", n, c.Summary)
				}
				next := applied(s, c, summary)
				after := Input{State: next, Step: next.Step("a"), Agent: a, User: in.User, Tools: in.Tools}
				kept, were := Assemble(after).Entries[1:], p.Entries[1:]
				// What stays is the very end of what was there, turn by turn with all results.
				got, _ := json.Marshal(kept)
				want, _ := json.Marshal(were[len(were)-len(kept):])
				if string(got) != string(want) {
					t.Fatalf("the newest turns were changed:\n got %s\nwant %s", got, want)
				}
				s = next
			}
		})
	})
	t.Run("LOOP-8 what is protected: all that was asked for where there is room, else half of the room", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ want, room, got int }{{40_000, 170_000, 40_000}, {40_000, 53_400, 40_000}, {40_000, 53_000, 26_500}, {40_000, 850, 425}, {0, 850, 0}, {40_000, -5, 0}} {
			if got := protected(c.want, c.room); got != c.got {
				t.Errorf("protected(%d, %d) = %d, want %d", c.want, c.room, got, c.got)
			}
		}
	})
	t.Run("LOOP-7 the defaults are 0.85 of the window and 40000 tokens, and a model without a window is never compacted", func(t *testing.T) {
		t.Parallel()
		if got, want := SettingsOf(run.State{}, events.Agent{ContextWindow: 200_000}, &run.Step{}), (Settings{Window: 200_000, Limit: 170_000, Protect: 40_000, Results: 40_000}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := SettingsOf(run.State{}, events.Agent{}, &run.Step{}); got.Limit != 0 || got.Results != 0 {
			t.Errorf("%+v", got)
		}
		if got := SettingsOf(run.State{}, events.Agent{ContextWindow: 8000}, &run.Step{TooLong: 2}); got.Window != 2000 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("LOOP-10 a window that was found smaller holds for the run, for all agents with that model and for no others", func(t *testing.T) {
		t.Parallel()
		s := run.State{Windows: map[string]int{"x/small": 3000}}
		for _, c := range []struct {
			model         string
			window        int
			late          int
			want, smaller int
		}{
			{"x/small", 8000, 0, 3000, 1500}, {"x/small", 8000, 2, 3000, 1500}, {"x/small", 0, 1, 3000, 1500}, {"x/small", 2000, 0, 2000, 1000},
			{"x/other", 8000, 0, 8000, 4000}, {"x/other", 8000, 2, 2000, 1000}, {"x/other", 0, 0, 0, UnknownWindow}, {"x/other", 1, 0, 1, 1},
		} {
			a, st := events.Agent{Model: c.model, ContextWindow: c.window}, &run.Step{TooLong: c.late}
			if got, smaller := SettingsOf(s, a, st).Window, Smaller(s, a, st); got != c.want || smaller != c.smaller {
				t.Errorf("%+v: the window is %d, then %d", c, got, smaller)
			}
		}
	})
	t.Run("LOOP-7 at the threshold nothing happens, one token above it does", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r")
		created := runtest.Created()
		a, protect := runtest.Agent("worker", "read"), 1000
		a.ContextWindow, a.Compaction = 10_000, &events.Compaction{ProtectTokens: &protect}
		created.Agents["worker"] = a
		b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		for n := 1; n <= 8; n++ {
			turn := runtest.Turn(n, "a", "on", runtest.Asked(n, 1, "read", `{}`))
			turn.InputTokens, turn.OutputTokens = 0, 0 // the provider counts nothing, so that estimates are all there is
			ref := runtest.Ref("a", fmt.Sprintf("c%d-1", n), "read")
			b.Append(turn, runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, strings.Repeat("word ", 800)))
		}
		s := b.State()
		in := Input{State: s, Step: s.Step("a"), Agent: a, User: "u"}
		in.Tools = 8500 - measure(in, Assemble(in)).total
		if v := Judge(in, Assemble(in)); v != (Verdict{}) {
			t.Errorf("at 8500 of 10000 tokens: %+v", v)
		}
		in.Tools++
		v := Judge(in, Assemble(in))
		if v.Cut == nil || v.Cut.Before != 8501 || v.Cut.Protected != 1000 || v.Cut.Through != 7 || v.Cut.Replaced != 7 {
			t.Errorf("at 8501 of 10000 tokens: %+v", v.Cut)
		}
	})
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	t.Run("PRMT-7 PRMT-8 PROP-26 equal inputs give equal prompts, whatever the history", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, a := working(t)
			doc, err := run.Codec{}.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := run.Codec{}.Decode(doc)
			if err != nil {
				t.Fatal(err)
			}
			first, _ := json.Marshal(Assemble(Input{State: s, Step: s.Step("a"), Agent: a, System: "be", User: "do"}))
			second, _ := json.Marshal(Assemble(Input{State: again, Step: again.Step("a"), Agent: again.Agents["worker"], System: "be", User: "do"}))
			if string(first) != string(second) {
				t.Fatalf("%s\n%s", first, second)
			}
		})
	})
	t.Run("PRMT-4 PRMT-6 after a compaction the role is lighter: who it is and its work stay, the rest of the template does not", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r")
		created := runtest.Created()
		created.Mail, created.Handoff, created.Context = []events.Letter{{From: "eve", Body: "hurry"}}, "half done", "house rules"
		b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		s := b.State()
		in := Input{State: s, Step: s.Step("a"), Agent: runtest.Agent("worker", "read"), System: "You fix.", User: "fix the wheel"}
		full := Assemble(in)
		light := *in.Step
		light.Compacted = &run.Compacted{Through: 3, After: 3, Count: 1, Summary: "spokes are in"}
		in.Step = &light
		short := Assemble(in)
		for _, want := range []string{"You fix.", "worker", "read", "house rules", "session/demo"} {
			if !strings.Contains(short.System, want) {
				t.Errorf("no %q in %s", want, short.System)
			}
		}
		for _, gone := range []string{"How you work", "Look first"} {
			if strings.Contains(short.System, gone) || !strings.Contains(full.System, gone) {
				t.Errorf("%q: light %v, full %v", gone, strings.Contains(short.System, gone), strings.Contains(full.System, gone))
			}
		}
		if len(short.System) >= len(full.System) {
			t.Errorf("the lighter text has %d bytes, the full one %d", len(short.System), len(full.System))
		}
		opening := short.Entries[0].Text
		if !strings.Contains(opening, "fix the wheel") || !strings.Contains(opening, "spokes are in") || strings.Contains(opening, "hurry") || strings.Contains(opening, "half done") {
			t.Errorf("%s", opening)
		}
	})
}

func TestCrop(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-8 a cropped text is never longer, keeps its ends, and is no broken UTF-8", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, most := text(t, "text", 2000), rapid.IntRange(1, 500).Draw(t, "most")
			got := Crop(s, most)
			if !utf8.ValidString(got) || Tokens(s) <= most && got != s || Tokens(got) > max(most, 0)+40 {
				t.Fatalf("%d tokens of at most %d: %q", Tokens(got), most, got)
			}
			if n := Tokens(s); n > len(s) {
				t.Fatalf("%d tokens in %d bytes", n, len(s))
			}
		})
	})
}
