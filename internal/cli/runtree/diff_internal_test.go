package runtree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestDiffOfCalls(t *testing.T) {
	t.Parallel()
	b, tree := runtest.New("default", "run-a"), &view.Tree{}
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`line %d\twide enough to be cut at forty columns`, i))
	}
	ref := runtest.Ref("build", "c1-1", "write")
	grow(t, tree, b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", "", runtest.Asked(1, 1, "write", `{"path":"a.txt","content":"\u001b[2J`+strings.Join(lines, `\n`)+`"}`)),
		runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1)))
	grow(t, tree, b.Append(runtest.CallDone(ref, b.State().Sequence, "wrote 99 bytes to a.txt"+view.NewFile)))
	now := runtest.Start.Add(time.Minute)
	t.Run("PLUS-14 a finished call shows the beginning of its diff, folded, and where the rest is", func(t *testing.T) {
		got := strings.Join(Drawing{Width: 100, Diff: DiffLines}.Fitted(tree, now, 30), "\n")
		for _, want := range []string{"write a.txt", "+40 -0", "@@ -0,0 +1,40 @@\n        +·[2Jline 0    wide", "        +line 4    wide", "… 35 more lines, inspan diff run-a --step build"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if strings.Contains(got, "line 5 ") || strings.ContainsRune(got, '\x1b') {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("PLUS-14 at 40 columns each line fits, and with little room the diff gives way first", func(t *testing.T) {
		d := Drawing{Width: 40, Diff: DiffLines, Paint: terminal.Paint(true)}
		for _, l := range d.Fitted(tree, now, 30) {
			if ansi.StringWidth(l) > 40 {
				t.Errorf("%q", l)
			}
		}
		whole, plain := len(d.Fitted(tree, now, 30)), Drawing{Width: 40}
		without := plain.Fitted(tree, now, 30)
		if got := d.Fitted(tree, now, len(without)); len(got) != len(without) || whole != len(without)+DiffLines+1 {
			t.Errorf("%d lines, %d without a diff, %d with it", len(got), len(without), whole)
		}
	})
}
