package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/terminal"
)

// Listing is a list of things as a command read them.
type Listing struct {
	// Heads and Rows are the table, see Printer.Table.
	Heads []string
	Rows  [][]string
	// Names are what the things are called, Values what they are for programs, both in the order of the rows.
	Names  []string
	Values []any
	// Empty is printed in place of a table without rows, Note below one with some.
	Empty, Note string
}

// Add adds a thing.
func (l *Listing) Add(name string, value any, row ...string) {
	l.Names, l.Values, l.Rows = append(l.Names, name), append(l.Values, value), append(l.Rows, row)
}

// Print prints a list in the form that was asked for.
func (o *Printer) Print(l Listing) error {
	switch {
	case o.JSON:
		return o.PrintJSON(OrEmpty(l.Values))
	case o.Form == FormName:
		for _, name := range l.Names {
			fmt.Fprintln(o.Out, name)
		}
	case len(l.Rows) == 0:
		fmt.Fprintln(o.Out, l.Empty)
	default:
		o.Table(l.Heads, l.Rows)
		if l.Note != "" {
			fmt.Fprintln(o.Out, l.Note)
		}
	}
	return nil
}

// Times of a list that is watched.
const (
	// watchEvery is how often it is read again, watchPatience how long a station that does not answer is asked again.
	watchEvery    = time.Second
	watchPatience = time.Minute
)

// WatchFlag defines --watch.
func WatchFlag(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false,
		"go on until Ctrl+C: drawn again on a terminal, elsewhere a line for each thing that is new, changed or gone")
}

// List prints what read reads; with watch it goes on until the command is interrupted, which is its ordinary end.
func (a *App) List(ctx context.Context, watch bool, read func(context.Context) (Listing, error)) error {
	l, err := read(ctx)
	if err != nil {
		return err
	}
	if !watch {
		return a.Print(l)
	}
	w := &watcher{Printer: a.Printer, seen: map[string]string{}}
	defer w.end()
	for failing := time.Duration(0); ; {
		if err == nil {
			failing = 0
			if err := w.show(l); err != nil {
				return err
			}
		} else if failing += watchEvery; failing > watchPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
		one, cancel := context.WithTimeout(ctx, a.Wait)
		l, err = read(one)
		cancel()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the person ended it
		}
	}
}

// watcher shows a list again and again.
type watcher struct {
	Printer
	canvas terminal.Canvas
	// seen are the things that were shown last, by name, as programs see them.
	seen  map[string]string
	order []string
	heads bool
}

func (w *watcher) show(l Listing) error {
	if w.Term.TTY && !w.JSON && w.Form != FormName {
		return w.draw(l)
	}
	return w.lines(l)
}

// draw draws the list over itself, as much of it as the terminal has room for.
func (w *watcher) draw(l Listing) error {
	var b bytes.Buffer
	p := w.Printer
	p.Out = &b
	if err := p.Print(l); err != nil {
		return err
	}
	_, height := w.Term.Size()
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if room := max(height-2, 3); len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1], w.Paint().Dim(fmt.Sprintf("… %d more lines", hidden)))
	}
	width, _ := w.Term.Size()
	for i := range lines {
		lines[i] = terminal.Fit(lines[i], width)
	}
	w.canvas.Screen = w.Term
	w.canvas.Draw(lines)
	return nil
}

// lines appends a line for each thing that is new, changed or gone.
func (w *watcher) lines(l Listing) error {
	now := map[string]string{}
	var rows [][]string
	for i, name := range l.Names {
		b, err := json.Marshal(l.Values[i])
		if err != nil {
			return err
		}
		if now[name] = string(b); w.seen[name] == now[name] {
			continue
		}
		switch {
		case w.JSON && w.Form == FormYAML:
			fmt.Fprintln(w.Out, "---")
			if err := w.PrintJSON(l.Values[i]); err != nil {
				return err
			}
		case w.JSON:
			if err := w.PrintJSONLine(l.Values[i]); err != nil {
				return err
			}
		case w.Form == FormName:
			fmt.Fprintln(w.Out, name)
		default:
			rows = append(rows, l.Rows[i])
		}
	}
	switch {
	case len(rows) > 0:
		w.table(l.Heads, rows, w.heads)
		w.heads = true
	case !w.heads && len(l.Names) == 0 && !w.JSON && w.Form != FormName && len(w.order) == 0 && len(w.seen) == 0:
		fmt.Fprintln(w.Out, l.Empty)
		w.heads = true
	}
	gone := slices.DeleteFunc(slices.Clone(w.order), func(name string) bool { _, there := now[name]; return there })
	for _, name := range gone {
		switch {
		case w.JSON:
			if err := w.PrintJSONLine(map[string]string{"gone": name}); err != nil {
				return err
			}
		case w.Form != FormName:
			fmt.Fprintf(w.Out, "%s  gone\n", name)
		}
	}
	w.seen, w.order = now, slices.Clone(l.Names)
	return nil
}

// end leaves what is drawn on the screen.
func (w *watcher) end() { w.canvas.Drawn = 0 }

// errYAML means that data could not be written as YAML.
var errYAML = errors.New("write as YAML")
