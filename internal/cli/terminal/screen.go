// Package terminal knows what output goes to: its size, whether it takes colour, how text is wrapped, cut and redrawn
// there, and how text of others is made safe for it.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Screen is where output goes: a terminal, or anything else.
type Screen struct {
	Out io.Writer
	fd  int
	// Terminal is true for any, tty for one that can move its cursor.
	Terminal, TTY bool
}

// ScreenOf returns what a writer is; only a file may be a terminal.
func ScreenOf(w io.Writer) Screen {
	f, ok := w.(*os.File)
	if !ok {
		return Screen{Out: w}
	}
	fd := int(f.Fd()) //nolint:gosec // a file descriptor fits
	is := term.IsTerminal(fd)
	return Screen{Out: w, fd: fd, Terminal: is, TTY: is && os.Getenv("TERM") != "dumb"}
}

// plainWidth is the width of what is not shown on a terminal.
const plainWidth = 120

// Size of the terminal in characters; of anything else, plainWidth and no height.
func (s Screen) Size() (width, height int) {
	if s.TTY {
		if w, h, err := term.GetSize(s.fd); err == nil && w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	return plainWidth, 0
}

// Colour reports whether to colour (NO_COLOR, see no-color.org).
func (s Screen) Colour() bool { return s.TTY && os.Getenv("NO_COLOR") == "" }

// IsTerminal reports whether a reader is a terminal.
func IsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits
}
