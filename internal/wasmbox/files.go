package wasmbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func ls(_ context.Context, c *call) error {
	o, names, err := c.options("aAl1RdtrShF", "all=a", "almost-all=A", "recursive=R", "directory=d", "reverse=r")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	var files, dirs []string
	for _, name := range names {
		info, err := os.Stat(c.at(name))
		if err != nil {
			info, err = os.Lstat(c.at(name))
		}
		switch {
		case err != nil:
			c.warn(err)
		case info.IsDir() && !o.has('d'):
			dirs = append(dirs, name)
		default:
			files = append(files, name)
		}
	}
	if err := c.list(o, "", files); err != nil {
		return err
	}
	for i := 0; i < len(dirs); i++ {
		if len(names) > 1 || o.has('R') {
			if i > 0 || len(files) > 0 {
				if err := c.line(""); err != nil {
					return err
				}
			}
			if err := c.line(dirs[i] + ":"); err != nil {
				return err
			}
		}
		entries, err := os.ReadDir(c.at(dirs[i]))
		if err != nil {
			c.warn(err)
			continue
		}
		var inside, below []string
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), ".") && !o.has('a') && !o.has('A') {
				continue
			}
			inside = append(inside, entry.Name())
			if entry.IsDir() && o.has('R') {
				below = append(below, path.Join(dirs[i], entry.Name()))
			}
		}
		if o.has('a') {
			inside = append([]string{".", ".."}, inside...)
		}
		dirs = slices.Insert(dirs, i+1, below...)
		if err := c.list(o, dirs[i], inside); err != nil {
			return err
		}
	}
	return nil
}

// list says names in a directory, with what is asked of each.
func (c *call) list(o options, dir string, names []string) error {
	infos := make(map[string]fs.FileInfo, len(names))
	for _, name := range names {
		info, err := os.Lstat(c.at(path.Join(dir, name)))
		if err != nil {
			c.warn(err)
			continue
		}
		infos[name] = info
	}
	names = slices.DeleteFunc(names, func(name string) bool { return infos[name] == nil })
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case o.has('t'):
			return infos[b].ModTime().Compare(infos[a].ModTime())
		case o.has('S'):
			return cmp.Compare(infos[b].Size(), infos[a].Size())
		}
		return cmp.Compare(a, b)
	})
	if o.has('r') {
		slices.Reverse(names)
	}
	for _, name := range names {
		text, at := name, c.at(path.Join(dir, name))
		info := infos[name]
		if o.has('F') && info.IsDir() {
			text += "/"
		}
		if o.has('l') {
			mode := info.Mode()
			if real, err := c.Host.Mode(at); err == nil && mode&fs.ModeSymlink == 0 {
				mode = mode&^fs.ModePerm | real
			}
			if to, err := os.Readlink(at); err == nil {
				text += " -> " + to
			}
			length := strconv.FormatInt(info.Size(), 10)
			if o.has('h') && info.Size() >= 1024 {
				length = fmt.Sprintf("%.1fK", float64(info.Size())/1024)
			}
			text = fmt.Sprintf("%s %8s %s %s", mode, length, info.ModTime().UTC().Format("2006-01-02 15:04"), text)
		}
		if err := c.line(text); err != nil {
			return err
		}
	}
	return nil
}

// target is where a file goes that is copied or moved to a place.
func (c *call) target(from, to string) string {
	if info, err := os.Stat(c.at(to)); err == nil && info.IsDir() {
		return path.Join(c.at(to), path.Base(path.Clean(from)))
	}
	return c.at(to)
}

func (c *call) places(args []string) (from []string, to string, err error) {
	if len(args) < 2 {
		return nil, "", misused("wants what and where to")
	}
	from, to = args[:len(args)-1], args[len(args)-1]
	if info, err := os.Stat(c.at(to)); len(from) > 1 && (err != nil || !info.IsDir()) {
		return nil, "", misused("%s is no directory", to)
	}
	return from, to, nil
}

func cp(_ context.Context, c *call) error {
	o, args, err := c.options("rRapfnd", "recursive=r", "archive=a", "force=f", "no-clobber=n")
	if err != nil {
		return err
	}
	from, to, err := c.places(args)
	if err != nil {
		return err
	}
	for _, name := range from {
		if err := c.copy(c.at(name), c.target(name, to), o); err != nil {
			c.warn(err)
		}
	}
	return nil
}

// copy copies a file, or a directory with all in it.
func (c *call) copy(from, to string, o options) error {
	deep := o.has('r') || o.has('R') || o.has('a')
	info, err := os.Lstat(from)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && !deep {
		info, err = os.Stat(from)
	}
	if err != nil {
		return err
	}
	if old, err := os.Lstat(to); err == nil && o.has('n') && !old.IsDir() {
		return nil
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		text, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(text, to)
	case !info.IsDir():
		return c.copyFile(from, to)
	case !deep:
		return fmt.Errorf("%s is a directory: -r copies it", c.short(from))
	case to == from || strings.HasPrefix(to, from+"/"):
		return fmt.Errorf("%s cannot be copied into itself", c.short(from))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if err := c.copy(path.Join(from, entry.Name()), path.Join(to, entry.Name()), o); err != nil {
			c.warn(err)
		}
	}
	return nil
}

func (c *call) copyFile(from, to string) (err error) {
	if a, errA := os.Stat(from); errA == nil {
		if b, errB := os.Stat(to); errB == nil && os.SameFile(a, b) {
			return fmt.Errorf("%s and %s are the same file", c.short(from), c.short(to))
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if mode, e := c.Host.Mode(from); e == nil {
		err = c.Host.Chmod(to, mode)
	}
	return err
}

func mv(_ context.Context, c *call) error {
	o, args, err := c.options("fn", "force=f", "no-clobber=n")
	if err != nil {
		return err
	}
	from, to, err := c.places(args)
	if err != nil {
		return err
	}
	for _, name := range from {
		at := c.target(name, to)
		if _, err := os.Lstat(at); err == nil && o.has('n') {
			continue
		}
		if err := os.Rename(c.at(name), at); err != nil {
			c.warn(fmt.Errorf("%s to %s: %w", name, c.short(at), cause(err)))
		}
	}
	return nil
}

// cause is what an error of the system is about, without its paths.
func cause(err error) error {
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func rm(_ context.Context, c *call) error {
	o, names, err := c.options("rRf", "recursive=r", "force=f")
	if err != nil {
		return err
	}
	if len(names) == 0 && !o.has('f') {
		return misused("wants a file")
	}
	for _, name := range names {
		info, err := os.Lstat(c.at(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && o.has('f'):
		case err != nil:
			c.warn(err)
		case info.IsDir() && !o.has('r') && !o.has('R'):
			c.warn(fmt.Errorf("%s is a directory: -r removes it", name))
		case c.at(name) == c.Dir:
			c.warn(fmt.Errorf("%s is the directory to work in", name))
		default:
			if err := os.RemoveAll(c.at(name)); err != nil {
				c.warn(err)
			}
		}
	}
	return nil
}

func rmdir(_ context.Context, c *call) error {
	_, names, err := c.options("")
	for _, name := range names {
		if info, err := os.Lstat(c.at(name)); err == nil && !info.IsDir() {
			c.warn(fmt.Errorf("%s is no directory", name))
		} else if err := os.Remove(c.at(name)); err != nil {
			c.warn(err)
		}
	}
	return err
}

func mkdir(_ context.Context, c *call) error {
	o, names, err := c.options("pm:", "parents=p", "mode=m")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return misused("wants a directory")
	}
	for _, name := range names {
		do := os.Mkdir
		if o.has('p') {
			do = os.MkdirAll
		}
		err := do(c.at(name), 0o755)
		if text, ok := o.value['m']; ok && err == nil {
			err = c.setMode(c.at(name), text)
		}
		if err != nil {
			c.warn(err)
		}
	}
	return nil
}

func touch(_ context.Context, c *call) error {
	o, names, err := c.options("c", "no-create=c")
	if err != nil {
		return err
	}
	for _, name := range names {
		now := time.Now()
		err := os.Chtimes(c.at(name), now, now)
		if errors.Is(err, fs.ErrNotExist) {
			if err = nil; !o.has('c') {
				var f *os.File
				if f, err = os.OpenFile(c.at(name), os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
					err = f.Close()
				}
			}
		}
		if err != nil {
			c.warn(err)
		}
	}
	return nil
}

func ln(_ context.Context, c *call) error {
	o, args, err := c.options("sfn", "symbolic=s", "force=f", "no-dereference=n")
	if err != nil {
		return err
	}
	if len(args) == 1 {
		args = append(args, ".")
	}
	from, to, err := c.places(args)
	if err != nil {
		return err
	}
	for _, name := range from {
		at := c.target(name, to)
		if o.has('f') {
			_ = os.Remove(at) // where it fails, so does what follows
		}
		if o.has('s') {
			err = os.Symlink(name, at)
		} else {
			err = os.Link(c.at(name), at)
		}
		if err != nil {
			c.warn(fmt.Errorf("%s to %s: %w", c.short(at), name, cause(err)))
		}
	}
	return nil
}

func readlink(_ context.Context, c *call) error {
	o, names, err := c.options("f", "canonicalize=f")
	if err != nil {
		return err
	}
	for _, name := range names {
		read := os.Readlink
		if o.has('f') {
			read = filepath.EvalSymlinks
		}
		to, err := read(c.at(name))
		if err != nil {
			c.failed = true
			continue
		}
		if err := c.line(to); err != nil {
			return err
		}
	}
	return nil
}

func chmod(_ context.Context, c *call) error {
	args := c.Args[1:]
	deep := false
	for len(args) > 0 && (args[0] == "-R" || args[0] == "--") {
		deep, args = deep || args[0] == "-R", args[1:]
	}
	if len(args) < 2 {
		return misused("wants a mode and files")
	}
	for _, name := range args[1:] {
		if !deep {
			if err := c.setMode(c.at(name), args[0]); err != nil {
				c.warn(err)
			}
			continue
		}
		err := filepath.WalkDir(c.at(name), func(at string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSymlink == 0 {
				err = c.setMode(at, args[0])
			}
			return err
		})
		if err != nil {
			c.warn(err)
		}
	}
	return nil
}

// setMode sets a mode such as 755, +x or u+rw,go-w.
func (c *call) setMode(at, text string) error {
	if n, err := strconv.ParseUint(text, 8, 32); err == nil {
		return c.Host.Chmod(at, fs.FileMode(n)&fs.ModePerm)
	}
	mode, err := c.Host.Mode(at)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(text, ",") {
		op := strings.IndexAny(part, "+-=")
		if op < 0 || strings.Trim(part[:op], "ugoa") != "" || strings.Trim(part[op+1:], "rwxX") != "" {
			return misused("%q is no mode", text)
		}
		var who, what fs.FileMode
		for letter, bits := range map[string]fs.FileMode{"u": 0o700, "g": 0o070, "o": 0o007, "a": 0o777} {
			if strings.Contains(part[:op], letter) || op == 0 {
				who |= bits
			}
		}
		for letter, bits := range map[string]fs.FileMode{"r": 0o444, "w": 0o222, "x": 0o111, "X": 0o111} {
			if strings.Contains(part[op+1:], letter) {
				what |= bits
			}
		}
		switch part[op] {
		case '+':
			mode |= who & what
		case '-':
			mode &^= who & what
		default:
			mode = mode&^who | who&what
		}
	}
	return c.Host.Chmod(at, mode)
}
