package repl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of commands that are files.
const (
	// maxOwn is how many a folder may have, maxOwnFile the bytes of one.
	maxOwn     = 100
	maxOwnFile = 16 << 10
)

// ownName is what the file of a command may be called, without its end.
var ownName = pattern.New(`^[a-z0-9][a-z0-9_-]{0,39}$`)

// ownDir is the folder of the person's commands, empty where a user has none.
func ownDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "inspan", "commands")
}

// loadOwn reads the commands of the person and those of the project that were accepted. One of the program cannot be
// replaced, and the person's come before the project's.
func (r *repl) loadOwn() error {
	var faults []error
	if dir := ownDir(); dir != "" {
		files, err := markdownFiles(dir)
		faults = append(faults, err, r.addOwn(dir, files))
	}
	files, accepted, err := r.app.Acceptance().Commands(app.ProjectCommands)
	if err == nil && !accepted {
		err = fmt.Errorf("the commands in %s were not accepted and are left out: inspan trust shows them",
			app.ProjectCommands)
	}
	return errors.Join(append(faults, err, r.addOwn(app.ProjectCommands, files))...)
}

// markdownFiles reads the person's own.
func markdownFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("commands of your own: %w", err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if len(out) == maxOwn || !strings.HasSuffix(e.Name(), ".md") || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return out, fmt.Errorf("commands of your own: %w", err)
		}
		out[e.Name()] = text
	}
	return out, nil
}

// addOwn adds the commands of a folder.
func (r *repl) addOwn(dir string, files map[string][]byte) error {
	var faults []error
	for file, text := range files {
		name := strings.TrimSuffix(file, ".md")
		switch {
		case !ownName.MatchString(name):
			faults = append(faults, fmt.Errorf("%s/%s is no command: its name must be of a-z, 0-9, _ and -", dir, file))
		case len(text) > maxOwnFile:
			faults = append(faults, fmt.Errorf("%s/%s is no command: it has %d bytes, the limit is %d", dir, file, len(text),
				maxOwnFile))
		case slices.ContainsFunc(r.all(), func(w command) bool { return w.name == "/"+name }):
			faults = append(faults, fmt.Errorf("%s/%s is left out: there is a command /%s already", dir, file, name))
		default:
			r.own = append(r.own, ownCommand("/"+name, string(text)))
		}
	}
	sort.Slice(r.own, func(i, j int) bool { return r.own[i].name < r.own[j].name })
	return errors.Join(faults...)
}

// ownCommand sends the text of a file as an input, with $ARGUMENTS replaced by what stands behind the command. Its
// first line, or the description in its frontmatter, is what /help shows.
func ownCommand(name, text string) command {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	doc := ""
	if head, body, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n"); ok &&
		strings.HasPrefix(text, "---\n") {
		text = body
		for line := range strings.Lines(head) {
			if value, ok := strings.CutPrefix(line, "description:"); ok {
				doc = strings.Trim(strings.TrimSpace(value), `"'`)
			}
		}
	}
	text = strings.TrimSpace(text)
	if doc == "" {
		doc, _, _ = strings.Cut(strings.TrimLeft(text, "# "), "\n")
	}
	return command{name, "[ARGUMENTS]", view.Clip(doc, 80), func(_ context.Context, _ *repl, arg string) error {
		whole := text
		if strings.Contains(text, "$ARGUMENTS") {
			whole = strings.ReplaceAll(text, "$ARGUMENTS", arg)
		} else if arg != "" {
			whole += "\n\n" + arg
		}
		if len(whole) > events.MaxTask || strings.TrimSpace(whole) == "" {
			return app.Usage("%s gives %d bytes, want 1 to %d", name, len(whole), events.MaxTask)
		}
		return &inputError{text: whole}
	}}
}
