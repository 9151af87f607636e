package dispatch

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
)

// stdin names standard input on a command line.
const stdin = "-"

// text finds the task: the second argument, --task, or standard input. Behind a task "-" adds standard input to it.
func (a *runCommand) text(cmd *cobra.Command, args []string) error {
	args = args[1:]
	piped := len(args) > 0 && args[len(args)-1] == stdin
	if piped {
		args = args[:len(args)-1]
	}
	switch {
	case len(args) == 2:
		return app.Usage("%s: 3 given, want 1 to 2, and - for standard input: %s", cmd.CommandPath(), cmd.UseLine())
	case len(args) == 1 && a.flags.text != "":
		return app.Usage("the task is given twice: as the second argument and with --task")
	case len(args) == 1:
		a.flags.text = args[0]
	case a.flags.text == "" && a.App.Piped():
		piped = piped || a.flags.plan != stdin
	}
	if !piped && a.flags.text != "" {
		return nil
	}
	var text string
	var err error
	if piped {
		if a.flags.plan == stdin {
			return app.Usage("--plan - reads standard input, and so does the task: give one of them another way")
		}
		if text, err = readText(cmd.Context(), a.App.In); err != nil {
			return err
		}
	}
	switch {
	case a.flags.text == "" && strings.TrimSpace(text) == "":
		return app.Usage("%s: there is no task: %s, --task \"what to do\", or standard input", cmd.CommandPath(),
			cmd.UseLine())
	case a.flags.text == "":
		a.flags.text = text
	default:
		a.flags.attached = text
	}
	return nil
}

// readText reads a text from standard input, and refuses what is no text or larger than a task may be.
func readText(ctx context.Context, in io.Reader) (string, error) {
	type input struct {
		b   []byte
		err error
	}
	come := make(chan input, 1) // reading cannot be interrupted: the program ends without it
	go func() {
		b, err := io.ReadAll(io.LimitReader(in, events.MaxTask+1))
		come <- input{b, err}
	}()
	var got input
	select {
	case got = <-come:
	case <-ctx.Done():
		return "", app.Exit(app.ExitInterrupted, nil)
	}
	b := bytes.TrimPrefix(got.b, []byte("\ufeff"))
	switch {
	case got.err != nil:
		return "", app.Usage("standard input: %w", got.err)
	case len(b) > events.MaxTask:
		return "", app.Usage("standard input has more than %d bytes, the limit of a task: put it into a file of the workspace, and name the file", events.MaxTask)
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", app.Usage("standard input is not text (UTF-8): inspan artifacts put RUN FILE gives a run a file")
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// attach puts what came from standard input behind a task. It is data: nothing in it stands for a variable.
func attach(task, input string) string {
	if strings.TrimSpace(input) == "" {
		return task
	}
	return strings.TrimRight(task, "\n") + "\n\nFrom standard input:\n\n" + input
}
