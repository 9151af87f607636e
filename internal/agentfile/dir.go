package agentfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

// MaxAgents is the most agents of one directory.
const MaxAgents = 1024

// LoadDir reads every file of a directory whose name ends in ".prompt". Of the directories below it only those of roles
// are looked at, PROJECT/ROLE (WS-9): their agents share the guards, hooks and settings of the file RoleFile there, and
// their path tells whose they are. A link is followed only where it stays inside the directory. The error joins what is
// wrong in all files, each with its file's name; the map holds the agents that are sound also then, and the caller
// decides whether to go on.
func (d Defaults) LoadDir(dir string) (map[string]events.Agent, []Warning, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the directory of agents: %w", err)
	}
	defer root.Close()
	l := loadingDir{agents: map[string]events.Agent{}}
	if l.served, err = readServed(root); err != nil {
		return nil, nil, err
	}
	if d.runtimes, err = runtime.Load(root.FS()); err != nil {
		l.errs = append(l.errs, err)
	}
	if err := l.files(root, Role{Defaults: d}); err != nil {
		return nil, nil, fmt.Errorf("list the directory of agents %s: %w", dir, err)
	}
	if err := l.roles(root, d); err != nil {
		return nil, nil, fmt.Errorf("list the directory of agents %s: %w", dir, err)
	}
	if err := l.entries(root); err != nil {
		return nil, nil, fmt.Errorf("list the roles of %s: %w", dir, err)
	}
	return l.agents, l.warnings, errors.Join(l.errs...)
}

// loadingDir collects what a directory has.
type loadingDir struct {
	agents   map[string]events.Agent
	served   Served
	warnings []Warning
	errs     []error
}

// files reads the agents of one folder.
func (l *loadingDir) files(root *os.Root, r Role) error {
	names, err := promptFiles(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		a, warned, err := loadFile(root, name, r)
		for _, w := range warned {
			w.File = r.at(w.File)
			l.warnings = append(l.warnings, w)
		}
		if _, twice := l.agents[a.Name]; err == nil && twice {
			err = &Error{Code: CodeDuplicate, File: name, Message: "there are two agents of this name", Actual: shown(a.Name),
				Hint: "rename one: names are unique in a station"}
		}
		if err != nil {
			l.errs = append(l.errs, r.position(err))
			continue
		}
		a, warned = l.served.Pin(r.at(name), a)
		l.warnings = append(l.warnings, warned...)
		l.agents[a.Name] = a
	}
	return nil
}

func loadFile(root *os.Root, name string, r Role) (events.Agent, []Warning, error) {
	data, err := readFile(root, name)
	if err != nil {
		return events.Agent{}, nil, err
	}
	a, warnings, err := r.Defaults.Parse(name, data)
	if err == nil {
		a, err = r.share(name, a)
	}
	if err != nil {
		return events.Agent{}, warnings, err
	}
	a, warned, err := load(root, name, a)
	warnings = append(warnings, warned...)
	if err != nil {
		return events.Agent{}, warnings, err
	}
	a, warned, err = pinFrom(root, name, a)
	return a, append(warnings, warned...), err
}

// pinFrom puts the pins beside an agent file into the agent.
func pinFrom(root *os.Root, name string, a events.Agent) (events.Agent, []Warning, error) {
	if len(a.MCP) == 0 {
		a, _ = Pin(a, Pins{})
		return a, nil, nil
	}
	var pins Pins
	at := strings.TrimSuffix(name, Ext) + PinsExt
	if _, err := root.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		data, err := readUpTo(root, at, maxPinsFile)
		if err == nil {
			pins, err = parsePins(at, data)
		}
		if err != nil {
			return a, nil, err
		}
	}
	pinned, offers := Pin(a, pins)
	return pinned, unpinned(name, a, a.Tools, pins, offers), nil
}

func promptFiles(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Ext) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) > MaxAgents {
		return nil, &Error{Code: CodeLimit, Message: "there are too many agents in one directory",
			Expected: fmt.Sprintf("at most %d", MaxAgents), Actual: fmt.Sprint(len(names))}
	}
	sort.Strings(names)
	return names, nil
}

// readFile reads a regular file. Its kind is looked at before it is opened, so that a pipe is never waited for.
func readFile(root *os.Root, name string) ([]byte, error) { return readUpTo(root, name, MaxFile) }

// readUpTo reads one byte more than the limit where there are more, so that whoever parses it sees that it is too
// large.
func readUpTo(root *os.Root, name string, limit int64) ([]byte, error) {
	unreadable := func(err error) error {
		return &Error{Code: CodeFile, File: name, Message: "the file cannot be read: " + err.Error(),
			Hint: "replace the link by the file itself"}
	}
	info, err := root.Stat(name)
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Code: CodeFile, File: name, Message: "not a regular file", Actual: info.Mode().Type().String()}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}
