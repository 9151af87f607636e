package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/inspan/inspan/internal/core/view"
)

// maxPrinted is how many bytes of what a command prints go with the next input, half from each end.
const maxPrinted = 8 << 10

// shell runs a command that a person typed, in the person's own shell and directory and with the person's rights: it is
// their act, as in any other terminal. Its output goes with the next input.
func (r *repl) shell(ctx context.Context, line string) error {
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", line)
	out := &printed{to: r.app.Out}
	cmd.Stdout, cmd.Stderr = out, out // one writer, so that it is used by one goroutine
	err := cmd.Run()
	out.end()
	for len(r.breaks) > 0 {
		<-r.breaks // it was for the command
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		return fmt.Errorf("run %q: %w", view.Clip(line, 80), err)
	}
	p := r.app.Paint()
	code := 0
	if ended {
		code = exit.ExitCode()
		fmt.Fprintln(r.app.Out, p.Yellow("  "+exit.String()))
	}
	r.printed = &attachment{"command", fmt.Sprintf("line=%q exit=%q", line, fmt.Sprint(code)), out.text()}
	fmt.Fprintln(r.app.Out, p.Dim("  its output goes with your next input; /drop leaves it out"))
	return nil
}

// onDrop forgets what a command printed.
func onDrop(_ context.Context, r *repl, _ string) error {
	if r.printed == nil {
		fmt.Fprintln(r.app.Out, "  there is no output to leave out")
		return nil
	}
	r.printed = nil
	fmt.Fprintln(r.app.Out, "  the output of the command stays here")
	return nil
}

// printed shows what a command prints, line by line and without what a terminal acts on, and keeps both ends of it.
type printed struct {
	to         interface{ Write([]byte) (int, error) }
	line       string
	head, tail string
	cut        int
}

func (w *printed) Write(b []byte) (int, error) {
	w.line += string(b)
	for {
		line, rest, whole := strings.Cut(w.line, "\n")
		if !whole {
			break
		}
		w.show(line)
		w.line = rest
	}
	if len(w.line) > maxPrinted { // no end of a line in sight
		w.end()
	}
	return len(b), nil
}

// end shows what has no end of a line.
func (w *printed) end() {
	if w.line != "" {
		w.show(w.line)
	}
	w.line = ""
}

func (w *printed) show(line string) {
	line = view.Whole(strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "\uFFFD"))
	fmt.Fprintln(w.to, line)
	if line += "\n"; len(w.head)+len(line) <= maxPrinted/2 && w.tail == "" && w.cut == 0 {
		w.head += line
		return
	}
	w.tail += line
	if over := len(w.tail) - maxPrinted/2; over > 0 {
		w.cut += over
		w.tail = strings.ToValidUTF8(w.tail[over:], "")
	}
}

// text is what goes with the next input.
func (w *printed) text() string {
	if w.cut > 0 {
		return fmt.Sprintf("%s... %d bytes left out ...\n%s", w.head, w.cut, w.tail)
	}
	return w.head + w.tail
}
