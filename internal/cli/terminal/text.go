package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/core/view"
)

// Fit cuts a line at a width, in character cells; escape sequences take no room.
func Fit(line string, width int) string { return ansi.Truncate(line, max(1, width), "…") }

// Spread puts left and right at the two edges of a line; left gives way.
func Spread(left, right string, width int) string {
	room := width - ansi.StringWidth(right) - 2
	if right == "" || room < 20 {
		return Fit(left, width)
	}
	left = Fit(left, room)
	return left + strings.Repeat(" ", room+2-ansi.StringWidth(left)) + right
}

// Sanitize makes a text of others fit for a terminal, line by line.
func Sanitize(text string) string { return view.Whole(strings.TrimSpace(text)) }
