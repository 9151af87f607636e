package runtree

import (
	"cmp"
	"strings"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
)

// DiffLines is how many lines of a diff a tree shows.
const DiffLines = 6

// changed shows the beginning of what a call changed in files.
func (d Drawing) changed(t *view.Tree, c *view.CallNode, indent string) []string {
	if d.Diff <= 0 || c.Diff == "" {
		return nil
	}
	lines := terminal.Diff(c.Diff, d.Paint, 0)
	n := d.Diff
	if c.DiffLines <= n+1 && len(lines) == c.DiffLines { // a note would take as much room
		n = c.DiffLines
	}
	n = min(n, len(lines))
	var out []string
	for _, l := range lines[:n] {
		out = append(out, d.Row(indent+strings.ReplaceAll(l, "\t", "    "), ""))
	}
	if more := c.DiffLines - n; more > 0 {
		rest := cmp.Or(d.Rest, "inspan diff "+t.Run+" --step "+c.Step)
		out = append(out, d.Row(indent+d.Dim("… "+view.Plural(more, "more line")+", "+rest), ""))
	}
	return out
}
