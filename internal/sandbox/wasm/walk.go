package wasm

import (
	"errors"
	"path"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	"golang.org/x/sys/unix"
)

// walkFlags open a directory on the way: the directory itself, never what a link leads to.
const walkFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// position is where a path ends: an open directory and a name in it, which may not be there.
type position struct {
	dir  int    // -1 for what only the tree has
	name string // "." for the root of a mount
	abs  string // the path in the tree, without links
}

func (p position) close() {
	if p.dir >= 0 {
		_ = unix.Close(p.dir) // it was only read
	}
}

func (p position) stat() (st unix.Stat_t, errno sys.Errno) {
	if p.dir < 0 {
		return st, sys.ENOENT
	}
	return st, errnoOf(unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW))
}

func (p position) isLink() bool {
	st, errno := p.stat()
	return errno == 0 && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// link reads a link.
func (p position) link() (string, sys.Errno) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, p.name, buf)
	if err != nil {
		return "", errnoOf(err)
	}
	return string(buf[:n]), 0
}

// resolve walks to a path. With follow, a link at its end is followed as well. The place must be closed.
func (t *tree) resolve(name string, follow bool) (position, sys.Errno) {
	if len(name) > unix.PathMax {
		return position{}, sys.ENAMETOOLONG
	}
	if strings.ContainsRune(name, 0) {
		return position{}, sys.EINVAL
	}
	abs := t.clean(name)
	for range maxLinks {
		p, to, errno := t.walk(abs)
		if errno != 0 {
			return position{}, errno
		}
		if to == "" && follow && p.dir >= 0 && p.isLink() {
			target, errno := p.link()
			if errno != 0 {
				p.close()
				return position{}, errno
			}
			to = join(path.Dir(p.abs), target)
		}
		if to == "" {
			return p, 0
		}
		p.close()
		abs = t.clean(to)
	}
	return position{}, sys.ELOOP
}

// join is where a link in a directory leads.
func join(dir, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(dir, target)
}

// walk opens one directory after the other. Where a name is a link, it returns the path to go on with instead.
func (t *tree) walk(abs string) (p position, to string, errno sys.Errno) {
	if t.hidden(abs) {
		return position{}, "", sys.ENOENT
	}
	m := t.within(abs)
	if m == nil {
		return position{dir: -1, name: path.Base(abs), abs: abs}, "", 0
	}
	dir, err := unix.Openat(int(m.dir.Fd()), ".", walkFlags, 0)
	if err != nil {
		return position{}, "", errnoOf(err)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(abs, m.at), "/")
	switch {
	case m.only != "" && rest == "":
		return position{dir: dir, name: m.only, abs: abs}, "", 0
	case m.only != "":
		_ = unix.Close(dir)
		return position{}, "", sys.ENOTDIR
	case rest == "":
		return position{dir: dir, name: ".", abs: abs}, "", 0
	}
	at := m.at
	for {
		name, after, more := strings.Cut(rest, "/")
		if !more {
			return position{dir: dir, name: name, abs: abs}, "", 0
		}
		next, err := unix.Openat(dir, name, walkFlags, 0)
		if err == nil {
			_ = unix.Close(dir)
			dir, rest, at = next, after, path.Join(at, name)
			continue
		}
		here := position{dir: dir, name: name}
		isLink := (errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EMLINK)) && here.isLink()
		if !isLink {
			here.close()
			return position{}, "", errnoOf(err)
		}
		target, errno := here.link()
		here.close()
		return position{dir: -1}, path.Join(join(at, target), after), errno
	}
}

// errnoOf translates an error of the kernel into one that programs know.
func errnoOf(err error) sys.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, unix.EXDEV):
		return sys.ENOTSUP // it is not among those that the engine passes on
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ETXTBSY):
		return sys.EPERM
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.EDQUOT),
		errors.Is(err, unix.ENOSPC):
		return sys.EIO
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return sys.EACCES
	}
	return sys.UnwrapOSError(err)
}
