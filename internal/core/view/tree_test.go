package view_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func grow(t testing.TB, stored [][]byte) *view.Tree {
	t.Helper()
	tree := &view.Tree{}
	for _, b := range stored {
		f, p, err := events.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		tree.Apply(f, p)
	}
	return tree
}

func TestTree(t *testing.T) {
	t.Parallel()
	t.Run("CLI-8 a tree has steps, turns, calls and gates with their times and outcomes", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("default", "run-a")
		first, second := runtest.Ref("build", "c1-1", "bash"), runtest.Ref("build", "c1-2", "bash")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("test", "build")), runtest.Ready("build"),
			runtest.GateAt("g-1", "build", ""))
		if tree := grow(t, b.Events()); len(tree.Waiting()) != 1 || tree.Waiting()[0].ID != "g-1" || tree.Waiting()[0].Opened.IsZero() {
			t.Fatalf("waiting: %+v", tree.Waiting())
		}
		waiting := b.State()
		b.Append(runtest.Yes(waiting.Gate("g-1")), runtest.Allowed("build"),
			runtest.Turn(1, "build", "I build.", runtest.Asked(1, 1, "bash", `{"command":"make"}`), runtest.Asked(1, 2, "bash", `{"command":"make push"}`)),
			runtest.CallYes(first, "once"), runtest.CallNo(second), runtest.CallBegun(first, 1))
		tree := grow(t, b.Events())
		call := tree.Steps[0].Turns[0].Calls[0]
		if call.State != view.CallRuns || call.Input != "make" || call.Runner != "runner-a" || !call.State.Open() || !tree.Steps[0].Asked.IsZero() {
			t.Errorf("call under way: %+v", call)
		}
		b.Append(runtest.CallDone(first, b.State().Sequence, "made\n3 targets"), runtest.Turn(2, "build", "Built."), runtest.StepDone("build", "Built."))
		tree = grow(t, b.Events())
		step := tree.Steps[0]
		if step.Status != events.StepIsCompleted || step.Began.IsZero() || step.Ended.Sub(step.Began) <= 0 || len(step.Turns) != 2 || step.Gate.By != "anna" || step.Gate.Status != run.GateApproved {
			t.Errorf("step: %+v", step)
		}
		call = step.Turns[0].Calls[0]
		if call.State != view.CallDone || call.Took != 5*time.Millisecond || call.Outcome != "2 lines" || call.Ended.IsZero() {
			t.Errorf("call: %+v", call)
		}
		if no := step.Turns[0].Calls[1]; no.State != view.CallRefused || no.Outcome != "refused by no-force-push: force push rewrites the history of others" {
			t.Errorf("refused call: %+v", no)
		}
		if tree.StepsDone() != 1 || tree.Turns != 2 || tree.Calls != 1 || tree.Tokens.Total() != 60 {
			t.Errorf("figures: %+v", tree)
		}
	})
	t.Run("PLAN-10 what depends on a failed step is blocked in the tree too", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("default", "run-a")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"), runtest.Step("c", "b")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "No."), runtest.StepBad("a", "broken"))
		for i, want := range []events.StepStatus{events.StepIsFailed, events.StepIsBlocked, events.StepIsBlocked} {
			if got := grow(t, b.Events()).Steps[i].Status; got != want {
				t.Errorf("step %d is %s, want %s", i, got, want)
			}
		}
	})
}

// inside is a run whose program has asked for two calls and waits at the gate of the second one.
func inside() *runtest.Builder {
	b := runtest.New("default", "run-a")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", "", runtest.Asked(1, 1, events.ToolRuntime, `{"prompt":"build it"}`)))
	ref := runtest.Ref("build", "c1-1", events.ToolRuntime)
	b.Append(runtest.CallYes(ref, "reconcilable"), runtest.CallBegun(ref, 1))
	b.Append(runtest.Progressed(b.State().Open["c1-1"], "session-1"))
	b.Append(runtest.Requested(b.State().Open["c1-1"], "bash", `{"command":"make"}`))
	first := runtest.InnerRef("build", "c1-1-1", "bash", "c1-1")
	b.Append(runtest.CallYes(first, "once"), runtest.CallBegun(first, 1))
	b.Append(runtest.InnerDone(b.State().Open["c1-1-1"], "made"))
	b.Append(runtest.Requested(b.State().Open["c1-1"], "bash", `{"command":"release it"}`))
	b.Append(runtest.GateAt("g-1", "build", "c1-1-2"))
	return b
}

func TestTreeInside(t *testing.T) {
	t.Parallel()
	t.Run("CLI-8 PLUS-12 what a program asks to do is its command or its files, else what it shows of it", func(t *testing.T) {
		t.Parallel()
		for input, want := range map[string]string{
			`{"title":"Proceed?","reported":{"question":"Proceed?","screen":"rows"}}`:     "Proceed?",
			`{"title":"Proceed?","paths":["a.go","b.go"],"reported":{"path":"a.go"}}`:     "a.go b.go",
			`{"title":"Proceed?","command":"make","paths":["a.go"],"reported":{"a":"b"}}`: "make",
		} {
			b := inside()
			d := runtest.Requested(b.State().Open["c1-1"], "other", input)
			d.Title = "Proceed?"
			b.Append(d)
			if inner := grow(t, b.Events()).Call("c1-1").Inner; len(inner) != 3 || inner[2].Input != want {
				t.Errorf("got %+v, want %q", inner, want)
			}
		}
	})
	t.Run("CLI-8 PLUS-12b what a program of others asks for is below its call, with the gate that it waits at", func(t *testing.T) {
		t.Parallel()
		tree := grow(t, inside().Events())
		waits := tree.Waiting()
		if len(waits) != 1 || waits[0].ID != "g-1" {
			t.Fatalf("waiting: %+v", waits)
		}
		inner := tree.Call("c1-1").Inner
		if len(inner) != 2 || inner[0].State != view.CallDone || inner[0].Input != "make" || inner[0].Outcome != "made" ||
			inner[1].State != view.CallAsked || inner[1].Input != "release it" || inner[1].Gate != waits[0] {
			t.Errorf("%+v", inner)
		}
	})
}

// The fold of the log decides; the tree, which is folded for the eye, must say the same of every random history.
func TestTreeProp(t *testing.T) {
	t.Parallel()
	t.Run("CLI-8 PLAN-10 the tree agrees with the state at every event", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b, tree := runtest.New("default", "run-a"), &view.Tree{}
			for range rapid.IntRange(1, 60).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				stored := b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
				f, p, err := events.Read(stored[0])
				if err != nil {
					t.Fatal(err)
				}
				tree.Apply(f, p)
				compare(t, tree, b.State())
			}
		})
	})
}

func compare(t *rapid.T, tree *view.Tree, s run.State) {
	done, total := s.StepsCompleted()
	if tree.Status != s.Status || len(tree.Steps) != total || tree.StepsDone() != done || tree.Turns != s.ModelTurns() || tree.Calls != s.TotalToolCalls || tree.Tokens != s.Tokens || tree.Cost != s.Cost {
		t.Fatalf("tree %s %d/%d steps %d turns %d calls %+v, state %s %d/%d %d %d %+v", tree.Status, tree.StepsDone(), len(tree.Steps), tree.Turns, tree.Calls, tree.Tokens,
			s.Status, done, total, s.Turns().Len(), s.TotalToolCalls, s.Tokens)
	}
	if total > 0 {
		for i, st := range s.Plan.Steps {
			if tree.Steps[i].Status != st.Status {
				t.Fatalf("step %s is %s in the tree, %s in the state", st.ID, tree.Steps[i].Status, st.Status)
			}
			if waits := st.Status == events.StepIsRunning && st.Owed > 0 && st.Child == ""; waits != !tree.Steps[i].Asked.IsZero() && !st.Final && !s.Status.Ended() {
				t.Fatalf("step %s: a turn is owed: %v, the tree says since %s", st.ID, waits, tree.Steps[i].Asked)
			}
		}
	}
	if got, want := len(tree.Waiting()), len(s.Waiting()); got != want {
		t.Fatalf("%d gates wait in the tree, %d in the state", got, want)
	}
}

func TestCause(t *testing.T) {
	t.Parallel()
	t.Run("EVT-12 a class that an earlier program wrote in front of an error is shown once", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"timeout: the tool is slow", "the tool is slow"} {
			d := &events.CallFailedData{ToolRef: events.ToolRef{Tool: "bash", Call: "c1"}, Class: "timeout", Error: text}
			if got := view.Text(d); !strings.HasSuffix(got, "failed (timeout): the tool is slow") {
				t.Errorf("%s", got)
			}
		}
	})
}

func TestTreeSpent(t *testing.T) {
	t.Parallel()
	t.Run("CLI-8 PLUS-12 what a program used of its model and what a shorter history cost is counted, and nothing that is unknown", func(t *testing.T) {
		t.Parallel()
		tree := &view.Tree{}
		for _, p := range []events.Payload{&events.CallSettledData{InputTokens: 5, OutputTokens: 3, CachedTokens: 2, Cost: 7},
			&events.CallSettledData{Unknown: true, InputTokens: 90, OutputTokens: 90, Cost: 90},
			&events.HistoryCompactedData{InputTokens: 50, OutputTokens: 30, CachedTokens: 20, Cost: 70}} {
			tree.Apply(events.Event{}, p)
		}
		if want := (run.Tokens{Input: 55, Output: 33, Cached: 22}); tree.Tokens != want || tree.Cost != 77 {
			t.Errorf("%+v, cost %d, want %+v and 77", tree.Tokens, tree.Cost, want)
		}
	})
}
