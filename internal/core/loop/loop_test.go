package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// history is a run with one step of an agent that has the rule given.
func history(d events.DoomLoop) *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	a := c.Agents["worker"]
	a.DoomLoop = d
	c.Agents = map[string]events.Agent{"worker": a}
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	return b
}

// ask takes a turn that asks for one call; the call stays open.
func ask(b *runtest.Builder, tool, input string) string {
	s := b.State()
	n := s.Turns().Len() + 1
	d := runtest.Turn(n, "a", "", runtest.Asked(n, 1, tool, input))
	d.CallsKey = run.KeyOf(d.Calls)
	b.Append(d)
	return d.Calls[0].ID
}

func ends(b *runtest.Builder, id, tool, output string, ok bool) {
	ref := runtest.Ref("a", id, tool)
	done := runtest.CallDone(ref, 0, output)
	done.Success = ok
	b.Append(runtest.CallYes(ref, "read"), done)
}

func lap(b *runtest.Builder, tool, input string) loop.Grade {
	id := ask(b, tool, input)
	g := loop.RoundsOf(b.State()).Asking("a", tool).Grade
	ends(b, id, tool, "same", true)
	return g
}

func TestSameCall(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-5 LOOP-6 PLUS-4 the third same call is told, the fourth is asked about, the fifth ends the step", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		inputs := []string{`{"path":"x","n":1}`, `{ "n": 1, "path": "x" }`, `{"path":"x","n":1}`, `{"n":1,"path":"x"}`, `{"path":"x","n":1}`}
		want := []loop.Grade{loop.None, loop.None, loop.Nudge, loop.Gate, loop.End}
		for i, input := range inputs {
			if got := lap(b, "read", input); got != want[i] {
				t.Errorf("call %d: got grade %d, want %d", i+1, got, want[i])
			}
		}
		if c := loop.Look(b.State(), "a"); c.Kind != loop.SameCall || c.Times != 5 || !strings.Contains(c.String(), "read") {
			t.Errorf("%+v", c)
		}
		if n := loop.Row(b.State(), "a"); n != 5 {
			t.Errorf("got %d in a row, want 5", n)
		}
	})
	t.Run("LOOP-6 a different tool or input resets the count", func(t *testing.T) {
		t.Parallel()
		for _, other := range [][2]string{{"bash", `{"path":"x"}`}, {"read", `{"path":"y"}`}} {
			b := history(events.DoomLoop{})
			for range 3 {
				lap(b, "read", `{"path":"x"}`)
			}
			if g := lap(b, other[0], other[1]); g != loop.None {
				t.Errorf("%v: grade %d", other, g)
			}
			for i, want := range []loop.Grade{loop.None, loop.None, loop.Nudge} {
				if g := lap(b, "read", `{"path":"x"}`); g != want {
					t.Errorf("%v, then call %d: got grade %d, want %d", other, i+1, g, want)
				}
			}
		}
	})
	t.Run("LOOP-6 PLUS-1 what a person says in between begins a new row", func(t *testing.T) {
		t.Parallel()
		w := loop.New(loop.RuleOf(events.Agent{}))
		want := []loop.Grade{loop.None, loop.None, loop.None, loop.None, loop.Nudge}
		for i, l := range []loop.Lap{{Key: "k"}, {Key: "k", Restarted: true}, {Key: "k"}, {Key: "k"}, {Key: "k"}} {
			if got := w.Add(l).Grade; got != want[i] {
				t.Errorf("turn %d: got grade %d, want %d", i+1, got, want[i])
			}
		}
	})
	t.Run("LOOP-2 LOOP-5 the agent's threshold and action are in force", func(t *testing.T) {
		t.Parallel()
		for action, want := range map[string][]loop.Grade{
			events.DoomPause:     {0, loop.Nudge, loop.Gate, loop.End, loop.End},
			events.DoomFail:      {0, loop.Nudge, loop.End, loop.End, loop.End},
			events.DoomSummarize: {0, loop.Nudge, loop.End, loop.End, loop.End},
			events.DoomWarn:      {0, loop.Nudge, 0, 0, 0},
		} {
			b := history(events.DoomLoop{Threshold: 2, Action: action})
			for i, w := range want {
				if g := lap(b, "read", `{}`); g != w {
					t.Errorf("%s, call %d: got grade %d, want %d", action, i+1, g, w)
				}
			}
		}
	})
	t.Run("LOOP-5 events without a key of their calls count too", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		for n := 1; n <= 3; n++ {
			d := runtest.Turn(n, "a", "", runtest.Asked(n, 1, "read", `{}`))
			b.Append(d)
			ends(b, d.Calls[0].ID, "read", "x", true)
		}
		if c := loop.Look(b.State(), "a"); c.Grade != loop.Nudge {
			t.Errorf("%+v", c)
		}
	})
}

func TestCycle(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-4 calls that alternate are a circle, and are answered once in each grade", func(t *testing.T) {
		t.Parallel()
		for period := 2; period <= 4; period++ {
			b := history(events.DoomLoop{})
			seen := map[loop.Grade]int{}
			var at int
			for i := 0; seen[loop.End] == 0 && i < 100; i++ {
				g := lap(b, "read", fmt.Sprintf(`{"path":"%d"}`, i%period))
				seen[g]++
				at = i + 1
			}
			if seen[loop.Nudge] != 1 || seen[loop.Gate] != 1 || at != 3*period+2 {
				t.Errorf("period %d: grades %v, the end after %d turns", period, seen, at)
			}
		}
	})
	t.Run("PLUS-4 a longer alternation than the agent says is none; with warn it is told once, however long it goes on", func(t *testing.T) {
		t.Parallel()
		b, w := history(events.DoomLoop{Cycle: 1}), history(events.DoomLoop{Action: events.DoomWarn})
		nudges := 0
		for i := range 40 {
			if g := lap(b, "read", fmt.Sprint(i%2)); g != loop.None {
				t.Fatalf("grade %d at turn %d", g, i+1)
			}
			if lap(w, "read", fmt.Sprint(i%2)) == loop.Nudge {
				nudges++
			}
		}
		if nudges != 1 {
			t.Errorf("told %d times", nudges)
		}
	})
}

func TestSameError(t *testing.T) {
	t.Parallel()
	fail := func(b *runtest.Builder, i int) loop.Grade {
		id := ask(b, "bash", fmt.Sprintf(`{"command":"make %d"}`, i))
		g := loop.RoundsOf(b.State()).Asking("a", "bash").Grade
		ends(b, id, "bash", "no compiler", false)
		return g
	}
	t.Run("PLUS-4 the same error of other input is told after three, asked about after six, and ends the step after seven", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		for i := 1; i <= 7; i++ {
			want := loop.None
			if i == 7 {
				want = loop.Gate
			}
			if g := fail(b, i); g != want {
				t.Errorf("before call %d: got grade %d, want %d", i, g, want)
			}
			after := loop.Look(b.State(), "a")
			wants := map[int]loop.Grade{3: loop.Nudge, 6: loop.Gate, 7: loop.End}
			if after.Grade != wants[i] {
				t.Errorf("after call %d: got %+v, want grade %d", i, after, wants[i])
			}
		}
	})
	t.Run("PLUS-4 a call that works ends the row of errors", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		for i := range 30 {
			if i%3 == 2 {
				lap(b, "read", fmt.Sprintf(`{"path":"%d"}`, i))
			} else {
				fail(b, i)
			}
			if c := loop.Look(b.State(), "a"); c.Grade != loop.None {
				t.Fatalf("turn %d: %+v", i+1, c)
			}
		}
	})
}

func TestReadingOn(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-5 TOOL-10 to read on what runs in the background is no circle while there is more, and one when there is not", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		ref := runtest.Ref("a", ask(b, "bash", `{"command":"make","run_in_background":true}`), "bash")
		done := runtest.CallDone(ref, 0, "started")
		done.Background = &events.Background{ID: "bg-1", Runner: "t"}
		b.Append(runtest.CallYes(ref, "read"), done)
		read := func(at int64) loop.Grade {
			id := ask(b, "bash_output", `{"bash_id":"bg-1"}`)
			g := loop.RoundsOf(b.State()).Asking("a", "bash_output").Grade
			ref := runtest.Ref("a", id, "bash_output")
			done := runtest.CallDone(ref, 0, "more")
			done.Background = &events.Background{ID: "bg-1", At: at}
			b.Append(runtest.CallYes(ref, "read"), done)
			return g
		}
		for at := range int64(10) {
			if got := read(at + 1); got != loop.None {
				t.Fatalf("look %d: grade %d", at+1, got)
			}
		}
		for i, want := range []loop.Grade{loop.None, loop.None, loop.None, loop.Gate, loop.End} {
			if got := read(10); got < want || i < 2 && got != loop.None {
				t.Errorf("look %d at nothing new: grade %d, want %d", i+1, got, want)
			}
		}
		st := b.State()
		if k := st.Step("a").Background; len(k) != 1 || k[0].At != 10 || k[0].Runner != "t" {
			t.Errorf("the state knows %+v", k)
		}
	})
}
