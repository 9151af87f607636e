// Package lineedit asks a person for lines: with editing, history and completion at a terminal, plainly anywhere else.
package lineedit

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/inspan/inspan/internal/cli/terminal"
)

// ErrBreak is a Ctrl+C or Ctrl+D where a line was asked for.
var ErrBreak = errors.New("the line was broken off")

// Reader asks a person for lines: with editing, history and completion at a terminal, plainly anywhere else.
type Reader struct {
	keys *Keyboard
	out  terminal.Screen
	// person is true where both sides are a terminal, editing where it can move its cursor too; fd is that of the
	// input.
	person, editing bool
	fd              int
	// Breaks receives each Ctrl+C that the terminal does not send as a key.
	Breaks <-chan os.Signal
	// Notices are lines that are shown above what is typed.
	Notices <-chan string
	// rest is what was read and not used yet.
	rest string
	// Complete offers what can stand at the cursor; may be nil.
	Complete Completer
	history  *History
}

// NewReader makes one. It edits lines only where both sides are a terminal.
func NewReader(keys *Keyboard, out terminal.Screen, past *History) *Reader {
	t := &Reader{keys: keys, out: out, history: past}
	if f, ok := keys.In.(*os.File); ok && out.Terminal && terminal.IsTerminal(f) {
		t.person, t.editing, keys.raw, t.fd = true, out.TTY, out.TTY, int(f.Fd()) //nolint:gosec // a file descriptor fits
	}
	return t
}

// Interactive reports whether a person types at a terminal.
func (t *Reader) Interactive() bool { return t.person }

// Line asks for an input, which may have several lines and is kept to be found again with the arrow keys. io.EOF is the
// end of the input, ErrBreak a Ctrl+C or Ctrl+D where nothing was typed; where ctx ends first it is the cause.
func (t *Reader) Line(ctx context.Context, prompt string) (string, error) {
	if !t.editing {
		return t.plain(ctx, prompt)
	}
	line, err := t.edit(ctx, &editor{prompt: prompt, multiline: true, history: t.history, complete: t.Complete})
	if err == nil {
		t.history.add(line)
	}
	return line, err
}

// Discard forgets what a person typed before now, so that it does not answer a question that was not shown yet. What a
// program pipes in is meant to answer.
func (t *Reader) Discard(ctx context.Context) {
	if t.person {
		t.rest = ""
		t.keys.Drop(ctx)
	}
}

// Answer asks a question. At a terminal Ctrl+C is ErrBreak.
func (t *Reader) Answer(ctx context.Context, prompt string) (string, error) {
	if !t.editing {
		return t.plain(ctx, prompt)
	}
	return t.edit(ctx, &editor{prompt: prompt})
}

// Secret asks for what must not be shown or kept, at a terminal that can hide it; elsewhere it is ErrBreak.
func (t *Reader) Secret(ctx context.Context, prompt string) (string, error) {
	if !t.editing {
		return "", ErrBreak
	}
	return t.edit(ctx, &editor{prompt: prompt, hidden: true})
}

// escapeWait is how long what a key sends behind an escape may take: after it, the key was Escape.
const escapeWait = 50 * time.Millisecond

// edit has an input typed.
func (t *Reader) edit(ctx context.Context, e *editor) (string, error) {
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(t.fd, before) }()
	resized, stop := resizes()
	defer stop()
	t.write(pasteOn)
	defer t.write(pasteOff)
	for done := e.take([]byte(t.rest)); ; {
		t.rest = ""
		width, height := t.out.Size()
		t.write(e.draw(width, height, done != typing))
		switch done {
		case entered:
			t.rest = e.pending
			return e.text, nil
		case broken:
			return "", ErrBreak
		case typing:
		}
		var alone <-chan time.Time
		if e.pending == "\x1b" {
			alone = time.After(escapeWait)
		}
		select {
		case <-alone:
			e.pending = ""
			done = e.key("\x1b")
		case b, ok := <-t.keys.Next():
			if !ok {
				t.write("\r\n")
				return "", io.EOF
			}
			done = e.take(b)
		case <-resized:
		case line := <-t.Notices:
			t.write(e.rewind(width) + line + "\r\n")
			e.shown = nil
		case <-t.Breaks: // pressed before the terminal was raw
			done = e.take([]byte{3})
		case <-ctx.Done():
			t.write(e.draw(width, height, true))
			return "", context.Cause(ctx)
		}
	}
}

// write shows something; a terminal that is gone shows nothing.
func (t *Reader) write(s string) { _, _ = io.WriteString(t.out.Out, s) }

// plain takes a line of what is not a terminal, or of one that can do no more than that.
func (t *Reader) plain(ctx context.Context, prompt string) (string, error) {
	if t.person {
		t.write(prompt)
	}
	select {
	case <-t.Breaks:
		t.write("\n")
		return "", ErrBreak
	case line, ok := <-t.keys.Next():
		if !ok {
			return "", io.EOF
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
