package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/git"
)

// aboutFile, in a mirror, is written after each fetch: its age is that of the last use.
const aboutFile = "about.json"

// about is what is known of a mirror.
type about struct {
	URL string `json:"url"`
	// Packs by name, with their sizes in bytes, as they were after the last fetch.
	Packs map[string]int64 `json:"packs"`
}

var (
	errDepth   = fmt.Errorf("depth: %w (an ephemeral workspace shares the whole history: remove depth, or set workspace: persistent)", git.ErrName)
	errMissing = errors.New("packs of it are missing")
)

// cloneAlternates fills an empty tree with what the remote has, without a copy of its objects.
func (w *mirrors) cloneAlternates(ctx context.Context, src git.Source) (r *git.Repo, err error) {
	for try := 0; ; try++ {
		var name string
		err = w.mirrored(ctx, src, func(m *git.Repo, found string) error {
			if err := w.noteClone(src.URL); err != nil {
				return err
			}
			name = found
			r, err = w.cfg.Git.CloneAlternates(ctx, m, src, w.job.Dir)
			return err
		})
		if err == nil && name != "" {
			err = r.Checkout(ctx, name)
		}
		if try > 0 || !w.healed(ctx, src, err) {
			return r, err
		}
		if err := empty(w.job.Dir); err != nil {
			return nil, err
		}
	}
}

// fetch brings what the remote has into a repository: through the mirror of which it borrows, where that is of this
// remote.
func (w *mirrors) fetch(ctx context.Context, r *git.Repo, src git.Source) (name string, err error) {
	l, known, err := w.noted()
	if err != nil {
		return "", err
	}
	if !known || l.Mirror != mirrorKey(src.URL) {
		return r.Fetch(ctx, src)
	}
	if src.Depth > 0 {
		return "", errDepth
	}
	return name, w.mirrored(ctx, src, func(m *git.Repo, found string) error {
		name = found
		return r.Follow(ctx, m)
	})
}

// present makes sure that the objects are there which an existing workspace borrows, and that one which is to be a full
// copy is one.
func (w *mirrors) present(ctx context.Context, src git.Source) error {
	l, known, err := w.noted()
	if err != nil || !known {
		return err
	}
	if w.job.Ephemeral {
		l.At = time.Now().UTC()
		if err := w.note(l); err != nil { // this run works in it, too
			return err
		}
	}
	if l.Mirror == "" {
		return nil
	}
	if _, err := os.Lstat(objectsOf(w.cfg.Root, l.Mirror)); errors.Is(err, fs.ErrNotExist) &&
		l.Mirror == mirrorKey(src.URL) {
		return w.mirrored(ctx, src, func(*git.Repo, string) error { return nil })
	}
	return nil
}

// own makes a workspace that borrows one that does not, for a run that is not ephemeral.
func (w *mirrors) own(ctx context.Context, r *git.Repo) error {
	l, known, err := w.noted()
	if err != nil || !known || w.job.Ephemeral {
		return err
	}
	if err := r.Own(ctx); err != nil {
		return err
	}
	return os.RemoveAll(cloneAt(w.cfg.Root, l.Path))
}

// mirrored fetches into the mirror of a remote, which it makes where there is none, and lets it be used while no one
// else fetches. name is what was asked for. A mirror that is found to be damaged is fixed once.
func (w *mirrors) mirrored(ctx context.Context, src git.Source, use func(m *git.Repo, name string) error) (err error) {
	if src.Depth > 0 {
		return errDepth
	}
	key := mirrorKey(src.URL)
	unlock, err := w.mirrorLock(ctx, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	m, name, err := w.fetched(ctx, key, src)
	if err != nil {
		return err
	}
	return use(m, name)
}

// fetched fetches into a mirror, and fixes it before that where it is damaged. It must be called with the lock of the
// mirror.
func (w *mirrors) fetched(ctx context.Context, key string, src git.Source) (m *git.Repo, name string, err error) {
	if m, err = w.mirror(ctx, key); err == nil {
		if name, err = m.Fetch(ctx, src); strange(ctx, err) {
			if whole, e := m.Whole(ctx); e == nil && !whole {
				err = git.ErrDamaged
			}
		}
	}
	if errors.Is(err, git.ErrDamaged) {
		if m, err = w.cfg.Git.RepairMirror(ctx, mirrorAt(w.cfg.Root, key)); err == nil {
			name, err = m.Fetch(ctx, src)
		}
	}
	var packs map[string]int64
	if err == nil {
		packs, err = m.Packs()
	}
	if err == nil {
		err = replace(filepath.Join(mirrorAt(w.cfg.Root, key), aboutFile), about{URL: src.URL, Packs: packs})
	}
	if err != nil {
		return nil, "", fmt.Errorf("mirror of the remote: %w", err)
	}
	return m, name, nil
}

// mirror opens or makes a mirror. git.ErrDamaged says that something is missing of it.
func (w *mirrors) mirror(ctx context.Context, key string) (*git.Repo, error) {
	at := mirrorAt(w.cfg.Root, key)
	m, err := w.cfg.Git.Mirror(ctx, at)
	if err != nil {
		return nil, err
	}
	var old about
	b, err := os.ReadFile(filepath.Join(at, aboutFile))
	if err != nil || json.Unmarshal(b, &old) != nil {
		return m, nil //nolint:nilerr // it is new, or broken off: nothing is known of it
	}
	packs, err := m.Packs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", git.ErrDamaged, err)
	}
	for name, size := range old.Packs {
		if packs[name] != size {
			return nil, fmt.Errorf("%w: %w", git.ErrDamaged, errMissing)
		}
	}
	return m, nil
}

// healed fixes the mirror that the workspace borrows of, where work failed in a way that damage of it could explain and
// it is damaged. It reports whether it makes sense to try again.
func (w *mirrors) healed(ctx context.Context, src git.Source, err error) bool {
	l, known, _ := w.noted() // what cannot be read was told by whoever opened the workspace
	if !known || l.Mirror != mirrorKey(src.URL) || !strange(ctx, err) {
		return false
	}
	unlock, err := w.mirrorLock(ctx, l.Mirror)
	if err != nil {
		return false
	}
	m, err := w.mirror(ctx, l.Mirror)
	whole := false
	if err == nil {
		whole, err = m.Whole(ctx)
	}
	if damaged := errors.Is(err, git.ErrDamaged) || err == nil && !whole; damaged {
		if _, err = w.cfg.Git.RepairMirror(ctx, mirrorAt(w.cfg.Root, l.Mirror)); err == nil {
			_, _, err = w.fetched(ctx, l.Mirror, src)
		}
	}
	return unlock() == nil && err == nil && !whole
}

// strange reports whether an error is none that a remote, a limit or the asker has caused as far as can be seen.
func strange(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	for _, known := range []error{git.ErrUnreachable, git.ErrAuth, git.ErrHostKey, git.ErrProtocol, git.ErrName,
		git.ErrTooLarge, git.ErrFull, git.ErrDirty, git.ErrNotEmpty,
		git.ErrRejected, git.ErrConflict, git.ErrNotFound, git.ErrUnderway, git.ErrNothing, ErrRefused, ErrStore, ErrBusy,
		errDepth} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}

// mirrorLock waits until no one else is at work in a mirror, for as long as the call has.
func (w *mirrors) mirrorLock(ctx context.Context, key string) (unlock func() error, err error) {
	dir := filepath.Join(w.cfg.Root, MirrorsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the mirror: %w", err)
	}
	at := filepath.Join(dir, key+".lock")
	for told := false; ; told = true {
		f, ok, err := tryLock(at)
		if err != nil {
			return nil, fmt.Errorf("lock the mirror: %w", err)
		}
		if ok {
			return func() error { return errors.Join(os.Remove(at), f.Close()) }, nil
		}
		if !told && w.job.Progress != nil {
			w.job.Progress("waiting for another run that fetches from the same remote\n")
		}
		t := time.NewTimer(busyEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// TidyMirrors forgets clones whose workspace is gone, and takes mirrors away that no one borrows of and that no one
// used for that long. It returns how many.
func (d *Desk) TidyMirrors(ctx context.Context, after time.Duration, now time.Time) (n int, err error) {
	if err := d.tidyLocals(after, now); err != nil {
		return 0, err
	}
	clones, err := d.Clones()
	if err != nil {
		return 0, err // of an unknown clone the mirror is not known
	}
	for _, l := range clones {
		if _, err := os.Lstat(filepath.Join(d.cfg.Root, filepath.FromSlash(l.Path))); errors.Is(err, fs.ErrNotExist) &&
			now.Sub(l.At) > after {
			if err := os.RemoveAll(cloneAt(d.cfg.Root, l.Path)); err != nil {
				return 0, err
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(d.cfg.Root, MirrorsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		if !e.IsDir() || e.Name() == clonesDir {
			continue
		}
		went, err := d.tidyMirror(e.Name(), after, now)
		if errs = append(errs, err); went {
			n++
		}
	}
	return n, errors.Join(append(errs, err)...)
}

func (d *Desk) tidyMirror(key string, after time.Duration, now time.Time) (went bool, err error) {
	at := mirrorAt(d.cfg.Root, key)
	f, ok, err := tryLock(filepath.Join(d.cfg.Root, MirrorsDir, key+".lock"))
	if err != nil || !ok {
		return false, err // it is in use
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name()), f.Close()) }()
	info, err := os.Lstat(filepath.Join(at, aboutFile))
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Lstat(at) // its first fetch was broken off
	}
	if err != nil || now.Sub(info.ModTime()) <= after {
		return false, err
	}
	clones, err := d.Clones()
	for _, l := range clones {
		if l.Mirror == key {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	return true, git.RemoveAll(at)
}
