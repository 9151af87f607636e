package workcopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// Place is what is kept of a run that worked in a directory itself.
type Place struct {
	Dir string `json:"dir"`
	// Root is the workspace root of the station that has the run.
	Root    string    `json:"root"`
	Run     string    `json:"run"`
	Session string    `json:"session,omitempty"`
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`
	// Made are directories that were made to be closed, Ignored what git ignored when the run began.
	Made    []string `json:"made,omitempty"`
	Ignored []string `json:"ignored,omitempty"`
	// Before is what the directory had when the run began, After when it ended; nil where no one saw that.
	Before git.Base  `json:"before"`
	After  *git.Base `json:"after,omitempty"`
	// Undone says that the run was taken back.
	Undone bool `json:"undone,omitempty"`
}

const (
	placeRecord = "place.json"
	beforeName  = "before.bundle"
	afterName   = "after.bundle"
	// keepPlaces is how many of them are kept at least, KeepFor how long.
	keepPlaces = 100
)

// placesDir is the folder of the person for what is kept of runs in place.
func placesDir() (string, error) {
	home, err := trust.Home()
	return filepath.Join(home, "places"), err
}

// folder of one run.
func (p Place) folder() (string, error) {
	dir, err := placesDir()
	return filepath.Join(dir, "run", p.Run), err
}

// save keeps what the directory has now.
func (p Place) save(ctx context.Context, repo *git.Local, name string, with []string) (b git.Base, err error) {
	dir, err := p.folder()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return b, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return b, err
	}
	b, err = repo.Base(ctx, f, with, repo.IsFolder(), git.BaseLimits{})
	if err = errors.Join(err, f.Sync(), f.Close()); errors.Is(err, git.ErrTooLarge) {
		return b, app.Usage("--in-place: what an undo needs of %s cannot be kept: %w", p.Dir, err)
	}
	return b, err
}

func (p Place) note() error {
	dir, err := p.folder()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(filepath.Join(dir, placeRecord), append(text, '\n'), 0o600)
}

// tidy removes the directories that were made to be closed, where they are still empty.
func (p Place) tidy() {
	for _, name := range p.Made {
		_ = os.Remove(filepath.Join(p.Dir, name)) // something is in it
	}
}

// Places lists what is kept of runs in place, the newest first, and removes what is over the limits.
func Places(now time.Time) ([]Place, error) {
	dir, err := placesDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, "run"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Place
	for _, e := range entries {
		var p Place
		text, readErr := os.ReadFile(filepath.Join(dir, "run", e.Name(), placeRecord))
		if readErr == nil && json.Unmarshal(text, &p) == nil && p.Run == e.Name() && events.ValidID(p.Run) {
			all = append(all, p)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[j].At.Before(all[i].At) })
	for i := len(all) - 1; i >= keepPlaces && now.Sub(all[i].At) > KeepFor; i-- {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "run", all[i].Run)))
		all = all[:i]
	}
	return all, err
}

// PickPlaces finds the runs in place that a person means, the newest first: a run, or all of a session that were not
// taken back; last is the newest of a directory that was not taken back.
func PickPlaces(all []Place, ref, dir string) []Place {
	var found []Place
	for _, p := range all {
		switch {
		case p.Run == ref:
			return []Place{p}
		case ref == app.LastRun && p.Dir == dir && !p.Undone:
			return []Place{p}
		case p.Session == ref && ref != "" && !p.Undone:
			found = append(found, p)
		}
	}
	return found
}

// ErrNotSeen means that no one saw the end of a run in place: what was changed since cannot be told from what it did.
var ErrNotSeen = errors.New("the end of the run was not seen by this program")

// Between reads what some runs of a directory did, the newest first, as one result. With all, what was changed since is
// taken for theirs where the end of the newest was not seen.
func Between(ctx context.Context, places []Place, all bool) (_ *git.Result, base git.Base, err error) {
	first, last := places[len(places)-1], places[0]
	c, err := Find(ctx, first.Dir, nil)
	if errors.Is(err, git.ErrNotRepository) {
		c, err = Folder(ctx, first.Dir, nil)
	}
	if err != nil {
		return nil, base, err
	}
	defer c.Close()
	if c.repo.Root != first.Dir {
		return nil, base, fmt.Errorf("%s is no longer a directory of its own: %w", first.Dir, git.ErrNotRepository)
	}
	after, name := last.After, afterName
	if after == nil {
		if !all {
			return nil, base, ErrNotSeen
		}
		name = "now.bundle"
		now, err := last.save(ctx, c.repo, name, nil)
		if err != nil {
			return nil, base, err
		}
		after = &now
	}
	before, closeBefore, err := first.pack(beforeName)
	if err != nil {
		return nil, base, err
	}
	defer closeBefore()
	then, closeThen, err := last.pack(name)
	if err != nil {
		return nil, base, err
	}
	defer closeThen()
	g, err := Git()
	if err != nil {
		return nil, base, err
	}
	r, err := g.Between(ctx, c.repo, git.Taken{Base: first.Before, Pack: before}, git.Taken{Base: *after, Pack: then})
	if err == nil {
		r.Keep(first.keeps)
	}
	return r, first.Before, err
}

func (p Place) pack(name string) (io.Reader, func(), error) {
	dir, err := p.folder()
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(filepath.Join(dir, name))
	return f, func() { _ = f.Close() }, err // it was only read
}

// keeps reports whether a path was ignored when the run began: an undo never removes it.
func (p Place) keeps(name string) bool {
	return slices.ContainsFunc(p.Ignored, func(k string) bool {
		return name == k || strings.HasSuffix(k, "/") && strings.HasPrefix(name, k)
	})
}

// TakenBack notes that runs were taken back, and lets others into the directory.
func TakenBack(places []Place) (err error) {
	for _, p := range places {
		p.Undone = true
		p.tidy()
		c := claimOf(p.Dir)
		if c.read(); c.by.Run == p.Run {
			err = errors.Join(err, c.release())
		}
		err = errors.Join(err, p.note())
	}
	return err
}

// claim is the note of who works in a directory.
type claim struct {
	at string
	by Place
}

func claimOf(dir string) *claim {
	sum := sha256.Sum256([]byte(dir))
	at, _ := placesDir() // without a home nothing was kept before
	return &claim{at: filepath.Join(at, hex.EncodeToString(sum[:16])+".json")}
}

func (c *claim) read() {
	c.by = Place{}
	if text, err := os.ReadFile(c.at); err == nil {
		_ = json.Unmarshal(text, &c.by) // a note that cannot be read is none
	}
}

// take notes that a run works in a directory; the error says who does already.
func take(p Place, over func(Place) (bool, error)) (_ *claim, err error) {
	c := claimOf(p.Dir)
	if err := os.MkdirAll(filepath.Dir(c.at), 0o700); err != nil {
		return nil, err
	}
	lock, err := disk.TakeLock(c.at + ".lock")
	if err != nil {
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("--in-place: another command is entering %s: %w", p.Dir, err))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	c.read()
	if by := c.by; by.Run != "" && by.Run != p.Run && (by.Session == "" || by.Session != p.Session || by.Root != p.Root) {
		ended := by.PID != os.Getpid() && !alive(by.PID)
		if ended && over != nil {
			if ended, err = over(by); err != nil {
				return nil, err
			}
		}
		if !ended {
			return nil, app.Exit(app.ExitRefused, fmt.Errorf("--in-place: run %s works in %s already, since %s: wait for it, stop it, or take it back with inspan undo %s; without --in-place a run works on a copy",
				by.Run, p.Dir, by.At.Local().Format("15:04"), by.Run))
		}
	}
	c.by = p
	return c, c.write()
}

func (c *claim) write() error {
	text, err := json.Marshal(c.by)
	if err != nil {
		return err
	}
	return disk.Replace(c.at, append(text, '\n'), 0o600)
}

// detach leaves the note for a run that goes on without this process.
func (c *claim) detach() error {
	c.by.PID = 0
	return c.write()
}

func (c *claim) release() error {
	if err := os.Remove(c.at); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// alive reports whether a process of this machine runs.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
