package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// KeepConfig says what a Keeper keeps.
type KeepConfig struct {
	// Tree is the working tree, Store a directory of ours outside of it and out of every sandbox's sight. What is in
	// the Store can be made again: without it the next snapshot is a whole one.
	Tree, Store string
	// Skip are paths from the top of the tree, with slashes, that are left out with all below them.
	Skip []string
	// SkipIgnored leaves out what the .gitignore files of the repository name, such as what a build made.
	SkipIgnored bool
}

// Keeper takes snapshots of one working tree and restores them. Kept are the content of files and whether they can be
// executed, links as links, empty directories, and .git with the rest: its index, HEAD, branches, stashes and what is
// under way. Not kept are owners, times, other permissions, hard links as such, sockets, pipes and devices.
type Keeper struct {
	g     *Git
	cfg   KeepConfig
	cache map[string]stat
	last  string // the snapshot that this Keeper took last: it is in the store
	// repackAt is how many packs a store may have before it is packed anew.
	repackAt int
}

// Snapshot is the content of a working tree at one time.
type Snapshot struct {
	// ID names the content: equal trees have equal ids, wherever and whenever they were taken.
	ID string
	// Parent is the snapshot that the pack builds on, empty for a whole one.
	Parent string
	// Files, links included, and their Bytes in the whole tree; Read is how many files had to be read.
	Files int
	Bytes int64
	Read  int
	// Left are paths that cannot be kept: sockets, pipes and devices. At most 20, More counts the others.
	Left []string
	More int
}

// Pack is what must be kept of a snapshot beside its parent's packs. Close removes it.
type Pack struct {
	*os.File
	// Size in bytes, SHA256 in hex.
	Size   int64
	SHA256 string
}

// Close removes the pack.
func (p *Pack) Close() error {
	return errors.Join(p.File.Close(), os.Remove(p.Name()))
}

const (
	repackAt = 40 // packs in a store
	keysLeft = 20
)

// Keep opens the store of a working tree and makes it if it is not there.
func (g *Git) Keep(cfg KeepConfig) (*Keeper, error) {
	for _, dir := range []*string{&cfg.Tree, &cfg.Store} {
		if !filepath.IsAbs(*dir) {
			return nil, fmt.Errorf("snapshot %q: want an absolute path: %w", *dir, ErrName)
		}
		*dir = filepath.Clean(*dir)
	}
	if within(cfg.Store, cfg.Tree) || within(cfg.Tree, cfg.Store) {
		return nil, fmt.Errorf("snapshot %s into %s: one is inside the other: %w (choose another store)", cfg.Tree,
			cfg.Store, ErrName)
	}
	k := &Keeper{g: g, cfg: cfg, repackAt: repackAt}
	if err := k.make(); err != nil {
		return nil, err
	}
	k.cache = readCache(k.at("cache"))
	return k, nil
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func (k *Keeper) at(name string) string { return filepath.Join(k.cfg.Store, name) }

// storeConfig is that of a bare repository whose ids are SHA-256. Git packs fast in it: somebody waits for each
// snapshot.
const storeConfig = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n" +
	"[pack]\n\tcompression = 1\n"

// make makes a store that is not there. What git init does is as much; HEAD comes last, so that a half one is made
// again.
func (k *Keeper) make() error {
	if _, err := os.Stat(k.at("git/HEAD")); err == nil {
		return os.MkdirAll(k.at("out"), 0o700)
	}
	for _, dir := range []string{"out", "git/objects/info", "git/objects/pack", "git/refs/heads"} {
		if err := os.MkdirAll(k.at(dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(k.at("git/config"), []byte(storeConfig), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(k.at("git/HEAD.new"), []byte("ref: refs/heads/none\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(k.at("git/HEAD.new"), k.at("git/HEAD"))
}

// Forget empties the store.
func (k *Keeper) Forget() error {
	k.cache, k.last = nil, ""
	if err := os.RemoveAll(k.cfg.Store); err != nil {
		return err
	}
	return k.make()
}

func (k *Keeper) git(ctx context.Context, c call) (string, error) {
	c.gitDir, c.bound = k.at("git"), true
	return k.g.run(ctx, c)
}

// Has reports whether the store has a snapshot, so that others can build on it.
func (k *Keeper) Has(ctx context.Context, id string) (bool, error) {
	if len(id) != 64 || !fullID.MatchString(id) {
		return false, fmt.Errorf("snapshot %q: want 64 hex digits: %w", short(id), ErrName)
	}
	a, err := k.g.exec(ctx, call{args: []string{"cat-file", "-e", id + "^{tree}"}, gitDir: k.at("git"),
		fine: []int{1, 128}})
	return err == nil && a.code == 0, err
}

// Snapshot keeps the working tree as it is. The pack holds what the parent has not; with an empty parent, or one that
// the store does not know, it holds all, and Snapshot.Parent says so. It is nil where nothing changed since the parent.
// The caller closes it. A store that was damaged is made anew.
func (k *Keeper) Snapshot(ctx context.Context, parent string) (Snapshot, *Pack, error) {
	s, p, err := k.snapshot(ctx, parent)
	var e *Error
	if errors.As(err, &e) && e.Kind == nil && ctx.Err() == nil {
		if forgot := k.Forget(); forgot != nil {
			return s, nil, errors.Join(err, forgot)
		}
		return k.snapshot(ctx, "")
	}
	return s, p, err
}

func (k *Keeper) snapshot(ctx context.Context, parent string) (Snapshot, *Pack, error) {
	s := Snapshot{Parent: parent}
	if parent != "" && parent != k.last {
		has, err := k.Has(ctx, parent)
		if err != nil {
			return s, nil, err
		}
		if !has {
			s.Parent = ""
		}
	}
	w, err := k.walk(ctx)
	if err != nil {
		return s, nil, fmt.Errorf("snapshot %s: %w", k.cfg.Tree, err)
	}
	defer w.close()
	if s.ID, err = k.load(ctx, w, s.Parent); err != nil {
		return s, nil, fmt.Errorf("snapshot %s: %w", k.cfg.Tree, err)
	}
	s.Files, s.Bytes, s.Read, s.Left, s.More = w.files, w.bytes, w.read, w.left, w.more
	k.cache, k.last = w.seen, s.ID
	if err := writeCache(k.at("cache"), k.cache); err != nil {
		return s, nil, err
	}
	if s.ID == s.Parent {
		return s, nil, nil
	}
	p, err := k.pack(ctx, s)
	if err == nil {
		err = k.tidy(ctx)
	}
	if err != nil && p != nil {
		err = errors.Join(err, p.Close())
		p = nil
	}
	return s, p, err
}

// load gives git what is new, and the tree as a commit on top of one of the parent's tree: git then knows what to
// describe by its difference to the parent. It gives the id of the tree.
func (k *Keeper) load(ctx context.Context, w *walk, parent string) (string, error) {
	marks := k.at("marks")
	if err := os.Remove(marks); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	r, feed := io.Pipe()
	done := make(chan error, 1) // the one who writes says why it ended
	go func() {
		err := w.feed(feed, parent)
		_ = feed.CloseWithError(err) // always nil
		done <- err
	}()
	out, err := k.git(ctx, call{args: []string{"fast-import", "--quiet", "--force", "--done", "--depth=0",
		"--date-format=raw", "--export-marks=" + marks}, stdin: r})
	_ = r.Close() // lets the writer go if git ended first
	if fed := <-done; fed != nil && !errors.Is(fed, io.ErrClosedPipe) {
		return "", fed
	}
	if err != nil {
		return "", err
	}
	id, ok := strings.CutPrefix(strings.TrimSpace(out), "040000 tree ")
	if !ok || !fullID.MatchString(id) {
		return "", fmt.Errorf("git fast-import: unexpected line %s", strconv.QuoteToASCII(short(out)))
	}
	return id, w.learn(marks)
}

// pack writes what the snapshot has and its parent has not.
func (k *Keeper) pack(ctx context.Context, s Snapshot) (*Pack, error) {
	f, err := os.CreateTemp(k.at("out"), "pack-")
	if err != nil {
		return nil, err
	}
	p := &Pack{File: f}
	revs, args := "refs/snap/new\n", []string{"pack-objects", "--quiet", "--revs", "--stdout", "--delta-base-offset"}
	if s.Parent != "" {
		revs += "^refs/snap/base\n"
		args = append(args, "--thin")
	} else {
		args = append(args, "--window=0")
	}
	sum := sha256.New()
	_, err = k.git(ctx, call{args: args, stdin: strings.NewReader(revs), stdout: io.MultiWriter(f, sum),
		limit: k.g.cfg.Limits.Pack})
	if err == nil {
		p.Size, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// tidy keeps the store small: of the snapshots the last and its parent stay.
func (k *Keeper) tidy(ctx context.Context) error {
	packs, err := filepath.Glob(filepath.Join(k.at("git"), "objects", "pack", "*.pack"))
	if err != nil || len(packs) < k.repackAt {
		return err
	}
	_, err = k.git(ctx, call{args: []string{"repack", "-a", "-d", "-q"}})
	return err
}

// Restore makes the working tree what it was at a snapshot, from the packs of its chain that the store does not have,
// oldest first. All is written aside and checked, then put in place of the tree at once: on an error the tree is as it
// was. A pack that is cut off, changed, missing or of another chain is ErrDamaged.
func (k *Keeper) Restore(ctx context.Context, id string, packs ...io.Reader) error {
	if len(id) != 64 || !fullID.MatchString(id) {
		return fmt.Errorf("snapshot %q: want 64 hex digits: %w", short(id), ErrName)
	}
	for i, p := range packs {
		if err := k.take(ctx, p); err != nil {
			return fmt.Errorf("restore %s: pack %d of %d: %w", k.cfg.Tree, i+1, len(packs), err)
		}
	}
	if has, err := k.Has(ctx, id); err != nil || !has {
		return errors.Join(err, fmt.Errorf("restore %s: snapshot %.12s is in none of the packs: %w (give all packs of its chain)", k.cfg.Tree, id, ErrDamaged))
	}
	if err := k.rebuild(ctx, id); err != nil {
		return fmt.Errorf("restore %s: %w", k.cfg.Tree, err)
	}
	return nil
}

// take puts one pack into the store, if it is whole.
func (k *Keeper) take(ctx context.Context, p io.Reader) error {
	limit := k.g.cfg.Limits.Pack
	failing := &noted{from: p}
	_, err := k.git(ctx, call{args: []string{"index-pack", "--stdin", "--fix-thin", "--fsck-objects",
		"--max-input-size=" + strconv.FormatInt(limit, 10)}, stdin: failing})
	switch {
	case failing.err != nil:
		return fmt.Errorf("read it: %w", failing.err)
	case err == nil:
		return nil
	}
	err = cutOff(err, filepath.Join(k.at("git"), "objects", "pack"), limit)
	var e *Error
	if errors.As(err, &e) && strings.Contains(e.Detail, "maximum allowed size") {
		return fmt.Errorf("more than %d bytes: %w (raise the limit)", limit, ErrTooLarge)
	}
	if e != nil && e.Kind == nil {
		return fmt.Errorf("%w (read it from the store again, or restore the previous snapshot): %w", ErrDamaged, err)
	}
	return err
}

// noted keeps the error of a reader, which the program at the other end does not tell.
type noted struct {
	from io.Reader
	err  error
}

func (n *noted) Read(p []byte) (int, error) {
	c, err := n.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return c, err
}

// quote is a path as fast-import reads it.
func quote(b *bytes.Buffer, path string) {
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}
