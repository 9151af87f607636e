package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/inspan/inspan/internal/core/view"
)

// screen is where output goes: a terminal, or anything else.
type screen struct {
	out io.Writer
	fd  int
	// terminal is true for any, tty for one that can move its cursor.
	terminal, tty bool
}

func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok {
		return screen{out: w}
	}
	fd := int(f.Fd()) //nolint:gosec // a file descriptor fits
	is := term.IsTerminal(fd)
	return screen{out: w, fd: fd, terminal: is, tty: is && os.Getenv("TERM") != "dumb"}
}

// plainWidth is the width of what is not shown on a terminal.
const plainWidth = 120

// size of the terminal in characters; of anything else, plainWidth and no height.
func (s screen) size() (width, height int) {
	if s.tty {
		if w, h, err := term.GetSize(s.fd); err == nil && w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	return plainWidth, 0
}

// colour reports whether to colour (NO_COLOR, see no-color.org).
func (s screen) colour() bool { return s.tty && os.Getenv("NO_COLOR") == "" }

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits
}

// paint colours text, or leaves it as it is.
type paint bool

func (p paint) in(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.in("1", s) }
func (p paint) dim(s string) string    { return p.in("2", s) }
func (p paint) red(s string) string    { return p.in("31", s) }
func (p paint) green(s string) string  { return p.in("32", s) }
func (p paint) yellow(s string) string { return p.in("33", s) }
func (p paint) cyan(s string) string   { return p.in("36", s) }

// state colours a word by what it says.
func (p paint) state(word string) string {
	switch word {
	case "completed":
		return p.green(word)
	case "failed", "held":
		return p.red(word)
	case "paused", "waiting":
		return p.yellow(word)
	case "running", "created":
		return p.cyan(word)
	}
	return word
}

func (o *printer) paint() paint { return paint(o.term.colour()) }

// fit cuts a line at a width, in character cells; escape sequences take no room.
func fit(line string, width int) string { return ansi.Truncate(line, max(1, width), "…") }

// spread puts left and right at the two edges of a line; left gives way.
func spread(left, right string, width int) string {
	room := width - ansi.StringWidth(right) - 2
	if right == "" || room < 20 {
		return fit(left, width)
	}
	left = fit(left, room)
	return left + strings.Repeat(" ", room+2-ansi.StringWidth(left)) + right
}

// rightAligned begins the head of a column whose cells are aligned to the right.
const rightAligned = ">"

// table prints aligned columns; a head that begins with rightAligned is that of numbers. The last column gives way where a terminal is
// too narrow.
func (o *printer) table(heads []string, rows [][]string) {
	width, _ := o.term.size()
	p, cells := o.paint(), make([]string, len(heads))
	widths, right := make([]int, len(heads)), make([]bool, len(heads))
	for i, head := range heads {
		head, right[i] = strings.CutPrefix(head, rightAligned)
		cells[i], widths[i] = p.dim(head), len(head)
		for _, r := range rows {
			widths[i] = max(widths[i], ansi.StringWidth(r[i]))
		}
	}
	for _, cells := range append([][]string{cells}, rows...) {
		var b strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
			if right[i] {
				cell, gap = gap+cell, ""
			}
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(gap + "  ")
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if o.term.tty {
			text = fit(text, width)
		}
		fmt.Fprintln(o.out, text)
	}
}

// pairs prints names and values, one a line.
func (o *printer) pairs(pairs [][2]string) {
	p, most := o.paint(), 0
	for _, kv := range pairs {
		most = max(most, len(kv[0]))
	}
	for _, kv := range pairs {
		if kv[1] != "" {
			fmt.Fprintf(o.out, "%s  %s\n", p.dim(fmt.Sprintf("%-*s", most, kv[0])), kv[1])
		}
	}
}

// wrapped breaks a text between words where a terminal is too narrow for it and what stands before it.
func (o *printer) wrapped(text string, before int) string {
	if !o.term.tty {
		return text
	}
	width, _ := o.term.size()
	return ansi.Wordwrap(text, max(20, width-before), "")
}

// canvas redraws a block of lines in place at the end of a terminal.
type canvas struct {
	screen
	// drawn is how many rows of the terminal belong to the block.
	drawn int
}

// Synchronized updates keep the terminal from showing a half-drawn block; those that do not know them do nothing.
const (
	beginUpdate = "\x1b[?2026h\x1b[?25l"
	endUpdate   = "\x1b[?25h\x1b[?2026l"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// draw replaces the block, where there is a terminal that can. Lines must fit the width; the caller keeps them below the
// height.
func (c *canvas) draw(lines []string) {
	if !c.tty {
		return
	}
	var b strings.Builder
	b.WriteString(beginUpdate)
	c.rewind(&b)
	for _, l := range lines {
		b.WriteString(l + clearLine + "\n")
	}
	b.WriteString(clearBelow + endUpdate)
	c.drawn = len(lines)
	_, _ = io.WriteString(c.out, b.String()) // a terminal that is gone shows nothing
}

// clear takes the block away; what is printed next stands in its place.
func (c *canvas) clear() {
	if c.drawn > 0 {
		c.keep(nil)
	}
}

// keep is draw for the last time: the block stays, and what comes next is below it.
func (c *canvas) keep(lines []string) {
	c.draw(lines)
	c.drawn = 0
}

func (c *canvas) rewind(b *strings.Builder) {
	if c.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA", c.drawn)
	}
	b.WriteString("\r")
}

// harmless makes a text of others fit for a terminal, line by line.
func harmless(text string) string { return view.Whole(strings.TrimSpace(text)) }
