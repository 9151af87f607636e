package terminal

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/view"
)

// mostLines is how many lines of a diff are shown at most.
const mostLines = 2000

// Diff is a unified diff for a terminal: without what a terminal acts on, coloured where that is wanted, and cut after
// a number of lines, 0 for as many as are ever shown.
func Diff(text string, p Paint, most int) []string {
	lines := strings.Split(view.Whole(strings.ReplaceAll(strings.Trim(text, "\n"), "\r\n", "\n")), "\n")
	if most == 0 {
		most = mostLines
	}
	left := max(0, len(lines)-most)
	if left == 1 { // the note would take as much room
		left = 0
	}
	out := make([]string, 0, len(lines)-left+1)
	for _, l := range lines[:len(lines)-left] {
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"):
			l = p.Bold(l)
		case strings.HasPrefix(l, "+"):
			l = p.Green(l)
		case strings.HasPrefix(l, "-"):
			l = p.Red(l)
		case strings.HasPrefix(l, "@@"):
			l = p.Cyan(l)
		}
		out = append(out, l)
	}
	if left > 0 {
		out = append(out, p.Dim(fmt.Sprintf("… %d more lines", left)))
	}
	return out
}
