package runtree

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func grow(t interface{ Fatal(...any) }, tree *view.Tree, stored [][]byte) {
	for _, b := range stored {
		f, p, err := events.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		tree.Apply(f, p)
	}
}

func TestWaitingStep(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-a"), &view.Tree{}
	hold := runtest.Step("hold")
	hold.Flow = &events.StepFlow{Kind: events.ControlWait, Signal: "deployed"}
	grow(t, tree, b.Append(runtest.Created(), runtest.Started(), runtest.Plan(hold), runtest.Ready("hold"), runtest.Allowed("hold")))
	t.Run("CLI-8 PLAN-12a a step that waits for a signal says so, and no model is said to think", func(t *testing.T) {
		got := strings.Join(Drawing{Width: 80}.Fitted(tree, runtest.Start.Add(time.Minute), 20), "\n")
		if !strings.Contains(got, "waits for the signal deployed") || strings.Contains(got, "thinking") {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-a"), &view.Tree{}
	ref, two := runtest.Ref("build", "c1-1", "bash"), runtest.Ref("build", "c1-2", "bash")
	at := func(seconds int) time.Time { return runtest.Start.Add(time.Duration(seconds) * time.Second) }
	grow(t, tree, b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("ship", "build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", "I build it.", runtest.Asked(1, 1, "bash", `{"command":"make all"}`), runtest.Asked(1, 2, "bash", `{"command":"git push -f"}`)),
		runtest.CallYes(ref, "once"), runtest.CallNo(two), runtest.CallBegun(ref, 1)))
	d := Drawing{Width: 80}
	t.Run("CLI-8 a run under way shows what runs, what was refused and what comes next", func(t *testing.T) {
		want := []string{
			"⠋ run-a  worker · scripted/test                                             12 s",
			"  fix the wheel",
			"  ⠋ build  do build                                                 1 turn  8.0 s",
			"    ▸ I build it.",
			"      ⠋ bash make all                                                      4.0 s",
			"      ⊘ bash git push -f  refused by no-force-push: force push rewrites the his…",
			"  ○ ship  do ship                                                    after build",
			"  running · 0 of 2 steps · 1 turn · 0 of 100 calls · 20 tokens in, 10 out",
		}
		got := d.Fitted(tree, at(12), 20)
		if len(got) != len(want) {
			t.Fatalf("got\n%s", strings.Join(got, "\n"))
		}
		for i := range want {
			if strings.Join(strings.Fields(got[i]), " ") != strings.Join(strings.Fields(want[i]), " ") {
				t.Errorf("line %d\n got %s\nwant %s", i+1, got[i], want[i])
			}
		}
	})
	grow(t, tree, b.Append(runtest.CallDone(ref, b.State().Sequence, "made"), runtest.Turn(2, "build", "Built."), runtest.StepDone("build", "Built."), runtest.Ready("ship"),
		runtest.GateAt("g-1", "ship", "")))
	t.Run("GATE-14 a gate shows how long it waits and the commands that answer it", func(t *testing.T) {
		got := strings.Join(d.Fitted(tree, at(60), 20), "\n")
		for _, w := range []string{"◆ run-a", "✓ build", "waits for a person: autonomy 3 asks at critical steps", "inspan approve run-a/g-1", `inspan reject  run-a/g-1 --reason "..."`, "waiting · 1 of 2 steps"} {
			if !strings.Contains(got, w) {
				t.Errorf("it does not show %q:\n%s", w, got)
			}
		}
		if strings.Contains(got, "make all") {
			t.Error("a completed step is not folded")
		}
		if whole := (Drawing{Width: 80, Whole: true}).Lines(tree, at(60)); !strings.Contains(strings.Join(whole, "\n"), "✓ bash make all  made") {
			t.Errorf("the whole tree hides the calls:\n%s", strings.Join(whole, "\n"))
		}
	})
}

func TestDrawingPaused(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-b"), &view.Tree{}
	at := runtest.Start.Add(time.Minute)
	grow(t, tree, b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build")))
	if got := strings.Join((Drawing{Width: 80}).Lines(tree, at), "\n"); !strings.Contains(got, "thinking") {
		t.Fatalf("the model is asked:\n%s", got)
	}
	grow(t, tree, b.Append(&events.RunPausedData{Event: "run_paused", From: events.Running, To: events.Paused, By: "executor", Reason: "provider away", ClockStopped: true}))
	t.Run("CLI-8 PLUS-13 a paused run shows why, and not that its model works", func(t *testing.T) {
		got := strings.Join((Drawing{Width: 80}).Lines(tree, at), "\n")
		if strings.Contains(got, "thinking") || !strings.Contains(got, "provider away") {
			t.Errorf("it shows\n%s", got)
		}
	})
}

func TestDrawingProp(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 no drawing of any run is wider or higher than the terminal", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b, tree := runtest.New("default", "run-a"), &view.Tree{}
			d := Drawing{Paint: terminal.Paint(rapid.Bool().Draw(t, "colour")), Tail: map[string]string{"step build": "世界 words"}}
			for range rapid.IntRange(0, 60).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				grow(t, tree, b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]))
			}
			d.Width = rapid.IntRange(1, 200).Draw(t, "width")
			most := rapid.IntRange(1, 40).Draw(t, "height")
			now := runtest.Start.Add(time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "now")) * time.Second)
			lines := d.Fitted(tree, now, most)
			if len(lines) > most || len(lines) == 0 {
				t.Fatalf("%d lines, at most %d", len(lines), most)
			}
			d.Whole, d.Zone = true, time.UTC
			for _, l := range append(lines, d.Lines(tree, now)...) {
				if w := ansi.StringWidth(l); w > d.Width || strings.ContainsAny(l, "\n\r") {
					t.Fatalf("%d cells, at most %d: %q", w, d.Width, l)
				}
			}
		})
	})
}

func TestInner(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-a"), &view.Tree{}
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", "", runtest.Asked(1, 1, events.ToolRuntime, `{"prompt":"build it"}`)))
	ref := runtest.Ref("build", "c1-1", events.ToolRuntime)
	b.Append(runtest.CallYes(ref, "reconcilable"), runtest.CallBegun(ref, 1))
	b.Append(runtest.Progressed(b.State().Open["c1-1"], "session-1"))
	for range 12 {
		id := run.InnerID(b.State().Open["c1-1"])
		b.Append(runtest.Requested(b.State().Open["c1-1"], "bash", `{"command":"make"}`))
		one := runtest.InnerRef("build", id, "bash", "c1-1")
		b.Append(runtest.CallYes(one, "once"), runtest.CallBegun(one, 1))
		b.Append(runtest.InnerDone(b.State().Open[id], "made"))
	}
	asked := run.InnerID(b.State().Open["c1-1"])
	b.Append(runtest.Requested(b.State().Open["c1-1"], "bash", `{"command":"release it"}`))
	b.Append(runtest.GateAt("g-1", "build", asked))
	grow(t, tree, b.Events())
	now := runtest.Start.Add(time.Minute)
	t.Run("CLI-8 PLUS-12b a run shows what its program does, and how to answer the gate that it waits at", func(t *testing.T) {
		got := strings.Join(Drawing{Width: 80}.Fitted(tree, now, 20), "\n")
		for _, want := range []string{"  ⠋ runtime", "        … 7 earlier calls", "        ✓ bash make  made", "        ◆ bash release it", "inspan approve run-a/g-1"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	})
	t.Run("CLI-8 a run that is shown whole has all that its program did", func(t *testing.T) {
		got := strings.Join(Drawing{Width: 80, Whole: true}.Lines(tree, now), "\n")
		if strings.Count(got, "✓ bash make") != 12 || strings.Contains(got, "earlier") {
			t.Errorf("got\n%s", got)
		}
	})
}
