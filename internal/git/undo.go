package git

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the ids of git
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// Undone is what Undo did. Paths are relative to the working tree.
type Undone struct {
	// Back were changed back. Overwritten are those of them that somebody had changed at the same places since.
	Back        []string `json:"back"`
	Overwritten []string `json:"overwritten"`
	// Already were as before the run.
	Already []string `json:"already"`
}

// ChangedError names the files that were changed, at the places where the run changed them, since it did. It is an
// ErrConflict.
type ChangedError struct{ Paths []string }

func (e *ChangedError) Error() string {
	names := make([]string, 0, maxNamed)
	for _, p := range e.Paths[:min(maxNamed, len(e.Paths))] {
		names = append(names, fmt.Sprintf("%q", p))
	}
	more := ""
	if n := len(e.Paths) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "changed since the run, at the places that it changed: " + strings.Join(names, ", ") + more
}

// maxNamed is how many files a ChangedError names in its text.
const maxNamed = 20

// Is reports ErrConflict.
func (e *ChangedError) Is(target error) bool { return target == ErrConflict }

// Undo takes the changes of the run since a commit out of the person's working tree again and commits nothing. What
// else was changed stays. Where the person changed the same places since nothing is changed, and the error is a
// *ChangedError; with force those files become what they were before the run. Each file is replaced at once, and one
// that is as before the run is left alone: broken off, it may be done again and ends the same.
func (r *Result) Undo(ctx context.Context, base string, force bool) (u Undone, err error) {
	return r.undo(ctx, base, force, func(steps int) int { return steps })
}

// undo is Undo with as many of the steps as most says.
func (r *Result) undo(ctx context.Context, base string, force bool, most func(steps int) int) (u Undone, err error) {
	changes, err := r.changes(ctx, base)
	if err != nil {
		return u, err
	}
	root, err := os.OpenRoot(r.local.Root)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	w := &undoer{r: r, root: root, force: force}
	if err := w.plan(ctx, changes, &u); err != nil {
		return u, err
	}
	return u, w.write(most(len(w.steps)))
}

// entry is a file of a tree, or of the working tree: none without a mode.
type entry struct{ mode, id string }

// Modes of entries in trees of git.
const (
	plainMode   = "100644"
	execMode    = "100755"
	symlinkMode = "120000"
	// otherMode stands for what no tree has: a directory in the place of a file, a pipe, a way through a link.
	otherMode = "other"
)

// change is a path with what it was before the run, and after it.
type change struct {
	path        string
	was, became entry
}

// changes are those of the run since a commit.
func (r *Result) changes(ctx context.Context, base string) ([]change, error) {
	if !fullID.MatchString(base) {
		return nil, fmt.Errorf("commit %q: want a whole id: %w", short(base), ErrName)
	}
	out, err := r.g.run(ctx, call{args: []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base,
		r.ref.ID, "--"}, gitDir: r.dir, env: r.env})
	if err != nil {
		return nil, err
	}
	var list []change
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("changes of the run: git printed %q: %w", short(fields[i]), ErrProtocol)
		}
		c := change{path: fields[i+1], was: entryOf(f[0], f[2]), became: entryOf(f[1], f[3])}
		if !safe(c.path) {
			return nil, fmt.Errorf("changes of the run: path %q: %w", short(c.path), ErrHostile)
		}
		if c.was.mode == "" && r.keeps != nil && r.keeps(c.path) {
			continue
		}
		list = append(list, c)
	}
	return list, nil
}

func entryOf(mode, id string) entry {
	if strings.Trim(mode, "0") == "" {
		return entry{}
	}
	return entry{mode, id}
}

// safe reports whether a path of a tree that somebody else made may be written: it leaves the tree nowhere, and is no
// part of a repository.
func safe(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		plain := strings.Map(func(c rune) rune {
			if c >= 0x200c && c <= 0x200f || c >= 0x202a && c <= 0x202e || c >= 0x206a && c <= 0x206f || c == 0xfeff {
				return -1 // some file systems do not see these
			}
			return c
		}, name)
		if strings.EqualFold(plain, ".git") || strings.EqualFold(plain, "git~1") {
			return false
		}
	}
	return filepath.IsLocal(filepath.FromSlash(p)) && path.Clean(p) == p
}

// undoer changes files back.
type undoer struct {
	r     *Result
	root  *os.Root
	force bool
	// gone are the paths that go away.
	gone  map[string]bool
	steps []undoStep
}

// undoStep is a file to be changed: now is what it was when that was decided, to what it becomes with text.
type undoStep struct {
	path    string
	now, to entry
	text    []byte
}

// plan decides about all files and changes none.
func (w *undoer) plan(ctx context.Context, changes []change, u *Undone) error {
	w.gone = map[string]bool{}
	for _, c := range changes {
		w.gone[c.path] = c.was.mode == ""
	}
	var open []found
	var ids []string
	for _, c := range changes {
		now, text, err := w.look(c.path)
		if err != nil {
			return err
		}
		if now == c.was || now != c.became && now.mode == c.was.mode && w.r.blobID(unixLines(text)) == c.was.id {
			u.Already = append(u.Already, c.path)
			continue
		}
		f := found{c, now, text}
		if open = append(open, f); f.merges() {
			ids = append(ids, c.became.id)
		}
		if c.was.kept() && c.was.mode != "" {
			ids = append(ids, c.was.id)
		}
	}
	blobs, err := w.r.blobs(ctx, ids)
	if err != nil {
		return err
	}
	var changed []string
	for _, f := range open {
		ok, err := w.decide(ctx, f, blobs, u)
		if err != nil {
			return err
		}
		if !ok {
			changed = append(changed, f.path)
		}
	}
	if len(changed) > 0 {
		*u, w.steps = Undone{}, nil
		return &ChangedError{changed}
	}
	return nil
}

// found is a change with what is at its path now.
type found struct {
	change
	now  entry
	text []byte
}

// merges reports whether somebody changed the file since, in a way that may leave the run's change to be taken out.
func (f found) merges() bool {
	return f.now != f.became && f.now.file() && f.was.file() && f.became.file()
}

// decide says what becomes of a file that is not as before the run; ok is false where it must stay.
func (w *undoer) decide(ctx context.Context, f found, blobs map[string][]byte, u *Undone) (ok bool, err error) {
	s := undoStep{path: f.path, now: f.now, to: f.was, text: blobs[f.was.id]}
	merged := f.now == f.became && f.was.kept()
	if f.merges() {
		var text []byte
		text, merged, err = w.r.without(ctx, f.text, blobs[f.became.id], s.text)
		if err != nil {
			return false, err
		}
		if merged {
			s.text = text
		}
		if merged && w.r.blobID(text) == f.now.id && f.was.mode == f.now.mode {
			u.Already = append(u.Already, f.path)
			return true, nil
		}
	}
	if !merged && (!w.force || f.now.mode == otherMode || !f.was.kept()) {
		return false, nil
	}
	if !merged {
		u.Overwritten = append(u.Overwritten, f.path)
	}
	u.Back, w.steps = append(u.Back, f.path), append(w.steps, s)
	return true, nil
}

// kept reports whether the content of an entry can be put back: that of a submodule is not ours.
func (e entry) kept() bool { return e.mode == "" || e.file() || e.mode == symlinkMode }

func (e entry) file() bool { return e.mode == plainMode || e.mode == execMode }

// look gives what is at a path. A directory with nothing but files that go away is none. What goes away is gone where a
// directory is in its place, and where a file or a link is in that of a directory above it.
func (w *undoer) look(p string) (e entry, text []byte, err error) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		info, err := w.root.Lstat(dir)
		if err == nil && !info.IsDir() {
			if w.gone[dir] || w.gone[p] {
				return entry{}, nil, nil
			}
			return entry{mode: otherMode}, nil, nil
		}
	}
	info, err := w.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return entry{}, nil, nil
	case err != nil:
		return e, nil, err
	case info.IsDir():
		empty, err := w.empties(p)
		if err != nil || empty || w.gone[p] {
			return entry{}, nil, err
		}
		return entry{mode: otherMode}, nil, nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := w.root.Readlink(p)
		return entry{symlinkMode, w.r.blobID([]byte(to))}, []byte(to), err
	case !info.Mode().IsRegular():
		return entry{mode: otherMode}, nil, nil
	}
	if text, err = w.root.ReadFile(p); err != nil {
		return e, nil, err
	}
	mode := plainMode
	if info.Mode()&0o100 != 0 {
		mode = execMode
	}
	return entry{mode, w.r.blobID(text)}, text, nil
}

// empties reports whether a directory has nothing but files that go away.
func (w *undoer) empties(dir string) (bool, error) {
	empty := true
	err := fs.WalkDir(w.root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !w.gone[p] {
			empty = false
			return fs.SkipAll
		}
		return err
	})
	return empty, err
}

// without takes the change between two texts, from was to became, out of one that has others, too. ok is false where
// they are at the same places.
func (r *Result) without(ctx context.Context, text, became, was []byte) (merged []byte, ok bool, err error) {
	if windows := bytes.Count(text, []byte("\r\n")); windows > 0 && windows == bytes.Count(text, []byte("\n")) &&
		!bytes.ContainsRune(became, '\r') && !bytes.ContainsRune(was, '\r') { // as core.autocrlf has it
		was, became = windowsLines(was), windowsLines(became)
	}
	dir, err := os.MkdirTemp(r.dir, "undo-")
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{"merge-file", "-p", "-q", "--"}
	for i, b := range [][]byte{text, became, was} {
		at := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(at, b, 0o600); err != nil {
			return nil, false, err
		}
		args = append(args, at)
	}
	var out bytes.Buffer
	_, err = r.g.run(ctx, call{args: args, gitDir: r.dir, stdout: &out, limit: maxUndo})
	if e, failed := errors.AsType[*Error](err); failed && e.Exit > 0 {
		return nil, false, nil // conflicts, or no text
	}
	return out.Bytes(), err == nil, err
}

// maxUndo bounds what is read to change files back, in bytes.
const maxUndo = 1 << 30

// blobs reads contents.
func (r *Result) blobs(ctx context.Context, ids []string) (map[string][]byte, error) {
	all := map[string][]byte{}
	if len(ids) == 0 {
		return all, nil
	}
	var out bytes.Buffer
	if _, err := r.g.run(ctx, call{args: []string{"cat-file", "--batch"}, gitDir: r.dir, env: r.env,
		stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"), stdout: &out, limit: maxUndo}); err != nil {
		return nil, err
	}
	for _, want := range ids {
		line, err := out.ReadString('\n')
		var name string
		var size int
		if _, e := fmt.Sscanf(line, "%s blob %d", &name, &size); err != nil || e != nil || name != want || size < 0 ||
			size >= out.Len() {
			return nil, fmt.Errorf("content %s of a file before the run: git printed %q: %w", want, short(line), ErrDamaged)
		}
		all[want] = bytes.Clone(out.Next(size))
		out.Next(1)
	}
	return all, nil
}

// write changes the first so many files: first it removes, so that a file may take the place of a directory and the
// other way round.
func (w *undoer) write(most int) error {
	sort.SliceStable(w.steps, func(i, j int) bool { return w.steps[i].to.mode < w.steps[j].to.mode })
	for _, s := range w.steps[:most] {
		now, _, err := w.look(s.path)
		if err == nil && now != s.now {
			err = errors.New("it was changed in this moment")
		}
		if err == nil {
			err = w.put(s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w (what was changed back before it stays so: do it again to go on)", short(s.path), err)
		}
	}
	return nil
}

// put makes a file what it becomes.
func (w *undoer) put(s undoStep) error {
	dir := path.Dir(s.path)
	if s.to.mode == "" {
		if err := w.root.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for ; dir != "."; dir = path.Dir(dir) {
			if w.root.Remove(dir) != nil {
				break // something is in it
			}
		}
		return nil
	}
	if err := w.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := w.clear(s.path); err != nil {
		return err
	}
	aside := path.Join(dir, ".inspan-undo-"+w.r.blobID([]byte(s.path))) // the same one when it is done again
	if err := w.root.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := w.aside(aside, s)
	if err == nil {
		err = w.root.Rename(aside, s.path)
	}
	if err != nil {
		return errors.Join(err, w.root.Remove(aside))
	}
	return nil
}

// clear removes the empty directories in the place of a file.
func (w *undoer) clear(p string) error {
	info, err := w.root.Lstat(p)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nothing is in its place
	}
	var dirs []string
	err = fs.WalkDir(w.root.FS(), p, func(at string, d fs.DirEntry, err error) error {
		dirs = append(dirs, at)
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		if err == nil {
			err = w.root.Remove(dir)
		}
	}
	return err
}

// aside writes a file beside its place, with the mode that it had but for its execute bits.
func (w *undoer) aside(name string, s undoStep) error {
	if s.to.mode == symlinkMode {
		return w.root.Symlink(string(s.text), name)
	}
	mode := fs.FileMode(0o666) // the umask decides
	if s.to.mode == execMode {
		mode = 0o777
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if info, e := w.root.Lstat(s.path); e == nil && info.Mode().IsRegular() {
		perm := info.Mode().Perm() &^ 0o111
		if s.to.mode == execMode {
			perm |= perm & 0o444 >> 2
		}
		err = f.Chmod(perm)
	}
	_, e := io.Copy(f, bytes.NewReader(s.text))
	return errors.Join(err, e, f.Sync(), f.Close())
}

// blobID is the name that git has for the content of a file, by the hash that the repository's ids are of.
func (r *Result) blobID(text []byte) string {
	hash := sha1.New() //nolint:gosec // as above
	if len(r.ref.ID) == 2*sha256.Size {
		hash = sha256.New()
	}
	fmt.Fprintf(hash, "blob %d\x00", len(text))
	_, _ = hash.Write(text) // which never fails
	return hex.EncodeToString(hash.Sum(nil))
}

// unixLines is a text as git stores it where the person has core.autocrlf set.
func unixLines(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

func windowsLines(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")) }
