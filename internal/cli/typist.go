package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

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

// typist asks a person for lines: with editing, history and completion at a terminal, plainly anywhere else.
type typist struct {
	keys *keyboard
	out  screen
	// rest is what was read and not used yet.
	rest []byte
	// terminal edits lines; nil where the input is none.
	terminal *term.Terminal
	fd       int
	ctx      context.Context //nolint:containedctx // that of the question under way, for Read
	// complete offers a longer line for what stands before the cursor; may be nil.
	complete func(line string) string
	past     *past
}

// newTypist makes one. It edits lines only where both sides are a terminal.
func newTypist(keys *keyboard, out screen, past *past) *typist {
	t := &typist{keys: keys, out: out, past: past}
	if f, ok := keys.in.(*os.File); ok && out.tty && isTerminal(f) {
		keys.raw = true
		t.fd = int(f.Fd()) //nolint:gosec // a file descriptor fits
		t.fresh()
	}
	return t
}

// fresh makes the editor anew: one whose line was broken off still thinks that it stands in it.
func (t *typist) fresh() {
	t.terminal = term.NewTerminal(t, "")
	t.terminal.History = t.past
	t.terminal.AutoCompleteCallback = t.tab
}

// live reports whether a person types at a terminal.
func (t *typist) live() bool { return t.terminal != nil }

// Line asks for one line. io.EOF is the end of the input, errBreak a Ctrl+C or Ctrl+D at a terminal; where ctx ends first
// it is the cause. keep says that the line is worth finding again with the arrow keys.
func (t *typist) Line(ctx context.Context, prompt string, keep bool) (string, error) {
	t.ctx = ctx
	if t.terminal == nil {
		return t.plain(ctx)
	}
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(t.fd, before) }()
	if w, h := t.out.size(); h > 0 {
		_ = t.terminal.SetSize(w, h) // it only fails for sizes that are none
	}
	t.terminal.SetPrompt(prompt)
	t.terminal.SetBracketedPasteMode(true)
	defer func() { t.terminal.SetBracketedPasteMode(false) }()
	t.past.keep = false // a whole question is kept below, not its lines
	var all []string
	for {
		line, err := t.terminal.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		switch {
		case err != nil && !pasted:
			return "", t.broken(ctx, err)
		case pasted, strings.HasSuffix(line, `\`) && keep:
			all = append(all, strings.TrimSuffix(line, `\`))
			t.terminal.SetPrompt("… ")
			continue
		}
		all = append(all, line)
		text := strings.Join(all, "\n")
		if keep {
			t.past.add(text)
		}
		return text, nil
	}
}

// broken says why there is no line.
func (t *typist) broken(ctx context.Context, err error) error {
	_, _ = io.WriteString(t.out.out, "\r\n")
	t.fresh()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return errBreak
	}
	return err
}

// plain takes a line of what is not a terminal.
func (t *typist) plain(ctx context.Context) (string, error) {
	select {
	case line, ok := <-t.keys.next():
		if !ok {
			return "", io.EOF
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Read implements io.Reader for the terminal: it ends with the question.
func (t *typist) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		select {
		case b, ok := <-t.keys.next():
			if !ok {
				return 0, io.EOF
			}
			t.rest = b
		case <-t.ctx.Done():
			return 0, context.Cause(t.ctx)
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write implements io.Writer for the terminal.
func (t *typist) Write(p []byte) (int, error) { return t.out.out.Write(p) }

func (t *typist) tab(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' || t.complete == nil || pos != len(line) {
		return "", 0, false
	}
	more := t.complete(line)
	return more, len(more), true
}
