package checks

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/workspace/workdir"
)

// Limits of a tree that is checked.
const (
	MaxFiles = 200_000
	MaxBytes = 8 << 30
	// maxNamed is how many paths that were left out are named.
	maxNamed = 5
)

// copies is where the copies are, below the workspace root, and staleAfter when one that a lost toolrunner left is
// removed.
const (
	copies     = "check"
	staleAfter = 12 * time.Hour
)

// ErrTree means that the files of a workspace cannot be checked as they are.
var ErrTree = errors.New("the files of the workspace cannot be checked")

// tree is a copy of the files of a workspace.
type tree struct {
	// dir is its path below the workspace root, digest the SHA-256 of what is in it.
	dir, digest string
	// git is the tree that a commit of it has, empty where the run does not work in git.
	git string
	// note says what was left out, left are the paths.
	note string
	left []string
}

// copyTree copies the files of a workspace into a new directory, and takes their digest from the bytes that it writes:
// what changes meanwhile is in both or in neither. Directories of git are left out, because their settings run programs
// and are not among what the agent has made; so are the files of the harness, which it writes also while checks are
// carried out, what is no file, directory or link, and links that lead out.
func copyTree(ctx context.Context, root, from string) (t tree, err error) {
	t.dir = path.Join(copies, strings.ToLower(rand.Text()))
	src, err := workdir.Open(root, from)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := workdir.Open(root, t.dir)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	place, _, err := workdir.PlaceOf(root, from)
	if err != nil {
		return t, err
	}
	c := &copier{ctx: ctx, src: src, dst: dst, sum: sha256.New(), denied: place.Denied}
	if err := fs.WalkDir(src.FS(), ".", c.entry); err != nil {
		return t, err
	}
	t.digest = hex.EncodeToString(c.sum.Sum(nil))
	if t.left = c.left; len(c.left) > 0 {
		t.note = fmt.Sprintf("left out of the check, because they lead out of the workspace or are no files: %s",
			strings.Join(quoted(c.left[:min(len(c.left), maxNamed)]), ", "))
		if more := len(c.left) - maxNamed; more > 0 {
			t.note += fmt.Sprintf(" and %d more", more)
		}
	}
	return t, nil
}

// copier copies one tree.
type copier struct {
	ctx      context.Context //nolint:containedctx // of one walk
	src, dst *os.Root
	sum      hash.Hash
	files    int
	bytes    int64
	left     []string
	// denied are paths that the agents could not see either.
	denied []string
}

func (c *copier) entry(name string, e fs.DirEntry, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTree, err)
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if name == "." {
		return nil
	}
	if e.Name() == ".git" || gitwork.IsOwn(name) || slices.Contains(c.denied, name) {
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if c.files++; c.files > MaxFiles {
		return fmt.Errorf("%w: there are more than %d", ErrTree, MaxFiles)
	}
	switch e.Type() {
	case fs.ModeDir:
		fmt.Fprintf(c.sum, "dir %q\n", name)
		return c.dst.Mkdir(filepath.FromSlash(name), 0o755)
	case fs.ModeSymlink:
		return c.link(name)
	case 0:
		return c.file(name)
	default:
		c.leave(name)
		return nil
	}
}

func (c *copier) leave(name string) {
	fmt.Fprintf(c.sum, "left out %q\n", name)
	c.left = append(c.left, name)
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, fmt.Sprintf("%.200q", name))
	}
	return all
}

func (c *copier) link(name string) error {
	to, err := c.src.Readlink(filepath.FromSlash(name))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTree, err)
	}
	if !staysIn(name, filepath.ToSlash(to)) {
		c.leave(name)
		return nil
	}
	fmt.Fprintf(c.sum, "link %q %q\n", name, to)
	return c.dst.Symlink(to, filepath.FromSlash(name))
}

// staysIn reports whether a link leads to a place in the tree, whatever the other links in it are: nothing may go up
// behind a part that could be a link itself.
func staysIn(name, to string) bool {
	if path.IsAbs(to) || filepath.IsAbs(to) {
		return false
	}
	down := false
	for part := range strings.SplitSeq(to, "/") {
		if part == ".." && down {
			return false
		}
		down = down || part != ".." && part != "." && part != ""
	}
	return filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), to)))
}

func (c *copier) file(name string) (err error) {
	local := filepath.FromSlash(name)
	// A pipe that took the place of the file is not waited for.
	in, err := c.src.OpenFile(local, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTree, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTree, err)
	}
	if !info.Mode().IsRegular() {
		c.leave(name)
		return nil
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	out, err := c.dst.OpenFile(local, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	own := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, own), io.LimitReader(in, MaxBytes-c.bytes+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if c.bytes += n; c.bytes > MaxBytes {
		return fmt.Errorf("%w: they have more than %d bytes", ErrTree, int64(MaxBytes))
	}
	fmt.Fprintf(c.sum, "file %o %q %x\n", mode, name, own.Sum(nil))
	return nil
}

// drop removes a copy with its cache, and what toolrunners that were lost have left.
func (c *Checker) drop(t tree) {
	for _, root := range []string{c.cfg.Sandboxes.Root(), c.cfg.Sandboxes.Cache()} {
		if root != "" {
			dropTree(root, t.dir, time.Now())
		}
	}
}

// dropTree removes a copy, and what toolrunners that were lost have left.
func dropTree(root, dir string, now time.Time) {
	at, err := workdir.Open(root, copies)
	if err != nil {
		return
	}
	defer func() { _ = at.Close() }()
	if dir != "" {
		_ = at.RemoveAll(path.Base(dir))
	}
	old, err := fs.ReadDir(at.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range old {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > staleAfter {
			_ = at.RemoveAll(e.Name())
		}
	}
}
