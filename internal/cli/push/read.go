package push

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
)

// agentsFolder is where agents are that no one named.
const agentsFolder = "agents"

// reading collects the agents of folders and files.
type reading struct {
	defaults agentfile.Defaults
	// home is the folder of agents of this project: files below it may belong to a role.
	home     string
	items    []item
	warnings []agentfile.Warning
}

// read reads what the arguments name, or the folder of the project once a person accepted it.
func (c *pushCommand) read(ctx context.Context, args []string) (*reading, error) {
	cfg, err := c.App.Config()
	if err != nil {
		return nil, err
	}
	r := &reading{defaults: cfg.AgentDefaults, home: c.App.Lookup("INSPAN_AGENTS", agentsFolder)}
	if len(args) == 0 {
		own := app.OwnStation{Agents: r.home, Trust: c.trust}
		if _, err := os.Stat(r.home); err != nil {
			return nil, app.Usage("which agents? inspan agent push DIR or FILE: there is no folder %s here", r.home)
		}
		if err := c.App.Accept(ctx, &own); err != nil {
			return nil, err
		}
		if own.Agents == "" {
			return nil, app.Usage("there is no agent file in %s; inspan agent init makes one", r.home)
		}
		return r, r.folder(own.Agents, r.home, "")
	}
	for _, arg := range args {
		if err := r.arg(arg); err != nil {
			return nil, err
		}
	}
	return r, r.twice()
}

// arg reads a folder, or one file of a folder with what is beside it.
func (r *reading) arg(arg string) error {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return app.Usage("%w", err)
	case info.IsDir():
		return r.folder(arg, arg, "")
	case filepath.Ext(arg) != agentfile.Ext:
		return app.Usage("%s is no agent file: its name ends in %s", arg, agentfile.Ext)
	}
	root := r.rootOf(arg)
	file, err := filepath.Rel(root, arg)
	if err != nil {
		return app.Usage("%s: %w", arg, err)
	}
	return r.folder(root, root, file)
}

// rootOf is the folder of agents that a file is in: of an agent of a role it is two above its own.
func (r *reading) rootOf(file string) string {
	dir := filepath.Dir(file)
	above := filepath.Join(dir, "..", "..")
	if _, err := os.Stat(filepath.Join(dir, agentfile.RoleFile)); err == nil {
		return above
	}
	home, err := filepath.Abs(r.home)
	if up, errUp := filepath.Abs(above); err == nil && errUp == nil && home == up {
		return above
	}
	return dir
}

// folder reads the agents of a folder, or only that of a file in it. shown is its name for people.
func (r *reading) folder(dir, shown, only string) error {
	defs, warnings, err := r.defaults.LoadDir(dir)
	faults, other := agentfile.Faults(err)
	if other != nil {
		return other
	}
	wanted := func(file string) bool { return only == "" || file == only }
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		def := defs[name]
		if file := filepath.Join(def.Project, def.Role, name+agentfile.Ext); wanted(file) {
			r.items = append(r.items, item{File: filepath.Join(shown, file), def: def})
		}
	}
	for _, w := range warnings {
		if wanted(w.File) {
			w.File = filepath.Join(shown, w.File)
			r.warnings = append(r.warnings, w)
		}
	}
	for _, f := range faults {
		role := filepath.Base(f.File) == agentfile.RoleFile && filepath.Dir(f.File) == filepath.Dir(only)
		if !wanted(f.File) && !role {
			continue
		}
		f.File = filepath.Join(shown, f.File)
		if n := len(r.items); n > 0 && r.items[n-1].File == f.File {
			r.items[n-1].Errors = append(r.items[n-1].Errors, f)
			continue
		}
		r.items = append(r.items, item{File: f.File, Errors: []*agentfile.Error{f}})
	}
	return nil
}

// twice leaves out what two arguments name, and refuses two files of one agent.
func (r *reading) twice() error {
	files, seen := map[string]string{}, map[string]bool{}
	var once []item
	for _, i := range r.items {
		if seen[i.File] {
			continue
		}
		seen[i.File] = true
		if other := files[i.def.Name]; i.def.Name != "" && other != "" {
			return app.Usage("%s and %s are both the agent %s: name one of them", other, i.File, i.def.Name)
		}
		files[i.def.Name] = i.File
		once = append(once, i)
	}
	r.items = once
	return nil
}

// invalid counts the files that are wrong.
func (r *reading) invalid() (n int) {
	for _, i := range r.items {
		if len(i.Errors) > 0 {
			n++
		}
	}
	return n
}

// nameOf is the agent of an item: its file's name where it is wrong.
func nameOf(i item) string {
	if i.def.Name != "" {
		return i.def.Name
	}
	if name, ok := strings.CutSuffix(filepath.Base(i.File), agentfile.Ext); ok && events.ValidID(name) {
		return name
	}
	return ""
}
