package workcopy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of the stores that are kept of runs that had a station of their own. What was taken, or made nothing, goes
// after KeepFor, or earlier where there are more than KeepMost.
const (
	KeepFor  = 30 * 24 * time.Hour
	KeepMost = 50
)

// What became of the work of a run.
const (
	// Taken means that a person merged it, Nothing that the run changed no file.
	Taken   = "taken"
	Nothing = "nothing"
)

// workFile is in a kept store and says what became of the work.
const workFile = "work.json"

// Kept is a store that is kept of a run.
type Kept struct {
	Run  string    `json:"run"`
	Path string    `json:"path"`
	At   time.Time `json:"at"`
	// Root is the working tree that the run had a copy of; empty where that is not known.
	Root string `json:"root,omitempty"`
	// Work is what became of the work; empty for work that was not taken yet, as far as is known.
	Work string `json:"work,omitempty"`
	Busy bool   `json:"busy,omitempty"`
}

// runsDir is the folder of the stores.
func runsDir() (string, error) {
	home, err := trust.Home()
	return filepath.Join(home, "runs"), err
}

// StoreOf is where the store of a run is kept that has a station of its own and works on a copy: what it makes must be
// found again.
func StoreOf(run string) (string, error) {
	if err := events.CheckID("run", run); err != nil {
		return "", err
	}
	dir, err := runsDir()
	if err != nil {
		return "", fmt.Errorf("folder for the result of the run: %w (or name a folder with --store)", err)
	}
	return filepath.Join(dir, run), nil
}

// Stores lists what is kept, the newest first.
func Stores() ([]Kept, error) {
	dir, err := runsDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Kept
	for _, e := range entries {
		if !e.IsDir() || !events.ValidID(e.Name()) {
			continue
		}
		k := Kept{Run: e.Name(), Path: filepath.Join(dir, e.Name())}
		k.root()
		var w work
		if b, err := os.ReadFile(filepath.Join(k.Path, workFile)); err == nil && json.Unmarshal(b, &w) == nil {
			k.Work = w.Work
		}
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[j].At.Before(out[i].At) })
	return out, nil
}

// root finds when the run was started, and where.
func (k *Kept) root() {
	bases, _ := filepath.Glob(filepath.Join(k.Path, "workspace", gitwork.LocalsDir, "*", "base.json")) // the pattern is sound
	for _, at := range append(bases, k.Path) {
		if info, err := os.Stat(at); err == nil && (k.At.IsZero() || info.ModTime().Before(k.At)) {
			k.At = info.ModTime()
		}
		var base struct{ Root string }
		if b, err := os.ReadFile(at); err == nil && json.Unmarshal(b, &base) == nil {
			k.Root = base.Root
		}
	}
}

// work is the file workFile.
type work struct {
	Work string `json:"work"`
}

// NoteWork notes in a kept store what became of the work of its run. A folder that is no kept store is left alone.
func NoteWork(store, what string) error {
	dir, err := runsDir()
	if err != nil || filepath.Dir(store) != dir {
		return nil //nolint:nilerr // without a home nothing is kept
	}
	b, err := json.Marshal(work{what})
	if err != nil {
		return err
	}
	return disk.Replace(filepath.Join(store, workFile), append(b, '\n'), 0o600)
}

// Pick finds the kept store that a person means: last is the newest of a working tree, or of all where root is empty,
// and the beginning or the end of an id stands for the only one that has it. ok is false where there is none.
func Pick(all []Kept, ref, root string) (k Kept, ok bool) {
	if ref == "last" {
		i := slices.IndexFunc(all, func(k Kept) bool { return root == "" || k.Root == root })
		if i < 0 {
			return k, false
		}
		return all[i], true
	}
	found := slices.DeleteFunc(slices.Clone(all), func(k Kept) bool {
		return k.Run != ref && !strings.HasPrefix(k.Run, ref) && !strings.HasPrefix(k.Run, "run-"+ref) &&
			!strings.HasSuffix(k.Run, ref)
	})
	if i := slices.IndexFunc(found, func(k Kept) bool { return k.Run == ref }); i >= 0 {
		return found[i], true
	}
	if len(found) != 1 {
		return k, false
	}
	return found[0], true
}

// Overdue are the stores beyond the limits: those whose work was taken or is nothing may go, work that was not taken is
// for a person to decide about.
func Overdue(all []Kept, after time.Duration, most int, now time.Time) (spent, untaken []Kept) {
	for i, k := range all { // the newest first
		old := now.Sub(k.At) > after
		switch {
		case k.Work != "" && (old || i >= most):
			spent = append(spent, k)
		case k.Work == "" && old:
			untaken = append(untaken, k)
		}
	}
	return spent, untaken
}

// Remove removes kept stores but those that a process has open, and returns what was removed.
func Remove(stores []Kept) (removed []Kept, err error) {
	for _, k := range stores {
		lock, lockErr := disk.TakeLock(filepath.Join(k.Path, "lock"))
		if lockErr != nil {
			if !errors.Is(lockErr, disk.ErrLocked) {
				err = errors.Join(err, lockErr)
			}
			continue
		}
		gone := errors.Join(os.RemoveAll(k.Path), lock.Close())
		if err = errors.Join(err, gone); gone == nil {
			removed = append(removed, k)
		}
	}
	return removed, err
}
