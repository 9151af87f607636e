// Package firstrun has what inspan does without a command: the set-up of a person who has none, and then the
// conversation about the directory. It has inspan login too, which is the part of the set-up that finds a model.
//
// Promises: a key is in the request that tries it and in a file of its own that only its owner may read, nowhere else.
// Nothing is written before the last question of a part was answered, and then whole files only; a key is written
// before the setting that names it. What was set up is not asked about again. Without a terminal nothing is asked.
package firstrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/lineedit"
	"github.com/inspan/inspan/internal/service"
)

// Start sets a person up who has no configuration, else it opens the conversation about the working directory. inspan
// runs another command line in the place of this one.
func Start(ctx context.Context, a *app.App, inspan func(ctx context.Context, args ...string) error) error {
	path, err := service.FileOf(service.FromSystem, "")
	if err == nil {
		_, missing := os.Stat(path)
		if errors.Is(missing, os.ErrNotExist) {
			return setUp(ctx, a, inspan)
		}
	}
	args, err := conversation(ctx, a)
	if err != nil || args == nil {
		return err
	}
	return inspan(ctx, args...)
}

// setUp is the first start.
func setUp(ctx context.Context, a *app.App, inspan func(ctx context.Context, args ...string) error) error {
	p := a.Paint()
	fmt.Fprintf(a.Out, "%s\n%s\n\n", p.Bold("Welcome to Inspan."),
		a.Wrapped("Agents work on copies of your files, in a sandbox, and ask "+
			"where it matters; every step is in a log. This asks for a model once. Enter takes what is in brackets, Ctrl+C leaves without a trace.", 0))
	s := newSetup(a)
	found, err := s.choose(ctx)
	if err != nil {
		return s.left(err)
	}
	if err := s.write(found); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	def := "y"
	if found.model != "" {
		def = "n"
	}
	see, err := s.yes(ctx, "See an agent repair a small Go program now? It needs no key and costs nothing", def)
	if err != nil {
		return s.left(err)
	}
	if see {
		fmt.Fprintln(a.Out)
		if err := inspan(ctx, "demo"); err != nil {
			return err
		}
	}
	s.next(found.model != "")
	return nil
}

// setup asks and writes.
type setup struct {
	App  *app.App
	read *lineedit.Reader
}

func newSetup(a *app.App) *setup { return &setup{a, lineedit.NewReader(a.Keys, a.Term, nil)} }

// left is the end of a set-up that a person broke off.
func (s *setup) left(err error) error {
	if errors.Is(err, lineedit.ErrBreak) || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		fmt.Fprintln(s.App.Err, "Left before the end. What is not written yet is asked for again at the next start.")
		return app.Exit(app.ExitInterrupted, nil)
	}
	return err
}

// ask puts one question; an empty answer is def.
func (s *setup) ask(ctx context.Context, question, def string) (string, error) {
	p := s.App.Paint()
	prompt := p.Bold(question)
	if def != "" {
		prompt += " [" + p.Cyan(def) + "]"
	}
	line, err := s.read.Answer(ctx, prompt+": ")
	return cmp.Or(strings.TrimSpace(line), def), err
}

// yes asks for y or n.
func (s *setup) yes(ctx context.Context, question, def string) (bool, error) {
	answer, err := s.oneOf(ctx, question, def, "y", "n")
	return answer == "y", err
}

// oneOf asks for one of some words, or for the beginning of one.
func (s *setup) oneOf(ctx context.Context, question, def string, words ...string) (string, error) {
	for {
		answer, err := s.ask(ctx, question, def)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(words, func(w string) bool {
			return strings.HasPrefix(strings.ToLower(answer), w) || strings.HasPrefix(w, strings.ToLower(answer))
		})
		if i >= 0 {
			return words[i], nil
		}
		fmt.Fprintf(s.App.Out, "  %s\n", s.App.Paint().Yellow("One of "+strings.Join(words, ", ")+"."))
	}
}

// number asks for one of a list that was shown, the first by default.
func (s *setup) number(ctx context.Context, question string, n int) (int, error) {
	for {
		answer, err := s.ask(ctx, question, "1")
		if err != nil {
			return 0, err
		}
		if i, err := strconv.Atoi(answer); err == nil && i >= 1 && i <= n {
			return i - 1, nil
		}
		fmt.Fprintf(s.App.Out, "  %s\n", s.App.Paint().Yellow(fmt.Sprintf("A number from 1 to %d.", n)))
	}
}

// next says what to type.
func (s *setup) next(model bool) {
	p := s.App.Paint()
	fmt.Fprintf(s.App.Out, "\n%s\n", p.Bold("What to type next"))
	rows := [][2]string{{"talk", p.Cyan("inspan") + "   in the directory of a project"},
		{"one task", p.Cyan(`inspan run coder "make the tests pass"`)},
		{"an agent of its own", p.Cyan("inspan init --project") + "   writes one for the project, to change"},
		{"the result", p.Cyan("inspan diff last") + ", " + p.Cyan("inspan merge last")}}
	if !model {
		rows = slices.Insert(rows, 0, [2]string{"a model", p.Cyan("inspan login") + "   asks for a provider and a key"})
	}
	s.App.Pairs(rows)
}
