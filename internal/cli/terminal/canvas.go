package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Canvas redraws a block of lines in place at the end of a terminal.
type Canvas struct {
	Screen
	// Drawn is how many rows of the terminal belong to the block.
	Drawn int
}

// Synchronized updates keep the terminal from showing a half-drawn block; those that do not know them do nothing.
const (
	beginUpdate = "\x1b[?2026h\x1b[?25l"
	endUpdate   = "\x1b[?25h\x1b[?2026l"
	clearLine   = "\x1b[K"
	ClearBelow  = "\x1b[J"
)

// Draw replaces the block, where there is a terminal that can. Lines must fit the width; the caller keeps them below
// the height.
func (c *Canvas) Draw(lines []string) {
	if !c.TTY {
		return
	}
	var b strings.Builder
	b.WriteString(beginUpdate)
	c.rewind(&b)
	for _, l := range lines {
		b.WriteString(l + clearLine + "\n")
	}
	b.WriteString(ClearBelow + endUpdate)
	c.Drawn = len(lines)
	_, _ = io.WriteString(c.Out, b.String()) // a terminal that is gone shows nothing
}

// Clear takes the block away; what is printed next stands in its place.
func (c *Canvas) Clear() {
	if c.Drawn > 0 {
		c.Keep(nil)
	}
}

// Keep is draw for the last time: the block stays, and what comes next is below it.
func (c *Canvas) Keep(lines []string) {
	c.Draw(lines)
	c.Drawn = 0
}

func (c *Canvas) rewind(b *strings.Builder) {
	if c.Drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA", c.Drawn)
	}
	b.WriteString("\r")
}
