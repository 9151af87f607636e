package repl

import (
	"context"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/lineedit"
)

// Limits of what is offered at the cursor.
const (
	// maxOffered is how many files are offered, listFor how long a list of the files is used.
	maxOffered = 50
	listFor    = 5 * time.Second
)

// files are those of the person's working tree that can be named with @.
type files struct {
	list func(ctx context.Context) ([]string, error)
	all  []string
	at   time.Time
}

// names lists them; what cannot be listed offers nothing.
func (f *files) names(ctx context.Context) []string {
	if f.list == nil || time.Since(f.at) < listFor {
		return f.all
	}
	f.at = time.Now()
	if all, err := f.list(ctx); err == nil {
		f.all = all
	}
	return f.all
}

// complete offers commands at the beginning of an input, and files behind an @.
func (r *repl) complete(ctx context.Context) lineedit.Completer {
	return func(text string, at int) (int, []lineedit.Candidate) {
		typed := text[:at]
		if strings.HasPrefix(typed, "/") && !strings.ContainsAny(typed, " \n") {
			return 0, offerCommands(r.all(), typed)
		}
		from := strings.LastIndexAny(typed, " \t\n") + 1
		if !strings.HasPrefix(typed[from:], "@") {
			return 0, nil
		}
		var out []lineedit.Candidate
		for _, name := range closest(r.files.names(ctx), typed[from+1:], maxOffered) {
			out = append(out, lineedit.Candidate{Text: reference(name)})
		}
		return from, out
	}
}

// reference is how a file is named in an input.
func reference(name string) string {
	if strings.ContainsAny(name, " \t") {
		return `@"` + name + `"`
	}
	return "@" + name
}

// offerCommands are the commands that begin as what was typed.
func offerCommands(all []command, typed string) []lineedit.Candidate {
	var out []lineedit.Candidate
	for _, w := range all {
		if !strings.HasPrefix(w.name, typed) {
			continue
		}
		c := lineedit.Candidate{Text: w.name, Note: w.doc}
		if w.arg != "" {
			c.Text += " "
		}
		out = append(out, c)
	}
	return out
}

// closest returns the names that have the letters of what was typed in their order, those that fit best first.
func closest(names []string, typed string, most int) []string {
	type fit struct {
		name  string
		score int
	}
	var fits []fit
	for _, n := range names {
		if score, ok := distance(n, strings.ToLower(typed)); ok {
			fits = append(fits, fit{n, score})
		}
	}
	sort.SliceStable(fits, func(i, j int) bool { return fits[i].score < fits[j].score })
	var out []string
	for _, f := range fits[:min(most, len(fits))] {
		out = append(out, f.name)
	}
	return out
}

// distance says how far a path is from what was typed, which is in lower case: the beginning of the name of the file is
// nearest, then a part of it, then a part of the path, then its letters with others between.
func distance(name, typed string) (score int, ok bool) {
	lower := strings.ToLower(name)
	base := path.Base(lower)
	switch {
	case strings.HasPrefix(base, typed), strings.HasPrefix(lower, typed):
		return len(name), true
	case strings.Contains(base, typed):
		return 1_000 + len(name), true
	case strings.Contains(lower, typed):
		return 10_000 + len(name), true
	}
	gaps, at := 0, 0
	for i, c := range []byte(typed) {
		n := strings.IndexByte(lower[at:], c)
		if n < 0 {
			return 0, false
		}
		if i > 0 {
			gaps += n
		}
		at += n + 1
	}
	return 100_000 + 100*gaps + len(name), true
}
