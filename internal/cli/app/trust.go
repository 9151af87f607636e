package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/trust"
)

// Contribution is what a directory contributes to a station of this process, because it is there and not because
// somebody named it.
type Contribution struct {
	trust.Part
	// Pinned is the copy that is used; empty for what is not copied.
	Pinned string
	// Runs says what it would run and reach.
	Runs []string
	// Was is what was accepted at its path before; New is false where that is this.
	Was trust.Accepted
	New bool
}

// ErrNotTrusted means that a person did not accept what a directory contributes.
var ErrNotTrusted = errors.New("not accepted")

// Acceptance decides about contributions in the person's name, for one command.
type Acceptance struct{ App *App }

// Acceptance returns that of this command.
func (a *App) Acceptance() Acceptance { return Acceptance{a} }

// Accept finds what the directory contributes to a station of this process and has a person accept it, unless it was
// accepted before. The station is given copies of exactly that.
func (a *App) Accept(ctx context.Context, l *OwnStation) error { return a.Acceptance().accept(ctx, l) }

func (a Acceptance) accept(ctx context.Context, l *OwnStation) error {
	if l.accepted {
		return nil
	}
	all, record, err := a.Contributions(l)
	if err != nil {
		return err
	}
	if !l.Trust && !a.App.CanAsk() { // who registers them says so, and takes them once they were accepted
		all = slices.DeleteFunc(all, func(c Contribution) bool { return c.New && c.Kind == trust.Schedules })
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(c Contribution) bool { return !c.New })
	if len(fresh) > 0 && !l.Trust && !a.App.CanAsk() && onlyScripts(fresh) && (l.Agents == "" || a.named("agents",
		"INSPAN_AGENTS")) {
		fmt.Fprintf(a.App.Err, "Left out: %s, which was not accepted (inspan trust).\n", names(fresh))
		all = slices.DeleteFunc(all, func(c Contribution) bool { return c.Kind == trust.Scripts })
		l.Scripts = ""
	} else if err := a.settle(ctx, record, fresh, l.Trust); err != nil {
		return err
	}
	l.use(all)
	return a.MarkStore(l.Store)
}

// settle has a person accept what is new, unless that is accepted for once.
func (a Acceptance) settle(ctx context.Context, record *trust.Record, fresh []Contribution, once bool) error {
	switch {
	case len(fresh) == 0:
		return nil
	case once:
		fmt.Fprintf(a.App.Err, "Accepted for this once, as --trust says: %s.\n", names(fresh))
		return nil
	case !a.App.CanAsk():
		return refusal(fresh)
	}
	yes, err := a.Ask(ctx, fresh)
	if err != nil {
		return err
	}
	if !yes {
		return refusal(fresh)
	}
	return Record(record, fresh)
}

// Formulas has a person accept a folder of formulas that no one named, unless it was accepted before, and returns the
// copy of it that is used.
func (a Acceptance) Formulas(ctx context.Context, dir string, once bool) (string, error) {
	return a.folder(ctx, dir, once, trust.ReadFormulas)
}

// Schedules is Formulas for a folder of schedules.
func (a Acceptance) Schedules(ctx context.Context, dir string, once bool) (string, error) {
	return a.folder(ctx, dir, once, trust.ReadSchedules)
}

// Agents is Formulas for a folder of agents.
func (a Acceptance) Agents(ctx context.Context, dir string, once bool) (string, error) {
	return a.folder(ctx, dir, once, trust.ReadAgents)
}

func (a Acceptance) folder(ctx context.Context, dir string, once bool,
	read func(string) (trust.Part, error)) (string, error) {
	p, err := read(dir)
	if err != nil {
		return "", fmt.Errorf("%s of this directory: %w", filepath.Base(dir), err)
	}
	record, err := trust.Open()
	if err != nil {
		return "", err
	}
	before, err := record.All()
	if err != nil {
		return "", err
	}
	c, err := a.contribution(record, before, p)
	if err != nil {
		return "", err
	}
	if c.New {
		err = a.settle(ctx, record, []Contribution{c}, once)
	}
	return c.Pinned, err
}

// use has the station read the copies.
func (l *OwnStation) use(all []Contribution) {
	l.accepted = true
	for _, c := range all {
		switch c.Kind {
		case trust.Agents:
			l.Source, l.Agents = l.Agents, c.Pinned
		case trust.Scripts:
			l.Scripts = c.Pinned
		case trust.Schedules:
			l.SchedulesDigest = c.Digest()
		}
	}
}

func onlyScripts(fresh []Contribution) bool {
	return !slices.ContainsFunc(fresh, func(c Contribution) bool { return c.Kind != trust.Scripts })
}

// named reports whether a person named a setting: with a flag, in the environment or in the person's own file. That is
// the person's own act; what a directory says is not.
func (a Acceptance) named(flag, variable string) bool {
	if a.App.Given(flag) {
		return true
	}
	for _, e := range a.App.Layers.Explain() {
		if e.Variable == variable {
			from := e.Origins[0].Layer
			return from == service.FromEnvironment || from == service.FromSystem
		}
	}
	return false
}

// Contributions finds them. What contributes nothing is taken out of the settings of the station.
func (a Acceptance) Contributions(l *OwnStation) (all []Contribution, record *trust.Record, err error) {
	parts, err := a.parts(l)
	if err != nil || len(parts) == 0 && !a.storeHere(l) {
		return nil, nil, err
	}
	if record, err = trust.Open(); err != nil {
		return nil, nil, err
	}
	before, err := record.All()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range parts {
		c, err := a.contribution(record, before, p)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, record, nil
}

// contribution copies a part where it is used from a copy, and says what it would run where it is new.
func (a Acceptance) contribution(record *trust.Record, before map[string]trust.Accepted, p trust.Part) (c Contribution,
	err error) {
	c = Contribution{Part: p, Was: before[p.Path]}
	c.New = c.Was.Digest != p.Digest() || c.Was.Kind != p.Kind
	if p.Kind == trust.Agents || p.Kind == trust.Scripts || p.Kind == trust.Formulas || p.Kind == trust.Schedules {
		if c.Pinned, err = p.Pin(record.Pinned()); err != nil {
			return c, fmt.Errorf("copy of %s: %w", p.Path, err)
		}
	}
	if c.New {
		c.Runs, err = a.runs(c)
	}
	return c, err
}

// parts reads what no one named.
func (a Acceptance) parts(l *OwnStation) (out []trust.Part, err error) {
	if at, text := a.App.Layers.Project(); at != "" {
		p, err := trust.File(trust.Settings, at, text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	for _, f := range []struct {
		dir            *string
		flag, variable string
		read           func(string) (trust.Part, error)
	}{{&l.Agents, "agents", "INSPAN_AGENTS", trust.ReadAgents},
		{&l.Scripts, "scripts", "INSPAN_SCRIPTS", trust.ReadScripts}} {
		if *f.dir == "" || a.named(f.flag, f.variable) {
			continue
		}
		p, err := f.read(*f.dir)
		if err != nil {
			return nil, fmt.Errorf("%s of this directory: %w", f.flag, err)
		}
		if p.Empty() {
			*f.dir = ""
			continue
		}
		out = append(out, p)
	}
	for _, f := range []struct {
		dir, what string
		read      func(string) (trust.Part, error)
	}{{l.Commands, "commands", trust.ReadCommands}, {l.Formulas, "formulas", trust.ReadFormulas},
		{l.Schedules, "schedules", trust.ReadSchedules}} {
		if f.dir == "" {
			continue
		}
		p, err := f.read(f.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s of this directory: %w", f.what, err)
		}
		if err == nil && !p.Empty() {
			out = append(out, p)
		}
	}
	if a.storeHere(l) {
		p, there, err := trust.ReadStore(l.Store)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, p)
		}
	}
	return out, nil
}

// storeHere reports whether the store is the one of this directory that no one named.
func (a Acceptance) storeHere(l *OwnStation) bool {
	return l.Store != "" && l.Store == a.App.Folder && !a.named("store", "INSPAN_STORE")
}

// MarkStore marks the store of this directory where there is none yet, so that the next command knows it. A store that
// is named is marked too: the next command may find it without a name.
func (a Acceptance) MarkStore(store string) error {
	if store == "" || filepath.Clean(store) != filepath.Clean(a.App.Folder) {
		return nil
	}
	record, err := trust.Open()
	if err != nil && a.named("store", "INSPAN_STORE") {
		return nil //nolint:nilerr // without a home it is asked about where it is not named
	}
	if err != nil {
		return err
	}
	if _, there, err := trust.ReadStore(store); err != nil || there {
		return err
	}
	p, err := trust.MarkStore(store)
	if err != nil {
		return fmt.Errorf("store %s: %w", store, err)
	}
	return Record(record, []Contribution{{Part: p, Runs: []string{storeRuns}}})
}

const storeRuns = "agents that are registered and runs that are not finished go on"

// runs says what a contribution would run and reach.
func (a Acceptance) runs(c Contribution) ([]string, error) {
	switch c.Kind {
	case trust.Settings:
		var out []string
		for _, e := range a.App.Layers.Explain() {
			for _, o := range e.Origins {
				if o.Layer == service.FromProject {
					out = append(out, "setting "+e.Key+": "+o.Value)
				}
			}
		}
		return out, nil
	case trust.Agents:
		cfg, err := a.App.Config()
		if err != nil {
			return nil, err
		}
		agents, _, err := cfg.AgentDefaults.LoadDir(c.Pinned)
		if err != nil {
			return nil, fmt.Errorf("agents in %s: %w", c.Path, err)
		}
		return slices.Concat(trust.DescribeAgents(agents), trust.DescribeRuntimes(c.Part),
			trust.DescribeAgentSchedules(c.Part)), nil
	case trust.Commands:
		var out []string
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			out = append(out, "command /"+strings.TrimSuffix(name,
				".md")+": text that is sent to the agent where a person types it")
		}
		return out, nil
	case trust.Formulas:
		return trust.DescribeFormulas(os.DirFS(c.Pinned))
	case trust.Schedules:
		return trust.DescribeSchedules(c.Part), nil
	case trust.Scripts:
		var out []string
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			out = append(out, "scripted model "+strings.TrimSuffix(name,
				".yaml")+": says which tools are called, and with what")
		}
		return out, nil
	}
	return []string{storeRuns}, nil
}

// Record records that a person accepted contributions.
func Record(record *trust.Record, fresh []Contribution) error {
	var parts []trust.Part
	runs := map[string][]string{}
	for _, c := range fresh {
		if c.Kind == trust.Store {
			marked, err := trust.MarkStore(c.Path)
			if err != nil {
				return fmt.Errorf("store %s: %w", c.Path, err)
			}
			c.Part = marked
		}
		parts = append(parts, c.Part)
		runs[c.Path] = c.Runs
	}
	return record.Accept(time.Now(), parts, func(p trust.Part) []string { return runs[p.Path] })
}

// Accepted reports whether what is at a path was accepted as it is, or is not there yet.
func (a Acceptance) Accepted(kind, at string) bool {
	p, err := trust.Read(kind, at)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	record, err := trust.Open()
	if err != nil {
		return false
	}
	all, err := record.All()
	return err == nil && all[p.Path].Digest == p.Digest()
}

// Commands are the files of a folder of commands as they were accepted; none where there are none. accepted is false
// where they are not what a person accepted.
func (a Acceptance) Commands(dir string) (files map[string][]byte, accepted bool, err error) {
	p, err := trust.ReadCommands(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && p.Empty() {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("commands in %s: %w", dir, err)
	}
	record, err := trust.Open()
	if err != nil {
		return nil, false, err
	}
	all, err := record.All()
	if err != nil {
		return nil, false, err
	}
	was := all[p.Path]
	if was.Kind != p.Kind || was.Digest != p.Digest() {
		return nil, false, nil
	}
	return p.Files, true, nil
}

// AcceptOwn accepts a folder of agents, or the settings of a project, in which this program just wrote a file for the
// person, where all else in it was accepted before or there is nothing else.
func (a Acceptance) AcceptOwn(kind, at, file string) error {
	record, err := trust.Open()
	if err != nil {
		return nil //nolint:nilerr // without a home there is no record: it is asked about when it is used
	}
	p, err := trust.Read(kind, at)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	before, err := record.All()
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	for _, d := range p.Differences(before[p.Path].Files) {
		if d[2:] != name {
			return nil
		}
	}
	c := Contribution{Part: p}
	if kind == trust.Agents {
		if c.Pinned, err = p.Pin(record.Pinned()); err != nil {
			return err
		}
	}
	if c.Runs, err = a.runs(c); err != nil {
		return nil //nolint:nilerr // an agent that is wrong is reported when it is used
	}
	return Record(record, []Contribution{c})
}
