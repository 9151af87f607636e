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
	root string
	mu   sync.Mutex
	// known are run and workspace pairs whose note is there, shared the locks of workspaces that were entered, open for
	// the next call; both are guarded by mu.
	known  map[string]bool
	shared map[string]*shared
}

// shared is the lock of a workspace: locked while calls of this process are in it.
type shared struct {
	file  *os.File
	calls int
}

// usesDir, below the root, has a folder for each workspace, with a lock and an empty file for each run.
const (
	usesDir  = ".uses"
	usesLock = ".lock"
	// maxKnown bounds Uses.known: beyond it notes are written again.
	maxKnown = 10_000
	// maxShared bounds the locks in Uses.shared that no call uses.
	maxShared = 128
)

// NewUses returns the notes of a root.
func NewUses(root string) *Uses {
	return &Uses{root: root, known: map[string]bool{}, shared: map[string]*shared{}}
}

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
	if err := u.lock(ctx, path); err != nil {
		return nil, fmt.Errorf("note the use of workspace %s: %w", path, err)
	}
	u.mu.Lock()
	known := u.known[run+" "+path]
	u.mu.Unlock()
	if !known {
		f, err := os.OpenFile(filepath.Join(u.dir(path), run), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			u.leave(path)
			return nil, fmt.Errorf("note the use of workspace %s: %w", path, err)
		}
		if err := f.Close(); err != nil {
			u.leave(path)
			return nil, fmt.Errorf("note the use of workspace %s: %w", path, err)
		}
		u.mu.Lock()
		if len(u.known) >= maxKnown {
			clear(u.known)
		}
		u.known[run+" "+path] = true
		u.mu.Unlock()
	}
	return func() { u.leave(path) }, nil
}

// How soon a lock that another holds is tried again: the longer it takes the later.
const (
	lockFirst = time.Millisecond
	lockMost  = 100 * time.Millisecond
)

// lock takes the lock of a workspace for a call, and waits for it until ctx ends: flock itself would wait for as long
// as it takes.
func (u *Uses) lock(ctx context.Context, path string) error {
	for pause := lockFirst; ; pause = min(2*pause, lockMost) {
		err := u.share(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("wait until another program has removed it: %w", context.Cause(ctx))
		}
	}
}

// share takes the lock of a workspace for one more call of this process.
func (u *Uses) share(path string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.shared[path]
	if s == nil {
		f, err := u.open(path)
		if err != nil {
			return err
		}
		s = &shared{file: f}
	}
	if s.calls == 0 {
		if there, err := u.take(path, s.file, syscall.LOCK_SH); err != nil || !there {
			delete(u.shared, path)
			if err = errors.Join(err, s.file.Close()); err == nil {
				err = syscall.EWOULDBLOCK // the next one may be there
			}
			return err
		}
	}
	u.shared[path] = s
	s.calls++
	return nil
}

// leave gives up the lock of a workspace when the last call of this process leaves it.
func (u *Uses) leave(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.shared[path]
	if s.calls--; s.calls > 0 {
		return
	}
	if syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN) != nil {
		u.close(path)
	}
	for other := range u.shared { // any
		if len(u.shared) <= maxShared {
			break
		}
		u.close(other)
	}
}

// close closes the lock of a workspace that no call is in. mu is held.
func (u *Uses) close(path string) {
	if s := u.shared[path]; s != nil && s.calls == 0 {
		_ = s.file.Close() // which gives up the lock, if nothing else did
		delete(u.shared, path)
	}
}

// open opens the lock of a workspace, and makes it where there is none.
func (u *Uses) open(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(u.dir(path), usesLock), os.O_CREATE|os.O_RDWR, 0o600)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		// no one has used it, or the folder went between two looks
		err = os.Mkdir(u.dir(path), 0o700)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(u.dir(path), 0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// take locks the open lock of a workspace; the error is EWOULDBLOCK where another holds it. there is false where the
// workspace was removed since: then there may be another lock.
func (u *Uses) take(path string, f *os.File, how int) (there bool, err error) {
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		return false, err
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(filepath.Join(u.dir(path), usesLock))
	return err == nil && os.SameFile(mine, named), nil
}

// alone takes the lock of a workspace for its caller only; the error is EWOULDBLOCK where a call is in it.
func (u *Uses) alone(path string) (*os.File, error) {
	for {
		f, err := u.open(path)
		if err != nil {
			return nil, err
		}
		there, err := u.take(path, f, syscall.LOCK_EX)
		if err == nil && there {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
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
	lock, err := u.alone(path)
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
	u.close(path)
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
