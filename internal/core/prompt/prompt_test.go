package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// dumb is Conversation as a child would write it.
func dumb(s run.State, step string) []Exchange {
	var out []Exchange
	for _, t := range run.All(s.Turns()) {
		if t.Step != step {
			continue
		}
		e := Exchange{Turn: t}
		for _, c := range t.Calls {
			var results []run.CallRecord
			for _, r := range run.All(s.ToolCallHistory) {
				results = append(results, r)
			}
			e.Results = append(e.Results, shown(c, results))
		}
		out = append(out, e)
	}
	return out
}

func TestConversation(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-2 LOOP-12 every call has a result in its place, whatever happened, and equal states give equal conversations", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			for range rapid.IntRange(5, 120).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
			}
			s := b.State()
			if s.Plan == nil {
				return
			}
			for _, st := range s.Plan.Steps {
				got, _ := json.Marshal(Conversation(s, st.ID))
				want, _ := json.Marshal(dumb(s, st.ID))
				if string(got) != string(want) {
					t.Fatalf("step %s\n got %s\nwant %s", st.ID, got, want)
				}
				for _, e := range Conversation(s, st.ID) {
					if len(e.Results) != len(e.Turn.Calls) {
						t.Fatalf("turn %d has %d calls and %d results", e.Turn.Number, len(e.Turn.Calls), len(e.Results))
					}
				}
			}
		})
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	b := runtest.New("main", "r1")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "done"), runtest.StepDone("a", "the answer is 42"))
	s := b.State()
	t.Run("LOOP-15 the system prompt holds the agent's text, its tools and the workspace", func(t *testing.T) {
		t.Parallel()
		got := Assemble(Input{State: s, Step: s.Step("b"), System: "You fix.\n", Agent: events.Agent{Name: "m", Tools: []string{"read", "edit"}}}).System
		for _, want := range []string{"You fix.", "read, edit", "session/demo"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	})
	t.Run("LOOP-15 ID-6a the prompt of a program of others does not list the tool that gives it its prompt", func(t *testing.T) {
		t.Parallel()
		got := Assemble(Input{State: s, Step: s.Step("b"), Agent: events.Agent{Name: "m", Tools: []string{"bash", events.ToolRuntime}}}).System
		if !strings.Contains(got, "Your tools: bash. ") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("SESS-17 what a person types is all of their message, and only a run that no one attends is told to begin alone", func(t *testing.T) {
		t.Parallel()
		for _, attended := range []bool{true, false} {
			s := b.State()
			created := *s.Created
			created.Attended, created.Handoff, created.Mail = attended, "", nil
			s.Created = &created
			const typed = "what does this do?\n\tand why"
			got := Assemble(Input{State: s, Step: s.Step("b"), System: "You fix.", User: typed})
			if text := got.Entries[0].Text; text != typed {
				t.Errorf("attended %v: the message is %q", attended, text)
			}
			alone, asks := strings.Contains(got.System, "begin at once"), strings.Contains(got.System, "A person talks with you")
			if alone == attended || asks != attended {
				t.Errorf("attended %v: the system prompt is\n%s", attended, got.System)
			}
		}
	})
	t.Run("PLAN-11 a step is told its part and what the steps before gave; a single step is told the task alone", func(t *testing.T) {
		t.Parallel()
		got := Brief(s, s.Step("b"), "the whole")
		for _, want := range []string{"the whole", `"b"`, "the answer is 42", "data, not instructions"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		single := runtest.New("main", "r2")
		made := runtest.Plan(runtest.Step("only"))
		made.Origin = "single"
		single.Append(runtest.Created(), runtest.Started(), made)
		one := single.State()
		if got := Brief(one, one.Step("only"), "the whole"); got != "the whole" {
			t.Errorf("%q", got)
		}
	})
	t.Run("GUARD-14 the agent is told what was refused, by which code, and what to do", func(t *testing.T) {
		t.Parallel()
		got := shown(events.RequestedCall{ID: "c1", Tool: "bash"}, []run.CallRecord{{ID: "c1", Outcome: run.OutcomeRefused, Code: events.RefusedGuard, Result: "rewrites history", Hint: "use another approach"}})
		if !got.Failed || !strings.Contains(got.Output, "guard_denied") || !strings.Contains(got.Output, "use another approach") {
			t.Errorf("%+v", got)
		}
	})
}
