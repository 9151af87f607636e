package reload

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/schedules"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// schedulesOf is what a scheduler works with.
type schedulesOf struct {
	there client.Schedules
	by    string
	wait  time.Duration
	// path is the folder of schedules, of which the content with the digest accepted is used, and what a person accepts
	// meanwhile.
	path, accepted string
	// agents is the watcher of the agents, whose files may ask for schedules; nil where there are none.
	agents *watcher
	say    func(line string)
}

// scheduler registers the schedules of a folder and of agents' files. Of the station's schedules it changes those that
// were read from a file, and removes those that it knows the file of.
type scheduler struct {
	schedulesOf
	seed          maphash.Seed
	last, settled uint64
	// files are those of the registered schedules, by name, with what was read from them.
	files map[string]scheduleFile
	// reported are the problems that were reported.
	reported map[string]bool
}

// scheduleFile is a file and the schedule that it describes.
type scheduleFile struct {
	path string
	spec events.ScheduleSpec
}

func newScheduler(of schedulesOf) *scheduler {
	say := of.say
	of.say = func(line string) { say("Schedules: " + view.Clip(line, maxLine)) } // it may quote texts of strangers
	return &scheduler{schedulesOf: of, seed: maphash.MakeSeed(), files: map[string]scheduleFile{},
		reported: map[string]bool{}}
}

// begin registers what is there and says which schedules of the station were read from files that are not.
func (s *scheduler) begin(ctx context.Context) {
	now, err := s.state()
	if err == nil && s.take(ctx) {
		s.last, s.settled = now, now
	}
	all, err := s.there.List(ctx)
	if err != nil {
		s.say(fmt.Sprintf("those of the station cannot be listed: %v", err))
		return
	}
	for _, one := range all {
		if _, here := s.files[one.ID]; one.Spec.Digest != "" && !here && len(s.reported) == 0 {
			s.say(fmt.Sprintf("%s was registered from a file that is not here and goes on; inspan schedule remove %s ends it",
				one.ID, one.ID))
		}
	}
}

// look acts on what changed, once it stands still.
func (s *scheduler) look(ctx context.Context) {
	now, err := s.state()
	switch {
	case err != nil:
		s.report(map[string]bool{fmt.Sprintf("%v; those that are registered stay", err): true})
	case now == s.settled:
	case now != s.last:
		s.last = now
	case s.take(ctx):
		s.settled = now
	}
}

func (s *scheduler) state() (uint64, error) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	addRecord(&h)
	if err := addFolder(&h, s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if s.agents != nil {
		if err := addFolder(&h, s.agents.path); err != nil {
			return 0, err
		}
	}
	return h.Sum64(), nil
}

// described is what all files say.
type described struct {
	all map[string]scheduleFile
	// sound are the files that were read, so that what they no longer describe is gone.
	sound    map[string]bool
	problems map[string]bool
	// kept is set where nothing of the folder of schedules is used that changed.
	kept bool
}

// take registers what changed. It returns false where that is to be tried again.
func (s *scheduler) take(ctx context.Context) (settled bool) {
	d := described{all: map[string]scheduleFile{}, sound: map[string]bool{}, problems: map[string]bool{}}
	s.folder(&d)
	s.ofAgents(&d)
	settled = true
	for _, name := range slices.Sorted(maps.Keys(d.all)) {
		f := d.all[name]
		line, err := s.register(ctx, name, f)
		if err != nil {
			_, refused := errors.AsType[*client.RefusedError](err)
			settled = settled && refused
			d.problems[fmt.Sprintf("%s: %v; %s is not registered as the file says", f.path, err, name)] = true
			continue
		}
		if s.files[name] = f; line != "" {
			s.say(line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[name]
		_, there := d.all[name]
		_, err := os.Lstat(f.path)
		if there || d.kept && filepath.Dir(f.path) == filepath.Clean(s.path) || err == nil && !d.sound[f.path] ||
			err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		line, err := s.remove(ctx, name, f)
		if err != nil {
			settled = false
			d.problems[fmt.Sprintf("%s has no schedule %s any more, and it cannot be removed: %v", f.path, name, err)] = true
			continue
		}
		delete(s.files, name)
		s.say(line)
	}
	if ctx.Err() != nil {
		return false
	}
	s.report(d.problems)
	return settled
}

// folder reads the folder of schedules as it was accepted.
func (s *scheduler) folder(d *described) {
	p, err := trust.ReadSchedules(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && p.Empty() {
		return
	}
	ok := err == nil && p.Digest() == s.accepted
	if err == nil && !ok {
		_, ok, err = isAccepted(p)
	}
	switch {
	case err != nil:
		d.kept, d.problems[fmt.Sprintf("%v; those that are registered stay", err)] = true, true
		return
	case !ok:
		d.kept, d.problems[fmt.Sprintf("the folder %s is not accepted as it is now; look at it and accept it with inspan trust: until then"+
			" what changed is not used", s.path)] = true, true
		return
	}
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		at := filepath.Join(s.path, file)
		one, err := schedules.Parse(at, p.Files[file])
		d.add(at, one, err)
	}
}

// ofAgents reads the schedules of the agents that are registered.
func (s *scheduler) ofAgents(d *described) {
	if s.agents == nil {
		return
	}
	root, err := os.OpenRoot(s.agents.used)
	if err != nil {
		d.problems[fmt.Sprintf("agents: %v; those that are registered stay", err)] = true
		return
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(s.agents.files)) {
		file := s.agents.files[name]
		at := filepath.Join(s.agents.path, file)
		b, err := root.ReadFile(file)
		if err != nil || !s.agents.sound[name] {
			continue // the agent stays as it was, which its watcher says, and so does its schedule
		}
		one, err := schedules.OfAgent(at, b)
		d.add(at, one, err)
	}
}

// add notes what a file describes; one without a name describes nothing.
func (d *described) add(at string, one agentfile.Scheduled, err error) {
	if first, twice := d.all[one.Name]; err == nil && twice {
		err = fmt.Errorf("%s:%d: schedule %s is in %s, too: give one of them another name", at, max(one.Line, 1), one.Name,
			first.path)
	}
	if err != nil {
		d.problems[fmt.Sprintf("%v; what was registered of it stays as it was", err)] = true
		return
	}
	if d.sound[at] = true; one.Name != "" {
		d.all[one.Name] = scheduleFile{path: at, spec: one.Spec}
	}
}

// register makes or changes one schedule and says so; nothing where the station has it as it is.
func (s *scheduler) register(ctx context.Context, name string, f scheduleFile) (line string, err error) {
	was, err := s.there.Get(ctx, name)
	isNew := errors.Is(err, client.ErrNotFound)
	switch {
	case err != nil && !isNew:
		return "", err
	case err == nil && reflect.DeepEqual(was.Spec, f.spec):
		return "", nil
	case err == nil && was.Spec.Digest == "":
		return "", &client.RefusedError{Code: "schedule_exists",
			Reason: "the station has a schedule of this name that no file describes",
			Hint:   "inspan schedule push " + f.path + " replaces it"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	now, err := s.there.Control(ctx, name,
		events.ScheduleControl{Action: schedule.Set, Spec: &f.spec, New: isNew, By: s.by})
	if err != nil {
		return "", err
	}
	what := "changed"
	if isNew {
		what = "is new"
	}
	next := ""
	if times := schedule.Next(now, 1); len(times) > 0 && now.Status == events.ScheduleIsActive {
		next = ", next at " + times[0].UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s %s: %s is registered: agent %s, %s%s", f.path, what, name, f.spec.Task.Agent, f.spec.When(),
		next), nil
}

// remove ends the schedule of a file that is gone, where it still is what the file said.
func (s *scheduler) remove(ctx context.Context, name string, f scheduleFile) (line string, err error) {
	was, err := s.there.Get(ctx, name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return fmt.Sprintf("%s has no schedule %s any more: it was removed before", f.path, name), nil
	case err != nil:
		return "", err
	case was.Spec.Digest != f.spec.Digest:
		return fmt.Sprintf("%s has no schedule %s any more: it was changed by others and goes on", f.path, name), nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if _, err := s.there.Control(ctx, name, events.ScheduleControl{Action: schedule.Remove, By: s.by}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has no schedule %s any more: it is removed; runs that it began go on", f.path, name), nil
}

// report shows what was not reported yet, and forgets what is no problem any more.
func (s *scheduler) report(problems map[string]bool) {
	for _, text := range slices.Sorted(maps.Keys(problems)) {
		if !s.reported[text] {
			s.say(text)
		}
	}
	s.reported = problems
}
