// Package docgen writes the part of the documentation that is made from the program itself: events, subjects,
// configuration, commands, JSON Schemas, the AsyncAPI document and the OpenAPI document.
//
// Promises: the same program gives the same bytes on every machine. Nothing of it is written by hand twice: words come
// from pkg/events and its comments, subjects and permissions from internal/topology, variables from internal/service,
// commands from internal/cli. Check finds each file that is missing, different or left over.
package docgen

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files makes all generated files, by path from the root of the module. root is where the module is: comments and
// examples are read from the sources in it.
func Files(root string) (map[string][]byte, error) {
	notes, err := readNotes(root, "pkg/events", "internal/kernel")
	if err != nil {
		return nil, err
	}
	samples, err := readSamples(root)
	if err != nil {
		return nil, err
	}
	files, err := schemas(notes)
	if err != nil {
		return nil, err
	}
	files["docs/events.md"] = eventsPage(notes, samples)
	files["docs/subjects.md"] = subjectsPage()
	files["docs/config.md"] = configPage()
	files["docs/cli.md"] = cliPage()
	if files["docs/asyncapi.yaml"], err = asyncAPI(); err != nil {
		return nil, err
	}
	if files["docs/openapi.json"], err = openAPI(); err != nil {
		return nil, err
	}
	return files, nil
}

// Write writes all generated files into the folder out, removes the schemas that nothing makes any more, and returns
// what changed.
func Write(root, out string) ([]string, error) {
	files, err := Files(root)
	if err != nil {
		return nil, err
	}
	stale, err := differences(out, files)
	if err != nil {
		return nil, err
	}
	for _, name := range stale {
		path := target(out, name)
		b, made := files[name]
		if !made {
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("remove what is left over: %w", err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("make the folder of %s: %w", name, err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return nil, fmt.Errorf("write docs: %w", err)
		}
	}
	return stale, nil
}

// ErrStale means that the generated files below docs are not what the program says now.
var ErrStale = errors.New("generated docs are not up to date: run make docs and commit the result")

// target is where a file goes.
func target(out, name string) string {
	return filepath.Join(out, filepath.FromSlash(strings.TrimPrefix(name, "docs/")))
}

// Check returns ErrStale, with the names of the files, where something in out differs from what Write would leave.
func Check(root, out string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	stale, err := differences(out, files)
	if err != nil {
		return err
	}
	if len(stale) > 0 {
		return fmt.Errorf("%w: %s", ErrStale, strings.Join(stale, ", "))
	}
	return nil
}

// differences lists the files that are missing, different or left over, in order.
func differences(out string, files map[string][]byte) ([]string, error) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		old, err := os.ReadFile(target(out, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read generated docs: %w", err)
		}
		if err != nil || !bytes.Equal(old, files[name]) {
			names = append(names, name)
		}
	}
	old, err := os.ReadDir(filepath.Join(out, "schemas"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the folder of schemas: %w", err)
	}
	for _, e := range old {
		if name := "docs/schemas/" + e.Name(); files[name] == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// Env are the variables that the defaults of commands are read from. They must be empty while Files runs, or the pages
// would tell about one machine.
func Env() []string {
	names := []string{"NATS_URL", "NATS_CREDS", "USER"}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "INSPAN_") {
			names = append(names, name)
		}
	}
	return names
}

// made heads each generated page.
const made = "<!-- Made by make docs. Changes belong into the program. -->\n\n"

// page gathers a markdown page.
type page struct{ bytes.Buffer }

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table writes a table; cells may hold any text.
func (p *page) table(head []string, rows ...[]string) {
	p.row(head)
	p.row(slices.Repeat([]string{"---"}, len(head)))
	for _, r := range rows {
		p.row(r)
	}
	p.say("")
}

func (p *page) row(cells []string) {
	escaped := make([]string, len(cells))
	for i, c := range cells {
		escaped[i] = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", `\|`)
	}
	p.say("| %s |", strings.Join(escaped, " | "))
}

// bytes is the whole page, with one line break at its end.
func (p *page) bytes() []byte { return append(bytes.TrimRight(p.Bytes(), "\n"), '\n') }

func code(s string) string { return "`" + s + "`" }

// codes joins texts as code.
func codes[S ~string](list []S) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = code(string(s))
	}
	return strings.Join(quoted, ", ")
}
