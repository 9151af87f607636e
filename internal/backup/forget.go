package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Errors of deletions.
var (
	// ErrUnknown means that the backup has nothing of a name.
	ErrUnknown = errors.New("not in the backup")
	// ErrBound means that what was named cannot be deleted as it is: it is open, or something that stays has a part of it.
	ErrBound = errors.New("nothing was written")
)

// ForgetConfig says of which backup what content is left out.
type ForgetConfig struct {
	CopyConfig
	// Runs and Sessions by their ids, and People by the names under which they dispatched runs.
	Runs, Sessions, People []string
	// Reason is stored with what stands for them.
	Reason string
	// Missing has names that the backup has nothing of be passed over.
	Missing bool
}

// Forgot says what became of a backup of which content was deleted.
type Forgot struct {
	Of   Manifest `json:"of"`
	Copy Manifest `json:"copy"`
	// Runs, Sessions and Workspaces are those whose content was left out, as Runs also children, forks and retries.
	Runs       []string `json:"runs"`
	Sessions   []string `json:"sessions"`
	Workspaces []string `json:"workspaces"`
	// Already are those that were deleted before, Elsewhere runs whose events are in an older backup: their content has
	// to be deleted there, too. Missing are names that the backup has nothing of.
	Already   []string `json:"already"`
	Elsewhere []string `json:"elsewhere"`
	Missing   []string `json:"missing"`
	// Shared objects are among those of what was deleted and stay, because something else names them. Unnamed ones are
	// named by nothing and were left out.
	Shared  int `json:"shared_objects"`
	Unnamed int `json:"unnamed_objects"`
	// Stays are logs that stay as they are and name what was deleted, or a person of it.
	Stays []Stay `json:"stays"`
}

// Stay is a log that stays and names what was deleted.
type Stay struct {
	// Log is the kind and the id of the aggregate, such as work/fix-login.
	Log string `json:"log"`
	// Names are the events that name a run or a session, People those that name a person.
	Names  int `json:"events_naming_ids,omitempty"`
	People int `json:"events_naming_people,omitempty"`
}

// forgetting is what is deleted in one copy. A nil one deletes nothing.
type forgetting struct {
	ForgetConfig
	out Forgot
	// names are the ids of the runs and sessions that are left out. earlier are runs that were named and were left out
	// before, to make room: what else has their content is still here.
	names, earlier map[string]bool
	// sessions are all of the backup, trees the ids of the logs of workspaces; those that are true are left out.
	sessions map[string]*pastSession
	trees    map[string]bool
	stays    map[string]*Stay
	shared   map[string]bool
	unnamed  map[string]bool
}

// Forget copies a backup without the content of runs, sessions and people. One event stands for each run and session.
// Everything else keeps its bytes, as Prune does; what cannot be left out without a part of it remaining elsewhere is
// refused, and nothing is written then. The same copy has the same bytes.
func Forget(ctx context.Context, cfg ForgetConfig) (Forgot, error) {
	c := newCopy(cfg.CopyConfig)
	f := &forgetting{ForgetConfig: cfg, names: map[string]bool{}, earlier: map[string]bool{},
		sessions: map[string]*pastSession{}, trees: map[string]bool{}, stays: map[string]*Stay{}, shared: map[string]bool{},
		unnamed: map[string]bool{}}
	c.forget = f
	if err := c.make(ctx, func() error { return f.choose(ctx, c) }); err != nil {
		return Forgot{}, err
	}
	o := &f.out
	o.Of, o.Copy, o.Shared, o.Unnamed = c.of, c.m, len(f.shared), len(f.unnamed)
	for _, at := range slices.Sorted(maps.Keys(f.stays)) {
		o.Stays = append(o.Stays, *f.stays[at])
	}
	for _, all := range []*[]string{&o.Runs, &o.Sessions, &o.Workspaces, &o.Already, &o.Elsewhere, &o.Missing} {
		if *all == nil {
			*all = []string{}
		}
		slices.Sort(*all)
		*all = slices.Compact(*all)
	}
	return f.out, nil
}

// begin notes in the manifest what is deleted, and takes away what an interrupted copy left: it may be of another
// request, and have what this one deletes.
func (f *forgetting) begin(c *copying) error {
	if f == nil {
		return nil
	}
	c.m.Format, c.m.Forgotten = Format, &Forgotten{}
	for _, r := range c.runs {
		if r.left || r.forgotten {
			c.m.Forgotten.Runs++
		}
	}
	for _, s := range f.sessions {
		if s.left || s.forgotten() {
			c.m.Forgotten.Sessions++
		}
	}
	objects := filepath.Join(c.Dir, objectsFolder)
	err := os.RemoveAll(objects)
	if err == nil {
		err = os.Mkdir(objects, 0o700)
	}
	if err != nil {
		return fmt.Errorf("remove what an interrupted copy left: %w", err)
	}
	return nil
}

// choose marks what is left out.
func (f *forgetting) choose(ctx context.Context, c *copying) error {
	want, err := f.wanted(c)
	if err != nil {
		return err
	}
	f.close(c, want)
	if err := f.bound(c, want); err != nil {
		return err
	}
	for id := range f.earlier {
		f.names[id], f.out.Elsewhere = true, append(f.out.Elsewhere, id)
	}
	for id := range want {
		c.runs[id].left, f.names[id] = true, true
		c.left++
		f.out.Runs = append(f.out.Runs, id)
	}
	for id, s := range f.sessions {
		if s.left {
			f.names[id], f.out.Sessions = true, append(f.out.Sessions, id)
		}
	}
	return f.pending(ctx, c)
}

// wanted are the runs that were named, those of the sessions, and those of the people.
func (f *forgetting) wanted(c *copying) (map[string]bool, error) {
	want, seen := map[string]bool{}, map[string]bool{}
	take := func(name string, r *pastRun) {
		switch seen[name] = true; {
		case r.forgotten:
			f.out.Already = append(f.out.Already, "run "+r.id)
		case r.pruned:
			f.earlier[r.id] = true
		default:
			want[r.id] = true
		}
	}
	for id, r := range c.runs {
		if slices.Contains(f.Runs, id) {
			take("run "+id, r)
		}
		if r.created == nil {
			continue
		}
		if s := r.created.Session; s != "" && slices.Contains(f.Sessions, s) {
			take("session "+s, r)
		}
		if by := r.created.By; by != "" && slices.Contains(f.People, by) {
			take("person "+by, r)
		}
	}
	for _, id := range f.Sessions {
		switch s := f.sessions[id]; {
		case s == nil:
		case s.forgotten():
			seen["session "+id], f.out.Already = true, append(f.out.Already, "session "+id)
		default:
			seen["session "+id], s.left = true, true
		}
	}
	for what, names := range map[string][]string{"run": f.Runs, "session": f.Sessions, "person": f.People} {
		for _, name := range names {
			if !seen[what+" "+name] {
				f.out.Missing = append(f.out.Missing, what+" "+name)
			}
		}
	}
	if slices.Sort(f.out.Missing); len(f.out.Missing) > 0 && !f.Missing {
		return nil, fmt.Errorf("%s: %w", strings.Join(f.out.Missing, ", "), ErrUnknown)
	}
	return want, nil
}

// close adds what has content of the runs: their trees, and what was forked from them, until nothing is added.
func (f *forgetting) close(c *copying, want map[string]bool) {
	for n := -1; n != len(want); {
		n = len(want)
		roots := map[string]bool{}
		for id := range want {
			roots[c.runs[id].root()] = true
		}
		for id, r := range c.runs {
			if (roots[r.root()] || want[r.fork] || f.earlier[r.fork]) && !r.pruned {
				want[id] = true
			}
		}
	}
}
