package workspace

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
	"sync"
	"syscall"
	"time"
)

// Uses notes which runs came into which workspaces of a root that stay on their machine, so that a workspace goes only
// when all of its runs have ended. The notes are files beside the workspaces: they outlive the process that writes
// them. Several processes of the machine may share a root. A workspace without notes is never taken away.
type Uses struct {
	root  string
	mu    sync.Mutex
	known map[string]bool // run and workspace pairs whose note is there, guarded by mu
}

// usesDir, below the root, has a folder for each workspace, with a lock and an empty file for each run.
const (
	usesDir  = ".uses"
	usesLock = ".lock"
	// maxKnown bounds Uses.known: beyond it notes are written again.
	maxKnown = 10_000
)

// NewUses returns the notes of a root.
func NewUses(root string) *Uses { return &Uses{root: root, known: map[string]bool{}} }

// Use is what is known of a workspace: its path below the root, and its runs with the time of their notes.
type Use struct {
	Path string
	Runs map[string]time.Time
}

// expires reports whether a workspace may go when its runs have ended: those of sessions stay, and those that all runs
// share.
func expires(path string) bool {
	return strings.HasPrefix(path, "run/") || strings.HasPrefix(path, "workflow/")
}

func (u *Uses) dir(path string) string {
	return filepath.Join(u.root, usesDir, strings.ReplaceAll(path, "/", "="))
}

// Enter notes that a run works in a workspace and keeps it from going until leave is called. While it is being removed
// Enter waits, until ctx ends.
func (u *Uses) Enter(ctx context.Context, path, run string) (leave func(), err error) {
	if !expires(path) {
		return func() {}, nil
	}
	lock, err := u.lock(ctx, path, syscall.LOCK_SH)
	if err != nil {
		return nil, fmt.Errorf("note the use of workspace %s: %w", path, err)
	}
	u.mu.Lock()
	known := u.known[run+" "+path]
	u.mu.Unlock()
	if !known {
		f, err := os.OpenFile(filepath.Join(u.dir(path), run), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("note the use of workspace %s: %w", path, err), lock.Close())
		}
		if err := f.Close(); err != nil {
			return nil, errors.Join(fmt.Errorf("note the use of workspace %s: %w", path, err), lock.Close())
		}
		u.mu.Lock()
		if len(u.known) >= maxKnown {
			clear(u.known)
		}
		u.known[run+" "+path] = true
		u.mu.Unlock()
	}
	return func() { _ = lock.Close() }, nil
}

// How soon a lock that another holds is tried again: the longer it takes the later.
const (
	lockFirst = time.Millisecond
	lockMost  = 100 * time.Millisecond
)

// lock takes the lock of a workspace, and waits for it until ctx ends: flock itself would wait for as long as it takes.
func (u *Uses) lock(ctx context.Context, path string, how int) (*os.File, error) {
	for pause := lockFirst; ; pause = min(2*pause, lockMost) {
		f, err := u.tryLock(path, how)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return f, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("wait until another program has removed it: %w", context.Cause(ctx))
		}
	}
}

// tryLock opens the lock of a workspace and takes it; the error is EWOULDBLOCK where another holds it. The file may go
// between the two: then there is another one.
func (u *Uses) tryLock(path string, how int) (*os.File, error) {
	name := filepath.Join(u.dir(path), usesLock)
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // nobody has used it, or the folder went between two looks
			if err := os.MkdirAll(u.dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// All lists the workspaces that have notes.
func (u *Uses) All() ([]Use, error) {
	entries, err := os.ReadDir(filepath.Join(u.root, usesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("uses of workspaces: %w", err)
	}
	var all []Use
	for _, e := range entries {
		use, err := u.of(strings.ReplaceAll(e.Name(), "=", "/"))
		if err != nil {
			return nil, err
		}
		if expires(use.Path) && filepath.IsLocal(use.Path) {
			all = append(all, use)
		}
	}
	return all, nil
}

func (u *Uses) of(path string) (Use, error) {
	use := Use{Path: path, Runs: map[string]time.Time{}}
	notes, err := os.ReadDir(u.dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return use, nil
	}
	if err != nil {
		return use, fmt.Errorf("uses of workspace %s: %w", path, err)
	}
	for _, n := range notes {
		if info, err := n.Info(); err == nil && n.Name() != usesLock {
			use.Runs[n.Name()] = info.ModTime()
		}
	}
	return use, nil
}

// Remove takes a workspace away where over agrees, while no run enters it: remove does the work. It does nothing where
// a call is under way in it. Broken off, it may be done again.
func (u *Uses) Remove(path string, over func(Use) (bool, error), remove func() error) (gone bool, err error) {
	lock, err := u.tryLock(path, syscall.LOCK_EX)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("workspace %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	use, err := u.of(path)
	if err != nil {
		return false, err
	}
	if is, err := over(use); err != nil || !is {
		return false, err
	}
	if err := remove(); err != nil {
		return false, err
	}
	u.mu.Lock()
	for run := range use.Runs {
		delete(u.known, run+" "+path)
	}
	u.mu.Unlock()
	return true, u.forget(path, use)
}

// forget removes the notes of a workspace, whose lock is held, and then the lock: from then on another may enter and
// make both anew.
func (u *Uses) forget(path string, use Use) error {
	for _, name := range append(slices.Sorted(maps.Keys(use.Runs)), usesLock) {
		if err := os.Remove(filepath.Join(u.dir(path), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("notes of workspace %s: %w", path, err)
		}
	}
	err := os.Remove(u.dir(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil // a run entered meanwhile
	}
	return err
}
