package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// rebuild writes a snapshot aside and puts it in place of the tree.
func (k *Keeper) rebuild(ctx context.Context, id string) error {
	tree := k.cfg.Tree
	// Ignore the tree, so that it can be put in its place. The name is always the same: what a crash left is removed
	// here.
	aside := filepath.Join(filepath.Dir(tree), "."+filepath.Base(tree)+".inspan-restore")
	if err := RemoveAll(aside); err != nil {
		return err
	}
	mode := fs.FileMode(0o755)
	if info, err := os.Stat(tree); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	b := &builder{limits: k.g.cfg.Limits}
	err := b.build(ctx, k, id, aside)
	if err == nil {
		err = os.Chmod(aside, mode)
	}
	if err == nil {
		err = swap(aside, tree)
	}
	if err != nil {
		return errors.Join(err, RemoveAll(aside))
	}
	k.cache = b.seen
	return errors.Join(writeCache(k.at("cache"), k.cache), RemoveAll(aside))
}

// maxListing bounds the list of the files of a snapshot, in bytes: more than Limits.Files paths of 2 KiB take. What
// could be kept must be restored.
const maxListing = 1 << 30

// builder writes the files of a snapshot below a root.
type builder struct {
	limits Limits
	root   *os.Root
	dir    *os.Root // the one at, which files are written in; nil for none
	at     string
	files  []item
	next   int // of files, whose content comes
	seen   map[string]stat

	head  []byte   // of the line that announces a content
	left  int64    // bytes of the content that are still to come; -1 while a line is read
	out   *os.File // nil for a link
	link  []byte
	links []item // with their targets as id: they are made last, so that nothing is written through one
}

func (b *builder) build(ctx context.Context, k *Keeper, id, aside string) (err error) {
	var list bytes.Buffer
	_, err = k.git(ctx, call{args: []string{"ls-tree", "-r", "-t", "-l", "-z", "--full-tree", id}, stdout: &list,
		limit: maxListing})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if b.root, err = os.OpenRoot(aside); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.leaveDir(), b.root.Close()) }()
	ids, err := b.plan(list.String())
	if err != nil {
		return err
	}
	b.seen, b.left = map[string]stat{}, -1
	if len(b.files) > 0 {
		_, err = k.git(ctx, call{args: []string{"cat-file", "--batch", "--buffer"}, stdin: strings.NewReader(ids), stdout: b,
			limit: 1 << 62})
		if err := errors.Join(err, b.abandon()); err != nil {
			return err
		}
	}
	if b.next != len(b.files) || b.left != -1 {
		return fmt.Errorf("received %d of %d files: %w", b.next, len(b.files), ErrDamaged)
	}
	for _, l := range b.links {
		if err := b.root.Symlink(l.stat.ID, l.path); err != nil {
			return fmt.Errorf("link %q: %w", l.path, err)
		}
	}
	return nil
}

// plan checks a listing, makes the directories, and gives the ids of what must be read, in order.
func (b *builder) plan(list string) (string, error) {
	var ids strings.Builder
	var sum int64
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		meta, key, ok := strings.Cut(entry, "\t")
		f := strings.Fields(meta)
		if entry == "" {
			continue
		}
		if !ok || len(f) != 4 {
			return "", fmt.Errorf("entry %q of a snapshot: %w", short(entry), ErrDamaged)
		}
		at, marker, err := decodePath(key)
		if err != nil {
			return "", err
		}
		switch {
		case marker:
			continue // its directory was listed before
		case f[0] == "040000" && f[1] == "tree":
			if err := b.root.Mkdir(at, 0o755); err != nil {
				return "", fmt.Errorf("directory %q: %w: %w", at, err, ErrDamaged)
			}
			continue
		case f[1] != "blob" || f[0] != "100644" && f[0] != "100755" && f[0] != "120000":
			return "", fmt.Errorf("%q has the kind %s: %w", at, f[0], ErrDamaged)
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return "", fmt.Errorf("size of %q: %w: %w", at, err, ErrDamaged)
		}
		sum += size
		if b.files = append(b.files, item{path: at, mode: f[0], stat: stat{Size: size,
			ID: f[2]}}); len(b.files) > b.limits.Files || sum > b.limits.Bytes {
			return "", fmt.Errorf("the snapshot has more than %d files or %d bytes: %w (raise the limits)", b.limits.Files,
				b.limits.Bytes, ErrTooLarge)
		}
		ids.WriteString(f[2] + "\n")
	}
	return ids.String(), nil
}

func decodePath(key string) (at string, marker bool, err error) {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		if p == empty && i == len(parts)-1 && i > 0 {
			return "", true, nil
		}
		if parts[i], err = decode(p); err != nil {
			return "", false, err
		}
	}
	return filepath.Join(parts...), false, nil
}

// Write takes the output of cat-file --batch: a line with id, kind and size, the content, and the end of a line.
func (b *builder) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		if b.left < 0 {
			end := bytes.IndexByte(p, '\n')
			if end < 0 {
				if b.head = append(b.head, p...); len(b.head) > maxPointer {
					return 0, ErrDamaged
				}
				break
			}
			b.head = append(b.head, p[:end]...)
			p = p[end+1:]
			if err := b.begin(); err != nil {
				return 0, err
			}
			continue
		}
		n := min(int64(len(p)), b.left)
		if err := b.content(p[:n]); err != nil {
			return 0, err
		}
		p, b.left = p[n:], b.left-n
		if b.left == 0 && len(p) > 0 {
			p, b.left = p[1:], -1 // the end of the line behind the content
			if err := b.finish(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// begin opens the file that a line announces.
func (b *builder) begin() error {
	f := strings.Fields(string(b.head))
	b.head = b.head[:0]
	if b.next >= len(b.files) || len(f) != 3 || f[1] != "blob" || f[0] != b.files[b.next].stat.ID ||
		f[2] != strconv.FormatInt(b.files[b.next].stat.Size, 10) {
		return fmt.Errorf("content %d of %d differs from what was announced: %w", b.next+1, len(b.files), ErrDamaged)
	}
	it := b.files[b.next]
	b.left = it.stat.Size
	if it.mode == "120000" {
		if it.stat.Size > maxPointer {
			return fmt.Errorf("link %q has a target of %d bytes: %w", it.path, it.stat.Size, ErrDamaged)
		}
		b.link = b.link[:0]
		return nil
	}
	perm := fs.FileMode(0o644)
	if it.mode == "100755" {
		perm = 0o755
	}
	in, err := b.in(filepath.Dir(it.path))
	if err != nil {
		return err
	}
	b.out, err = in.OpenFile(filepath.Base(it.path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	return err
}

// in is a directory that files are written in. The last one stays open: the files of a directory come one after the
// other.
func (b *builder) in(dir string) (*os.Root, error) {
	if b.dir != nil && b.at == dir {
		return b.dir, nil
	}
	if err := b.leaveDir(); err != nil {
		return nil, err
	}
	next, err := b.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	b.dir, b.at = next, dir
	return next, nil
}

func (b *builder) leaveDir() error {
	if b.dir == nil {
		return nil
	}
	err := b.dir.Close()
	b.dir = nil
	return err
}

func (b *builder) content(p []byte) error {
	if b.out == nil {
		b.link = append(b.link, p...)
		return nil
	}
	_, err := b.out.Write(p)
	return err
}

// finish closes a file, or remembers a link.
func (b *builder) finish() error {
	it := b.files[b.next]
	b.next++
	if b.out == nil {
		it.stat.ID = string(b.link)
		b.links = append(b.links, it)
		return nil
	}
	out := b.out
	b.out = nil
	info, err := out.Stat()
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	s := statOf(info, time.Now().UnixNano())
	s.ID = it.stat.ID
	b.seen[it.path] = s
	return nil
}

// abandon closes a file that was not finished.
func (b *builder) abandon() error {
	if b.out == nil {
		return nil
	}
	return b.out.Close()
}

// RemoveAll is os.RemoveAll that also removes directories that were made unreadable to their owner.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // RemoveAll says what is still wrong
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// replace puts aside in place of tree by two renames, for systems that cannot exchange.
func replace(aside, tree string) error {
	old := aside + ".old"
	if err := RemoveAll(old); err != nil {
		return err
	}
	err := os.Rename(tree, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := err == nil
	if err := os.Rename(aside, tree); err != nil {
		if there {
			err = errors.Join(err, os.Rename(old, tree))
		}
		return err
	}
	return RemoveAll(old)
}
