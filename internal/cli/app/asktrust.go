package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/trust"
)

func names(all []Contribution) string {
	var out []string
	for _, c := range all {
		out = append(out, c.Kind+" "+view.Clip(c.Path, 400))
	}
	return strings.Join(out, ", ")
}

// refusal says what was not accepted, and what to do.
func refusal(fresh []Contribution) error {
	lines := []string{"files of this directory can run commands, and no one has accepted them:"}
	for _, c := range fresh {
		lines = append(lines, "  "+heading(c))
	}
	return Exit(ExitRefused, fmt.Errorf("%s\n%w: look at it and accept it with inspan trust, or for this once with --trust; --agents, --scripts, --formulas and --store name folders of your own",
		strings.Join(lines, "\n"), ErrNotTrusted))
}

// heading is a contribution in one line.
func heading(c Contribution) string {
	what := "new"
	if c.Was.Digest != "" {
		what = "changed since " + c.Was.At.Local().Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("%-8s  %s  (%s, %s)", c.Kind, view.Clip(c.Path, 400), view.Plural(len(c.Files), "file"), what)
}

// TrustLines show contributions: what each would run, and where another was accepted before, what is different.
func TrustLines(fresh []Contribution) []string {
	var out []string
	for _, c := range fresh {
		out = append(out, heading(c))
		for _, line := range c.Runs {
			mark := " "
			if c.Was.Digest != "" && !slices.Contains(c.Was.Runs, line) {
				mark = "+"
			}
			out = append(out, "  "+mark+" "+view.Clip(line, 600))
		}
		if c.Was.Digest == "" || c.Kind == trust.Store {
			continue
		}
		for _, line := range c.Was.Runs {
			if !slices.Contains(c.Runs, line) {
				out = append(out, "  - "+view.Clip(line, 600))
			}
		}
		for _, line := range c.Differences(c.Was.Files) {
			out = append(out, "  file "+view.Clip(line, 300))
		}
	}
	return out
}

// Ask shows contributions to the person at the terminal and asks.
func (a Acceptance) Ask(ctx context.Context, fresh []Contribution) (bool, error) {
	p := a.App.Paint()
	fmt.Fprintf(a.App.Err, "%s\n\n", p.Bold(a.App.Wrapped("Files of this directory can run commands, and you have not accepted them as they are now:", 0)))
	for _, line := range TrustLines(fresh) {
		text := strings.TrimLeft(line, " ")
		indent := strings.Repeat(" ", 2+len(line)-len(text))
		for i, part := range strings.Split(a.App.Wrapped(text, len(indent)+2), "\n") {
			if i == 1 {
				indent += "  "
			}
			fmt.Fprintln(a.App.Err, indent+part)
		}
	}
	fmt.Fprintln(a.App.Err)
	for {
		fmt.Fprint(a.App.Err, p.Bold("Accept it as it is now? [y]es  [n]o  [d]etails: "))
		line, err := a.readLine(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		case "d", "details":
			a.details(fresh)
		}
	}
}

// maxDetail is how many lines of a file are shown.
const maxDetail = 80

// details prints the files that are new or changed.
func (a Acceptance) details(fresh []Contribution) {
	p := a.App.Paint()
	for _, c := range fresh {
		if c.Kind == trust.Store {
			continue
		}
		for _, changed := range c.Differences(c.Was.Files) {
			text, ok := c.Files[changed[2:]]
			if !ok {
				continue
			}
			fmt.Fprintf(a.App.Err, "\n%s\n", p.Bold(view.Clip(c.Kind+" "+changed, 400)))
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			for i, line := range lines {
				if i == maxDetail {
					fmt.Fprintf(a.App.Err, "  %s\n", p.Dim(fmt.Sprintf("... and %d more lines in %s", len(lines)-i,
						view.Clip(c.Path, 300))))
					break
				}
				fmt.Fprintf(a.App.Err, "  %s\n", terminal.Sanitize("|" + line)[1:])
			}
		}
	}
	fmt.Fprintln(a.App.Err)
}

// readLine takes a line of the terminal, mostly before anything else reads from it. Ctrl+C is the end of the command.
func (a Acceptance) readLine(ctx context.Context) (string, error) {
	breaks, stop := a.App.Signals()
	defer stop()
	got := a.typed()
	select {
	case line, ok := <-got:
		if !ok {
			return "", io.EOF
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	case <-breaks:
	case <-ctx.Done(): // the same signal may end the context first
	}
	fmt.Fprintln(a.App.Err)
	return "", Exit(ExitInterrupted, context.Canceled)
}

// typed gives one line of the input; it is closed at its end. Once the keyboard reads, the line comes from there.
func (a Acceptance) typed() <-chan []byte {
	if a.App.Keys != nil && a.App.Keys.Started() {
		return a.App.Keys.Next()
	}
	got := make(chan []byte, 1) // reading cannot be interrupted: the goroutine ends with its line, or the program
	go func() {
		defer close(got)
		var line []byte
		for b := make([]byte, 1); ; {
			n, err := a.App.In.Read(b)
			line = append(line, b[:n]...)
			if n == 1 && b[0] == '\n' {
				got <- line
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return got
}
