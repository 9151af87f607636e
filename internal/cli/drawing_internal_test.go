package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
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

func TestDrawing(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-a"), &view.Tree{}
	ref, two := runtest.Ref("build", "c1-1", "bash"), runtest.Ref("build", "c1-2", "bash")
	at := func(seconds int) time.Time { return runtest.Start.Add(time.Duration(seconds) * time.Second) }
	grow(t, tree, b.Say(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("ship", "build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", "I build it.", runtest.Asked(1, 1, "bash", `{"command":"make all"}`), runtest.Asked(1, 2, "bash", `{"command":"git push -f"}`)),
		runtest.CallYes(ref, "once"), runtest.CallNo(two), runtest.CallBegun(ref, 1)))
	d := drawing{width: 80}
	t.Run("CLI-8 a run under way shows what runs, what was refused and what comes next", func(t *testing.T) {
		want := []string{
			"⠋ run-a  worker · scripted/test                                             12 s",
			"  mend the wheel",
			"  ⠋ build  do build                                                 1 turn  8.0 s",
			"    ▸ I build it.",
			"      ⠋ bash make all                                                      4.0 s",
			"      ⊘ bash git push -f  refused by no-force-push: force push rewrites the his…",
			"  ○ ship  do ship                                                    after build",
			"  running · 0 of 2 steps · 1 turn · 0 of 100 calls · 20 tokens in, 10 out",
		}
		got := d.fitted(tree, at(12), 20)
		if len(got) != len(want) {
			t.Fatalf("got\n%s", strings.Join(got, "\n"))
		}
		for i := range want {
			if strings.Join(strings.Fields(got[i]), " ") != strings.Join(strings.Fields(want[i]), " ") {
				t.Errorf("line %d\n got %s\nwant %s", i+1, got[i], want[i])
			}
		}
	})
	grow(t, tree, b.Say(runtest.CallDone(ref, b.State().Sequence, "made"), runtest.Turn(2, "build", "Built."), runtest.StepDone("build", "Built."), runtest.Ready("ship"),
		runtest.GateAt("g-1", "ship", "")))
	t.Run("GATE-14 a gate shows how long it waits and the commands that answer it", func(t *testing.T) {
		got := strings.Join(d.fitted(tree, at(60), 20), "\n")
		for _, w := range []string{"◆ run-a", "✓ build", "waits for a person: autonomy 3 asks at critical steps", "inspan approve run-a/g-1", `inspan reject  run-a/g-1 --reason "..."`, "waiting · 1 of 2 steps"} {
			if !strings.Contains(got, w) {
				t.Errorf("it does not show %q:\n%s", w, got)
			}
		}
		if strings.Contains(got, "make all") {
			t.Error("a completed step is not folded")
		}
		if whole := (drawing{width: 80, whole: true}).lines(tree, at(60)); !strings.Contains(strings.Join(whole, "\n"), "✓ bash make all  made") {
			t.Errorf("the whole tree hides the calls:\n%s", strings.Join(whole, "\n"))
		}
	})
}

func TestDrawingProp(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 no drawing of any run is wider or higher than the terminal", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b, tree := runtest.New("default", "run-a"), &view.Tree{}
			d := drawing{paint: paint(rapid.Bool().Draw(t, "colour")), tail: map[string]string{"step build": "世界 words"}}
			for range rapid.IntRange(0, 60).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				grow(t, tree, b.Say(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]))
			}
			d.width = rapid.IntRange(1, 200).Draw(t, "width")
			most := rapid.IntRange(1, 40).Draw(t, "height")
			now := runtest.Start.Add(time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "now")) * time.Second)
			lines := d.fitted(tree, now, most)
			if len(lines) > most || len(lines) == 0 {
				t.Fatalf("%d lines, at most %d", len(lines), most)
			}
			d.whole, d.zone = true, time.UTC
			for _, l := range append(lines, d.lines(tree, now)...) {
				if w := ansi.StringWidth(l); w > d.width || strings.ContainsAny(l, "\n\r") {
					t.Fatalf("%d cells, at most %d: %q", w, d.width, l)
				}
			}
		})
	})
}

func TestCanvas(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 a block is drawn over the one before, and the last one stays", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		c := canvas{screen: screen{out: &out, tty: true}}
		c.draw([]string{"a", "b"})
		out.Reset()
		c.draw([]string{"c"})
		if got := out.String(); got != beginUpdate+"\x1b[2A\rc"+clearLine+"\n"+clearBelow+endUpdate {
			t.Errorf("drawn as %q", got)
		}
		c.keep([]string{"d"})
		out.Reset()
		c.draw([]string{"e"})
		if strings.Contains(out.String(), "A\r") {
			t.Errorf("what was kept is drawn over: %q", out.String())
		}
	})
}

func TestTail(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 the newest line of growing text is kept, and no more than a line's worth", func(t *testing.T) {
		t.Parallel()
		text := ""
		for _, chunk := range []string{"one\ntw", "o\nth", "ree\x1b[2J", "\n"} {
			text = newest(text, chunk)
		}
		d := drawing{tail: map[string]string{"c1": text, "c2": strings.Repeat("x", 50) + "end"}}
		if got := d.news("c1", 40); got != "three·[2J" {
			t.Errorf("got %q", got)
		}
		if got := d.news("c2", 10); got != "…xxxxxxend" {
			t.Errorf("got %q", got)
		}
		if n := len(newest("", strings.Repeat("ä", 10_000))); n > maxTail {
			t.Errorf("%d bytes are kept", n)
		}
	})
	t.Run("SAFE-11 an address is shown without its password", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"nats://anna:secret@h:4222,h2": "nats://***@h:4222,h2", "anna:se@cret@h": "***@h", "nats://h": "nats://h"} {
			if got := shown(in); got != want {
				t.Errorf("shown(%q) = %q, want %q", in, got, want)
			}
		}
		for in, want := range map[string]string{"nats://h": "h:4222", "h:1": "h:1", "wss://h": "h:443", "tls://[::1]:5": "[::1]:5"} {
			if got, err := hostPort(in); err != nil || got != want {
				t.Errorf("hostPort(%q) = %q, %v", in, got, err)
			}
		}
		if _, err := hostPort("nats://"); codeOf(err) != exitUsage {
			t.Errorf("error %v", err)
		}
	})
}
