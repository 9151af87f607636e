package gitwork

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/git"
)

// How long work waits for other work in the same tree where nothing else is said, and how often it looks.
const (
	busyPatience = 30 * time.Second
	busyEvery    = 20 * time.Millisecond
)

// guard keeps others out of a tree. Its file has a note while work is under way, so that one that was killed is known.
type guard struct {
	file *os.File
	path string
	tree string
	open func(context.Context) (*git.Repo, error)
	note note
}

// note is what is said of work under way.
type note struct {
	Call string `json:"call"`
	// Cloning says that the tree was empty before, so that all that is in it came of this call.
	Cloning bool `json:"cloning,omitempty"`
	// Clean says that the tree was as the commit that is checked out, so that all that differs came of this call.
	Clean bool `json:"clean,omitempty"`
}

// lockOf is where the lock of a tree is.
func lockOf(locks, tree string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(tree)))
	return filepath.Join(locks, hex.EncodeToString(sum[:16]))
}

// alone waits until no one else works in the tree, and fixes what a killed one left.
func (w *place) alone(ctx context.Context) (*guard, error) {
	if err := os.MkdirAll(w.cfg.Locks, 0o700); err != nil {
		return nil, fmt.Errorf("lock the workspace: %w", err)
	}
	g := &guard{path: lockOf(w.cfg.Locks, w.job.Dir), tree: w.job.Dir, open: w.open}
	give := time.Now().Add(w.cfg.Patience)
	for {
		ok, err := g.try()
		if err != nil {
			return nil, fmt.Errorf("lock the workspace: %w", err)
		}
		if ok {
			break
		}
		if time.Now().After(give) {
			return nil, fmt.Errorf("%w: waited %s (try again later)", ErrBusy, w.cfg.Patience)
		}
		t := time.NewTimer(busyEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
	if err := g.repair(ctx, w.job.Call); err != nil {
		return nil, errors.Join(fmt.Errorf("repair the workspace after a killed git operation: %w", err), g.file.Close())
	}
	return g, nil
}

// try takes the lock where no one has it.
func (g *guard) try() (ok bool, err error) {
	g.file, ok, err = tryLock(g.path)
	return ok, err
}

// tryLock takes a lock where no one has it. Whoever has it removes the file before closing it.
func tryLock(path string) (*os.File, bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, false, nil
		}
		return nil, false, err
	}
	// Whoever had it may have taken the file away meanwhile: then this lock is of nothing.
	here, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	if err1 != nil || err2 != nil || !os.SameFile(here, there) {
		return nil, false, f.Close()
	}
	return f, true, nil
}

// repair looks whether work was killed here, and unlocks what it left. What this very call left half done is undone.
func (g *guard) repair(ctx context.Context, call string) error {
	var old note
	b := make([]byte, 4<<10)
	n, _ := g.file.ReadAt(b, 0) // an empty file is the usual case
	if n > 0 {
		if _, err := git.Unlock(g.tree); err != nil {
			return err
		}
		if json.Unmarshal(b[:n], &old) == nil && old.Call == call {
			if err := g.undo(ctx, old); err != nil {
				return err
			}
		}
	}
	g.note = note{Call: call}
	return g.explain()
}

func (g *guard) explain() error {
	b, err := json.Marshal(g.note)
	if err != nil {
		return err
	}
	if err := g.file.Truncate(0); err != nil {
		return err
	}
	_, err = g.file.WriteAt(b, 0)
	return err
}

// cloning notes that the tree is empty and is to be filled.
func (g *guard) cloning() error {
	g.note.Cloning = true
	return g.explain()
}

// clean notes where the tree has no changes, before it is changed.
func (g *guard) clean(ctx context.Context, r *git.Repo) error {
	s, err := r.Status(ctx)
	if err != nil || !s.Clean() || s.Head.ID == "" || len(s.Nested) > 0 {
		return err
	}
	g.note.Clean = true
	return g.explain()
}

// undo makes a tree what it was before work that was broken off in the middle.
func (g *guard) undo(ctx context.Context, n note) error {
	if n.Cloning {
		return empty(g.tree)
	}
	if !n.Clean {
		return nil
	}
	r, err := g.open(ctx)
	if err != nil {
		return err
	}
	return r.Reset(ctx)
}

// undoTime bounds what is done after the time of a call is over.
const undoTime = time.Minute

// leave lets others in. Where work was broken off, its git may have been killed: what it left locked and half done is
// undone.
func (g *guard) leave(ctx context.Context, broken bool) error {
	if broken {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		_, err := git.Unlock(g.tree)
		if err == nil {
			err = g.undo(ctx, g.note)
		}
		if err != nil {
			return errors.Join(err, g.file.Close()) // the note stays, and the next one tries again
		}
	}
	return errors.Join(os.Remove(g.path), g.file.Close())
}

// empty takes all out of a tree but for the harness's own files.
func empty(tree string) error {
	entries, err := os.ReadDir(tree)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(own(), e.Name()) {
			if err := git.RemoveAll(filepath.Join(tree, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
