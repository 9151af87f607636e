package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/pattern"
)

// LocalsDir, below the workspace root, has repositories of persons on this machine as they were when a run was to work
// on them. Whoever can write there may have the station read a repository; a task can only name what is there, by an id
// that cannot be guessed.
const LocalsDir = ".local"

const (
	localScheme = "local://"
	baseFile    = "base.json"
	packFile    = "base.bundle"
)

var localID = pattern.New(`^[a-z0-9]{16,64}$`)

// LocalID gives the id in the address of a registered repository; ok is false for other addresses.
func LocalID(address string) (id string, ok bool) {
	id, ok = strings.CutPrefix(address, localScheme)
	return id, ok && localID.MatchString(id)
}

// RegisterLocal keeps a repository as it is, below a workspace root, and returns the address by which a task names it.
// base writes what is to be kept of it. The id must be one that no one can guess.
func RegisterLocal(root, id string, base func(pack io.Writer) (git.Base, error)) (address string, b git.Base,
	err error) {
	if !localID.MatchString(id) {
		return "", b, fmt.Errorf("id of a repository %.80q: want 16 to 64 letters and digits: %w", id, git.ErrName)
	}
	at := filepath.Join(root, LocalsDir, id)
	half := at + ".part"
	if err := os.MkdirAll(half, 0o700); err != nil {
		return "", b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(half)) }()
	f, err := os.OpenFile(filepath.Join(half, packFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", b, err
	}
	b, err = base(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", b, err
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return "", b, err
	}
	if err := disk.Replace(filepath.Join(half, baseFile), append(text, '\n'), 0o600); err != nil {
		return "", b, err
	}
	return localScheme + id, b, os.Rename(half, at)
}

// cloneLocal fills an empty tree with a registered repository. Where the sandboxes of the run cannot read the person's
// objects, it gets a copy of them.
func (w *work) cloneLocal(ctx context.Context, id string, ignore []string) (r *git.Repo, err error) {
	at := filepath.Join(real(w.cfg.Root), LocalsDir, id)
	text, err := os.ReadFile(filepath.Join(at, baseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the repository %s%s is not known to this toolrunner: %w (it is on another machine, or was removed after its time: dispatch the task again)", localScheme, id, git.ErrNotFound)
	}
	var b git.Base
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s%s: %w", localScheme, id, err)
	}
	path, err := w.path()
	if err != nil {
		return nil, err
	}
	l := Clone{Path: path, Objects: b.Objects, At: time.Now().UTC()}
	if w.job.Ephemeral || b.Objects != "" {
		if err := w.note(l); err != nil { // before there is something to borrow
			return nil, err
		}
	}
	pack, err := os.Open(filepath.Join(at, packFile))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pack.Close()) }()
	if r, err = w.cfg.Git.CloneBase(ctx, b, pack, w.job.Dir, ignore); err != nil {
		return nil, err
	}
	if w.job.Ephemeral && w.job.Barred == nil {
		return r, nil
	}
	if err := r.Own(ctx); err != nil {
		return nil, err
	}
	return r, Forget(w.cfg.Root, path)
}

// tidyLocals takes away what was registered that long ago. Who still works with it has a clone by then.
func (d *Desk) tidyLocals(after time.Duration, now time.Time) error {
	dir := filepath.Join(d.cfg.Root, LocalsDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, infoErr := e.Info(); infoErr == nil && now.Sub(info.ModTime()) > max(after, d.cfg.Keep) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
