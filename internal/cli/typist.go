package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// errBreak is a Ctrl+C or Ctrl+D where a line was asked for.
var errBreak = errors.New("the line was broken off")

// keyboard is what a person types or a program pipes in. Reading can not be interrupted, so one goroutine reads from the
// first question to the end of the program. What comes while nobody asks waits for the next question.
type keyboard struct {
	in io.Reader
	// raw gives pieces as they come, for an editor; else they are lines, with their ends.
	raw  bool
	once sync.Once
	come chan []byte
}

// next returns the channel of what is typed; it is closed at the end of the input.
func (k *keyboard) next() <-chan []byte {
	k.once.Do(func() {
		k.come = make(chan []byte)
		read := bufio.NewReader(k.in)
		go func() {
			defer close(k.come)
			for {
				piece, err := k.read(read)
				if len(piece) > 0 {
					k.come <- piece
				}
				if err != nil {
					return
				}
			}
		}()
	})
	return k.come
}

func (k *keyboard) read(from *bufio.Reader) ([]byte, error) {
	if !k.raw {
		return from.ReadBytes('\n')
	}
	b := make([]byte, from.Size())
	n, err := from.Read(b)
	return b[:n], err
}

// quiet is how long nothing may come before what was typed too early is thought to be all of it.
const quiet = 20 * time.Millisecond

// drop forgets what was typed before now, so that it does not answer what nobody had seen.
func (k *keyboard) drop(ctx context.Context) {
	limit := time.NewTimer(quiet)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-k.next():
			if !ok {
				return
			}
			limit.Reset(quiet)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// typist asks a person for lines: with editing, history and completion at a terminal, plainly anywhere else.
type typist struct {
	keys *keyboard
	out  screen
	// person is true where both sides are a terminal, editing where it can move its cursor too; fd is that of the input.
	person, editing bool
	fd              int
	// breaks tells of each Ctrl+C that the terminal does not hand over as a key.
	breaks <-chan os.Signal
	// rest is what was read and not used yet.
	rest string
	// complete offers a longer line for what stands before the cursor; may be nil.
	complete func(line string) string
	past     *past
}

// newTypist makes one. It edits lines only where both sides are a terminal.
func newTypist(keys *keyboard, out screen, past *past) *typist {
	t := &typist{keys: keys, out: out, past: past}
	if f, ok := keys.in.(*os.File); ok && out.terminal && isTerminal(f) {
		t.person, t.editing, keys.raw, t.fd = true, out.tty, out.tty, int(f.Fd()) //nolint:gosec // a file descriptor fits
	}
	return t
}

// live reports whether a person types at a terminal.
func (t *typist) live() bool { return t.person }

// Line asks for an input, which may have several lines and is kept to be found again with the arrow keys. io.EOF is the end
// of the input, errBreak a Ctrl+C or Ctrl+D where nothing was typed; where ctx ends first it is the cause.
func (t *typist) Line(ctx context.Context, prompt string) (string, error) {
	if !t.editing {
		return t.plain(ctx, prompt)
	}
	line, err := t.edit(ctx, &editor{prompt: prompt, whole: true, past: t.past, complete: t.complete})
	if err == nil {
		t.past.add(line)
	}
	return line, err
}

// fresh forgets what a person typed before now, so that it does not answer a question that nobody had seen. What a program
// pipes in is meant to answer.
func (t *typist) fresh(ctx context.Context) {
	if t.person {
		t.rest = ""
		t.keys.drop(ctx)
	}
}

// Answer asks a question. At a terminal Ctrl+C is errBreak.
func (t *typist) Answer(ctx context.Context, prompt string) (string, error) {
	if !t.editing {
		return t.plain(ctx, prompt)
	}
	return t.edit(ctx, &editor{prompt: prompt})
}

// edit has an input typed.
func (t *typist) edit(ctx context.Context, e *editor) (string, error) {
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
		width, height := t.out.size()
		t.write(e.draw(width, height, done != typing))
		switch done {
		case entered:
			t.rest = e.pending
			return e.text, nil
		case broken:
			return "", errBreak
		case typing:
		}
		select {
		case b, ok := <-t.keys.next():
			if !ok {
				t.write("\r\n")
				return "", io.EOF
			}
			done = e.take(b)
		case <-resized:
		case <-t.breaks: // pressed before the terminal was raw
			done = e.take([]byte{3})
		case <-ctx.Done():
			t.write(e.draw(width, height, true))
			return "", context.Cause(ctx)
		}
	}
}

// write shows something; a terminal that is gone shows nothing.
func (t *typist) write(s string) { _, _ = io.WriteString(t.out.out, s) }

// plain takes a line of what is not a terminal, or of one that can do no more than that.
func (t *typist) plain(ctx context.Context, prompt string) (string, error) {
	if t.person {
		t.write(prompt)
	}
	select {
	case <-t.breaks:
		t.write("\n")
		return "", errBreak
	case line, ok := <-t.keys.next():
		if !ok {
			return "", io.EOF
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
