package gitwork

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/git"
)

// MirrorsDir, below the workspace root, has the mirrors of remotes, and the clones: which workspace borrows of which
// mirror. What a workspace itself says of that is not believed.
const MirrorsDir = ".mirrors"

const (
	clonesDir = ".loans"
	cloneFile = "loan.json"
	runMark   = "run="
)

// Clone is what is known of the workspace of ephemeral runs. It is not changed but by new runs that come in.
type Clone struct {
	// Path of the workspace below the workspace root.
	Path string `json:"path"`
	// Mirror is the name of the mirror that it borrows of; empty for none.
	Mirror string `json:"mirror,omitempty"`
	// Objects is the directory of objects of a person's repository that it borrows instead, see LocalsDir.
	Objects string `json:"objects,omitempty"`
	// URL is the address of the remote that the mirror is of.
	URL string    `json:"url,omitempty"`
	At  time.Time `json:"at"`
	// Runs that worked in it.
	Runs []string `json:"-"`
}

// Passing reports whether the workspace goes once its last run has ended, that of a workflow some time after: those of
// sessions, and one that all runs share, stay.
func (l Clone) Passing() bool {
	return strings.HasPrefix(l.Path, "run/") || strings.HasPrefix(l.Path, "workflow/")
}

// lender is the directory of objects that a workspace borrows; empty for none.
func (l Clone) lender(root string) string {
	if l.Mirror == "" {
		return l.Objects
	}
	return objectsOf(root, l.Mirror)
}

// short hash of a text, as a name of a file.
func named(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func mirrorKey(url string) string { return named(url) }

func mirrorAt(root, key string) string { return filepath.Join(real(root), MirrorsDir, key) }

// objectsOf is where the objects of a mirror are, as it is written into those who borrow them.
func objectsOf(root, key string) string {
	return filepath.Join(mirrorAt(root, key), ".git", "objects")
}

func cloneAt(root, path string) string {
	return filepath.Join(root, MirrorsDir, clonesDir, named(filepath.ToSlash(filepath.Clean(path))))
}

// Ephemeral reports whether a workspace below a root is one of ephemeral runs, which Desk.Reclaim takes away.
func Ephemeral(root, path string) (bool, error) {
	l, ok, err := readClone(cloneAt(root, path))
	return ok && l.Passing(), err
}

// readClone reads the note of a workspace; ok is false where there is none.
func readClone(dir string) (l Clone, ok bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, cloneFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err == nil && (!filepath.IsLocal(filepath.FromSlash(l.Path)) || l.Mirror != "" && len(l.Mirror) != len(named("")) ||
		l.Objects != "" && !filepath.IsAbs(l.Objects)) {
		err = errors.New("it is malformed")
	}
	if err != nil {
		return l, false, fmt.Errorf("record of a clone %s: %w (remove it; the workspace is no longer usable)", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, false, err
	}
	for _, e := range entries {
		if run, is := strings.CutPrefix(e.Name(), runMark); is {
			l.Runs = append(l.Runs, run)
		}
	}
	return l, true, nil
}

// writeClone notes what a workspace borrows, and whose it is.
func writeClone(root string, l Clone, run string) error {
	dir := cloneAt(root, l.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := join(dir, run); err != nil {
		return err
	}
	return replace(filepath.Join(dir, cloneFile), l)
}

// join notes that a run works in a workspace that borrows.
func join(dir, run string) error {
	if run == "" || run != filepath.Base(run) {
		return nil // no one's
	}
	f, err := os.OpenFile(filepath.Join(dir, runMark+run), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// replace puts a file of JSON in the place of another, whole or not at all.
func replace(at string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(at, append(b, '\n'), 0o600)
}

// Alternates returns the directory of objects that a workspace, given by its path below the workspace root, borrows and
// must be able to read; empty for none. borrowed is false for a workspace that is not of ephemeral runs. The run is
// noted as one that works in it.
func Alternates(root, path, run string) (objects string, borrowed bool, err error) {
	dir := cloneAt(root, path)
	l, ok, err := readClone(dir)
	if err != nil || !ok {
		return "", false, err
	}
	if l.Passing() {
		if err := join(dir, run); err != nil {
			return "", true, err
		}
	}
	if objects = l.lender(root); objects == "" {
		return "", true, nil
	}
	if info, err := os.Lstat(objects); err != nil || !info.IsDir() {
		return "", true, fmt.Errorf("workspace %s shares the objects in %s, which are missing: %w (call git_prepare again with the url: objects of a mirror are fetched again)", path, objects, git.ErrDamaged)
	}
	return objects, true, nil
}

// MoveClone says that a workspace is elsewhere now, both paths below the workspace root.
func MoveClone(root, from, to string) error {
	l, ok, err := readClone(cloneAt(root, from))
	if err != nil || !ok {
		return err
	}
	l.Path = filepath.ToSlash(to)
	if err := writeClone(root, l, ""); err != nil {
		return err
	}
	return os.RemoveAll(cloneAt(root, from))
}

// Forget forgets what was known of a workspace that was taken away.
func Forget(root, path string) error { return os.RemoveAll(cloneAt(root, path)) }

// path of the workspace below the root.
func (w *place) path() (string, error) {
	rel, err := filepath.Rel(w.cfg.Root, w.job.Dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("workspace %s is not below %s: %w", w.job.Dir, w.cfg.Root, errors.Join(err, git.ErrName))
	}
	return filepath.ToSlash(rel), nil
}

// noted is what is known of the workspace; ok is false where it is not of ephemeral runs.
func (w *place) noted() (l Clone, ok bool, err error) {
	path, err := w.path()
	if err != nil {
		return l, false, nil //nolint:nilerr // whoever works elsewhere borrows nothing
	}
	return readClone(cloneAt(w.cfg.Root, path))
}

// noteClone notes that the workspace borrows of the mirror of a remote, or without one only that it is of ephemeral
// runs.
func (w *place) noteClone(url string) error {
	path, err := w.path()
	if err != nil {
		return err
	}
	l := Clone{Path: path, URL: url, At: time.Now().UTC()}
	if url != "" {
		l.Mirror = mirrorKey(url)
	}
	return w.note(l)
}

// note writes down what a workspace borrows, for the run of the call.
func (w *place) note(l Clone) error {
	run, _, _ := strings.Cut(w.job.Call, "/")
	return writeClone(w.cfg.Root, l, run)
}

// Clones are all that are known, those that cannot be read left out and told.
func (d *Desk) Clones() (all []Clone, err error) {
	entries, err := os.ReadDir(filepath.Join(d.cfg.Root, MirrorsDir, clonesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var errs []error
	for _, e := range entries {
		l, ok, err := readClone(filepath.Join(d.cfg.Root, MirrorsDir, clonesDir, e.Name()))
		if errs = append(errs, err); ok {
			all = append(all, l)
		}
	}
	return all, errors.Join(append(errs, err)...)
}

// Reclaim takes the workspace of ephemeral runs at a path away, once what no remote has was kept as Rescue does. over
// is asked with what is known of it, while no one else does git work in it, and remove takes the directory away. What
// cannot all be kept stays, and gone is false. It may be done again, also where it was broken off.
func (d *Desk) Reclaim(ctx context.Context, path string, over func(context.Context, Clone) (bool, error),
	remove func() error) (kept []Published, gone bool, err error) {
	if err := d.probe(ctx); err != nil {
		return nil, false, err
	}
	dir := filepath.Join(d.cfg.Root, filepath.FromSlash(path))
	w := d.work(Job{Dir: dir, Scope: path, Call: "cleanup"})
	g, err := w.alone(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, g.leave(ctx, ctx.Err() != nil && !gone)) }()
	l, known, err := w.noted()
	if err != nil || !known {
		return nil, err == nil, err // it went
	}
	if ended, err := over(ctx, l); err != nil || !ended {
		return nil, false, err
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); !errors.Is(err, fs.ErrNotExist) {
		if err := w.present(ctx, git.Source{URL: l.URL}); err != nil {
			return nil, false, err
		}
		whole := false
		if kept, whole, err = w.keepAll(ctx, g); err != nil || !whole {
			return kept, false, err
		}
	}
	if err := remove(); err != nil {
		return kept, false, err
	}
	return kept, true, os.RemoveAll(cloneAt(d.cfg.Root, l.Path))
}
