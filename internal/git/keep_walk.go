package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// empty is the name that keeps a directory without files. No other name is encoded to it.
const empty = "-"

// encode makes the name by which a store knows a file: none of them means anything to git or to a file system.
func encode(name string) string {
	return "=" + strings.NewReplacer("%", "%25", `\`, "%5c").Replace(name)
}

// decode is the other way. Names that encode does not make are ErrDamaged.
func decode(name string) (string, error) {
	plain, ok := strings.CutPrefix(name, "=")
	got := strings.NewReplacer("%25", "%", "%5c", `\`).Replace(plain)
	if !ok || got == "" || got == "." || got == ".." || strings.ContainsAny(got, "/\x00") || encode(got) != name {
		return "", fmt.Errorf("name %q in a snapshot: %w", short(name), ErrDamaged)
	}
	return got, nil
}

// stat is what a file was when its content was last read, and the content's id.
type stat struct {
	Size, MTime, CTime, Taken int64
	Ino                       uint64
	Mode                      uint32
	ID                        string
}

// racy is how long before a look a file must have been left alone for its times to tell of every change since.
const racy = int64(time.Second)

// same reports whether a file is as it was, so that it need not be read.
func (s stat) same(now stat) bool {
	return s.ID != "" && s.Size == now.Size && s.MTime == now.MTime && s.CTime == now.CTime && s.Ino == now.Ino &&
		s.Mode == now.Mode &&
		s.CTime+racy < s.Taken && s.MTime+racy < s.Taken
}

func statOf(info fs.FileInfo, taken int64) stat {
	s := stat{Size: info.Size(), MTime: info.ModTime().UnixNano(), CTime: taken, Mode: uint32(info.Mode()), Taken: taken}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Ino, s.CTime = sys.Ino, changed(sys)
	}
	return s
}

// item is one file of a tree.
type item struct {
	path string // in the tree
	key  string // in the store
	mode string // git's
	stat stat
	mark int // of its content in this import, 0 where its id is known
}

// walk is one look at a working tree.
type walk struct {
	ctx   context.Context // of the one call that this look lasts
	k     *Keeper
	root  *os.Root
	skip  map[string]bool
	items []item
	seen  map[string]stat

	files, read, more int
	bytes             int64
	left              []string
}

// walk lists the tree without reading files.
func (k *Keeper) walk(ctx context.Context) (*walk, error) {
	w := &walk{ctx: ctx, k: k, skip: map[string]bool{}, seen: map[string]stat{}}
	for _, s := range k.cfg.Skip {
		w.skip[path.Clean(s)] = true
	}
	if k.cfg.SkipIgnored {
		if err := w.ignored(); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(k.cfg.Tree)
	if err != nil {
		return nil, err
	}
	w.root = root
	if err := w.dir(".", ""); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return w, nil
}

func (w *walk) close() { _ = w.root.Close() } // it was only read

// ignored asks the repository what it ignores. A tree that is none ignores nothing.
func (w *walk) ignored() error {
	r, err := w.k.g.Open(w.ctx, w.k.cfg.Tree)
	if errors.Is(err, ErrNotRepository) {
		return nil
	}
	if err != nil {
		return err
	}
	out, err := r.run(w.ctx, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
	if err != nil {
		return err
	}
	for p := range strings.SplitSeq(out, "\x00") {
		if p != "" {
			w.skip[path.Clean(p)] = true
		}
	}
	return nil
}

// dir lists one directory and all below it.
func (w *walk) dir(at, key string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	f, err := w.root.OpenFile(at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return w.moved(at, err)
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return w.moved(at, err)
	}
	slices.Sort(names)
	before := len(w.items)
	for _, name := range names {
		if p := path.Join(at, name); !w.skip[p] {
			if err := w.entry(p, key+encode(name)); err != nil {
				return err
			}
		}
	}
	if len(w.items) == before && at != "." {
		w.items = append(w.items, item{key: key + empty, mode: "100644", mark: -1})
	}
	return nil
}

func (w *walk) entry(p, key string) error {
	taken := time.Now().UnixNano()
	info, err := w.root.Lstat(p)
	if err != nil {
		return w.moved(p, err)
	}
	it := item{path: p, key: key, mode: "100644", stat: statOf(info, taken)}
	switch {
	case info.IsDir():
		return w.dir(p, key+"/")
	case info.Mode()&fs.ModeSymlink != 0:
		it.mode = "120000"
	case !info.Mode().IsRegular():
		if w.more++; len(w.left) < keysLeft {
			w.left = append(w.left, p)
			w.more--
		}
		return nil
	case info.Mode()&0o111 != 0:
		it.mode = "100755"
	}
	w.files++
	w.bytes += info.Size()
	if l := w.k.g.cfg.Limits; w.files > l.Files || w.bytes > l.Bytes {
		return fmt.Errorf("more than %d files or %d bytes: %w (skip files that can be generated, or raise the limits)",
			l.Files, l.Bytes, ErrTooLarge)
	}
	if old, ok := w.k.cache[p]; ok && old.same(it.stat) {
		it.stat.ID, it.stat.Taken = old.ID, old.Taken
	}
	w.items = append(w.items, it)
	return nil
}

// moved tells a path that went, or became something else, between two looks from one that cannot be read.
func (w *walk) moved(p string, err error) error {
	changed := slices.ContainsFunc([]error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.EINVAL,
		syscall.ENXIO},
		func(e error) bool { return errors.Is(err, e) })
	for at := p; !changed && at != "."; at = path.Dir(at) {
		info, gone := w.root.Lstat(at)
		changed = gone == nil && info.Mode()&fs.ModeSymlink != 0 // what was there when it was listed was none
	}
	if !changed {
		return err
	}
	return fmt.Errorf("%q was removed or replaced while it was read: %w: %w (take the snapshot when no process runs in the tree)", p, err, ErrUnderway)
}

const maker = "committer inspan <inspan@localhost> 0 +0000\ndata 0\n"

// feed writes the import: what is new, the parent's tree, and this tree.
func (w *walk) feed(to io.Writer, parent string) error {
	out := bufio.NewWriterSize(to, 256<<10)
	marks := 0
	for i := range w.items {
		if w.items[i].stat.ID != "" {
			continue
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		marks++
		if err := w.blob(out, &w.items[i], marks); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if parent != "" {
		fmt.Fprintf(&b, "reset refs/snap/base\ncommit refs/snap/base\nmark :%d\n%sM 040000 %s \"\"\n\n", marks+1, maker,
			parent)
	}
	fmt.Fprintf(&b, "reset refs/snap/new\ncommit refs/snap/new\n%s", maker)
	if parent != "" {
		fmt.Fprintf(&b, "from :%d\n", marks+1)
	}
	b.WriteString("deleteall\n")
	for _, it := range w.items {
		data := it.stat.ID
		if it.mark > 0 {
			data = ":" + strconv.Itoa(it.mark)
		}
		fmt.Fprintf(&b, "M %s %s ", it.mode, data)
		quote(&b, it.key)
		b.WriteByte('\n')
		if b.Len() > 64<<10 {
			if _, err := out.Write(b.Bytes()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	b.WriteString("ls \"\"\n\ndone\n") // it prints the id of the tree
	if _, err := out.Write(b.Bytes()); err != nil {
		return err
	}
	return out.Flush()
}

// blob writes the content of one file or link.
func (w *walk) blob(out *bufio.Writer, it *item, mark int) error {
	it.mark = mark
	head := func(size int64) { fmt.Fprintf(out, "blob\nmark :%d\ndata %d\n", mark, size) } // its error comes with Flush
	switch {
	case it.path == "":
		head(0)
	case it.mode == "120000":
		target, err := w.root.Readlink(it.path)
		if err != nil {
			return w.moved(it.path, err)
		}
		w.read++
		head(int64(len(target)))
		out.WriteString(target)
	default:
		w.read++
		it.stat.Taken = time.Now().UnixNano()
		f, err := w.root.OpenFile(it.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return w.moved(it.path, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%q was replaced while it was read: %w (take the snapshot when no process runs in the tree)",
				it.path, ErrUnderway)
		}
		head(info.Size())
		if n, err := io.CopyN(out, f, info.Size()); err != nil {
			return fmt.Errorf("%q: %d of %d bytes: %w: %w (take the snapshot when no process runs in the tree)", it.path, n,
				info.Size(), err, ErrUnderway)
		}
		it.stat = statOf(info, it.stat.Taken)
	}
	_, err := out.WriteString("\n")
	return err
}

// learn reads the ids of what was new.
func (w *walk) learn(marks string) error {
	text, err := os.ReadFile(marks)
	if err != nil {
		return err
	}
	ids := map[int]string{}
	for l := range strings.SplitSeq(string(text), "\n") {
		mark, id, ok := strings.Cut(strings.TrimPrefix(l, ":"), " ")
		if n, err := strconv.Atoi(mark); ok && err == nil {
			ids[n] = id
		}
	}
	for _, it := range w.items {
		if it.path == "" {
			continue
		}
		if it.mark > 0 {
			it.stat.ID = ids[it.mark]
		}
		w.seen[it.path] = it.stat
	}
	return nil
}

// readCache reads what the files were at the last snapshot. It is only a cache: what cannot be read is empty.
func readCache(at string) map[string]stat {
	b, err := os.ReadFile(at)
	if err != nil {
		return nil
	}
	var cache map[string]stat
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&cache); err != nil {
		return nil
	}
	return cache
}

func writeCache(at string, cache map[string]stat) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(cache); err != nil {
		return err
	}
	if err := os.WriteFile(at+".new", b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}
