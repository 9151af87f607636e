// Package reload registers the agents and schedules of a folder again when their files change, while a station of this
// process runs.
//
// Promises: a folder that a person named is read as it is; of one that a directory contributes nothing is used that the
// person did not accept as it is now, and what is registered is the copy of what was accepted. A file that is wrong
// changes nothing of its agent, and is reported once. What is reported as registered was read back from the station.
package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Every is how often the files are looked at: their names, sizes and times. What changed is read once two looks in a
// row found the same, so that a file that is being written is left alone.
const Every = time.Second

// maxFiles is how many files and folders are looked at, maxLine the characters of a line.
const (
	maxFiles = 4096
	maxLine  = 600
)

// Station is one of this process that registers its agents again when their files change.
type Station struct {
	*station.Station
	unwatch func()
}

// Start starts a station in this process once what the directory contributes was accepted. own says afterwards what it
// reads; say shows a line to the person.
func Start(ctx context.Context, a *app.App, own *app.OwnStation, how app.Starting,
	say func(line string)) (*Station, error) {
	if err := own.Check(); err != nil {
		return nil, err
	}
	if err := a.Accept(ctx, own); err != nil {
		return nil, err
	}
	st, err := app.Start(ctx, a, *own, how)
	if err != nil {
		return nil, err
	}
	s := &Station{Station: st, unwatch: func() {}}
	cfg, err := a.Config()
	if err != nil || st.Damage().Damaged() { // it takes no work
		return s, nil //nolint:nilerr // the station has read it
	}
	var agents *watcher
	var all []looker
	if own.Agents != "" {
		agents = newWatcher(watched{station: station.Registry{Station: st}, defaults: cfg.AgentDefaults,
			path: fromHere(cmp.Or(own.Source, own.Agents)), used: own.Agents, copied: own.Source != "", say: say})
		all = append(all, agents)
	}
	if own.Schedules != "" {
		c, err := s.client(a)
		if err != nil {
			return nil, errors.Join(err, st.Close(context.WithoutCancel(ctx)))
		}
		of := newScheduler(schedulesOf{there: client.NewSchedules(c), by: a.Me(), wait: a.Wait, path: own.Schedules,
			accepted: own.SchedulesDigest, agents: agents, say: say})
		of.begin(ctx)
		all = append(all, of)
	}
	if len(all) > 0 {
		s.unwatch = watch(ctx, all...)
	}
	return s, nil
}

// client is one of the station.
func (s *Station) client(a *app.App) (*client.Client, error) {
	if a.Local {
		return operator.Local(s.Local(), "", nil), nil
	}
	return operator.On(s.Conn(), s.Name())
}

// looker acts on what changed since its last look.
type looker interface{ look(ctx context.Context) }

// Close ends the watch and closes the station.
func (s *Station) Close(ctx context.Context) error {
	s.unwatch()
	return s.Station.Close(ctx)
}

// registrar registers agents and removes them by name, as a station does, and returns what it did.
type registrar interface {
	RegisterAgents(ctx context.Context, defs map[string]events.Agent, removed []string) ([]service.Registration, error)
}

// watch has each look at the files, in order, until stop is called, which waits for the end.
func watch(ctx context.Context, all ...looker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				for _, one := range all {
					one.look(ctx)
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// fromHere is a path as a person in the working directory knows it.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// watched is what a watcher works with.
type watched struct {
	station  registrar
	defaults agentfile.Defaults
	// path is the folder that a person changes; used is what the station read: the same or, where it is copied, what was
	// accepted of a folder that no one named.
	path, used string
	copied     bool
	say        func(line string)
}

// watcher knows what is registered of a folder and what was reported.
type watcher struct {
	watched
	seed maphash.Seed
	// last is what the last look found, settled what was acted upon.
	last, settled uint64
	// digest is that of the accepted copy that is registered.
	digest string
	// files are those of the registered agents, by name, below the folder.
	files map[string]string
	// sound are the agents whose files are right as they are.
	sound map[string]bool
	// reported are the problems that were reported and last.
	reported map[string]bool
}

func newWatcher(of watched) *watcher {
	say := of.say
	of.say = func(line string) { say(view.Clip(line, maxLine)) } // it may quote names and texts of strangers
	w := &watcher{watched: of, seed: maphash.MakeSeed(), files: map[string]string{}, reported: map[string]bool{}}
	if defs, _, err := of.defaults.LoadDir(of.used); err == nil {
		w.remember(defs)
	}
	if w.copied {
		w.digest = digestOf(of.used)
	}
	return w
}

// remember notes the file of each agent that is right.
func (w *watcher) remember(defs map[string]events.Agent) {
	w.sound = map[string]bool{}
	for name, def := range defs {
		w.sound[name] = true
		w.files[name] = filepath.Join(def.Project, def.Role, name+agentfile.Ext)
	}
}

// look acts on what changed, once it stands still.
func (w *watcher) look(ctx context.Context) {
	now, err := w.state()
	if err != nil {
		w.report(map[string]string{err.Error(): fmt.Sprintf("Agents: %v; those that are registered stay", err)})
		return
	}
	switch {
	case now == w.settled:
	case now != w.last:
		w.last = now
	case w.take(ctx):
		w.settled = now
	}
}

// state is a number for the names, sizes, times and modes of all files.
func (w *watcher) state() (uint64, error) {
	var h maphash.Hash
	h.SetSeed(w.seed)
	err := addFolder(&h, w.path)
	if w.copied {
		addRecord(&h)
	}
	return h.Sum64(), err
}

// addFolder adds the names, sizes, times and modes of all files of a folder.
func addFolder(h *maphash.Hash, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	n := 0
	return filepath.WalkDir(real, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > maxFiles {
			return fmt.Errorf("%s has more than %d files: changes are not noticed, start again to register them", path, maxFiles)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d %d %d\n", at, info.Size(), info.ModTime().UnixNano(), info.Mode())
		return nil
	})
}

// addRecord adds the size and time of the record of what was accepted.
func addRecord(h *maphash.Hash) {
	if info, err := os.Stat(recordPath()); err == nil {
		fmt.Fprintf(h, "%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
}

// take registers what changed. It returns false where that is to be tried again.
func (w *watcher) take(ctx context.Context) (settled bool) {
	dir, digest, err := w.usable()
	if err != nil {
		w.report(map[string]string{err.Error() + digest: fmt.Sprintf("Agents: %v", err)})
		return true
	}
	if digest != "" && digest == w.digest {
		w.report(nil)
		return true
	}
	defs, warnings, err := w.defaults.LoadDir(dir)
	faults, other := agentfile.Faults(err)
	if other != nil {
		w.report(map[string]string{other.Error(): fmt.Sprintf("Agents: %v; those that are registered stay", other)})
		return true
	}
	done, err := w.station.RegisterAgents(ctx, defs, w.removed(dir, defs))
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.report(map[string]string{err.Error(): fmt.Sprintf("Agents changed and are not registered: %v", err)})
		return false
	}
	for _, r := range done {
		w.say(w.registered(r, defs))
		if r.State == service.AgentRemoved {
			delete(w.files, r.Agent)
		}
	}
	w.remember(defs)
	w.digest, w.used = digest, dir
	w.warn(done, warnings)
	problems := map[string]string{}
	for _, f := range faults {
		problems[f.Error()+digestOfFile(dir, f.File)] = w.fault(*f)
	}
	w.report(problems)
	return true
}

// removed are the registered agents whose files are gone.
func (w *watcher) removed(dir string, defs map[string]events.Agent) (names []string) {
	for name, file := range w.files {
		if _, err := os.Lstat(filepath.Join(dir, file)); defs[name].Name == "" && os.IsNotExist(err) {
			names = append(names, name)
		}
	}
	return names
}

// report shows what was not reported yet, and forgets what is no problem any more.
func (w *watcher) report(problems map[string]string) {
	now := map[string]bool{}
	for key, text := range problems {
		if now[key] = true; !w.reported[key] {
			w.say(text)
		}
	}
	w.reported = now
}

// registered is what happened to an agent, in words.
func (w *watcher) registered(r service.Registration, defs map[string]events.Agent) string {
	switch r.State {
	case service.AgentNew:
		def := defs[r.Agent]
		return fmt.Sprintf("Agents: %s is new: %s is registered", filepath.Join(w.path, def.Project, def.Role,
			r.Agent+agentfile.Ext), r.Agent)
	case service.AgentRemoved:
		return fmt.Sprintf("Agents: %s is gone: %s is no longer registered; runs that have begun keep it",
			filepath.Join(w.path, w.files[r.Agent]), r.Agent)
	}
	return fmt.Sprintf("Agents: %s changed (%s) and is registered; runs that have begun keep what they began with",
		r.Agent, cmp.Or(strings.Join(r.Fields, ", "), "as it is stored"))
}

// fault is what is wrong with a file, in words.
func (w *watcher) fault(f agentfile.Error) string {
	name, what := strings.TrimSuffix(filepath.Base(f.File), agentfile.Ext), "it is not registered"
	if w.files[name] == f.File {
		what = name + " stays as it was"
	} else if filepath.Ext(f.File) != agentfile.Ext {
		what = "its agents stay as they were"
	}
	f.File = filepath.Join(w.path, f.File)
	return fmt.Sprintf("Agents: %v; %s", &f, what)
}

// warn shows the warnings about what was registered.
func (w *watcher) warn(done []service.Registration, warnings []agentfile.Warning) {
	for _, one := range warnings {
		for _, r := range done {
			if one.File == w.files[r.Agent] {
				one.File = filepath.Join(w.path, one.File)
				w.say("Agents: " + one.String())
				break
			}
		}
	}
}
