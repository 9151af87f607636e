package wasm

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"
)

const (
	// maxOpen is the most files that one program has open: they are descriptors of the process that runs it.
	maxOpen = 256
	// fileMode and dirMode are those of what programs make; WASI has no modes.
	fileMode, dirMode = 0o644, 0o755
)

// fsys is the tree as one program has it.
type fsys struct {
	sys.UnimplementedFS
	*tree
	end  context.CancelCauseFunc // ends the program
	open int                     // files that are open; a program is one thread
}

var _ sys.FS = (*fsys)(nil)

// reserve asks for disk. What it refuses ends the program.
func (f *fsys) reserve(n int64) sys.Errno {
	if f.quota == nil || n <= 0 {
		return 0
	}
	if err := f.quota.grow(n); err != nil {
		f.end(err)
		return sys.EIO
	}
	return 0
}

// change walks to what is going to be changed. Where a rule needs it in its place, it cannot be moved or removed.
func (f *fsys) change(name string, move bool) (position, sys.Errno) {
	p, errno := f.resolve(name, false)
	if errno != 0 {
		return p, errno
	}
	switch {
	case p.dir < 0 || !f.writable(p.abs):
		errno = sys.EROFS
	case move && f.pinned(p.abs):
		errno = sys.EPERM
	}
	if errno != 0 {
		p.close()
	}
	return p, errno
}

// OpenFile implements sys.FS.
func (f *fsys) OpenFile(name string, flag sys.Oflag, _ fs.FileMode) (sys.File, sys.Errno) {
	if f.open >= maxOpen {
		return nil, sys.EIO
	}
	p, errno := f.resolve(name, flag&sys.O_NOFOLLOW == 0)
	if errno != 0 {
		return nil, errno
	}
	defer p.close()
	access := flag & (sys.O_RDONLY | sys.O_RDWR | sys.O_WRONLY)
	writes := access != sys.O_RDONLY || flag&(sys.O_CREAT|sys.O_TRUNC|sys.O_APPEND) != 0
	if flag&sys.O_DIRECTORY != 0 {
		access, writes = sys.O_RDONLY, false
	}
	if p.dir < 0 {
		return f.openMade(p.abs, writes)
	}
	if writes && !f.writable(p.abs) {
		return nil, sys.EROFS
	}
	mode := unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK // a pipe is refused below, and must not hold us before
	switch access {
	case sys.O_RDWR:
		mode |= unix.O_RDWR
	case sys.O_WRONLY:
		mode |= unix.O_WRONLY
	}
	if flag&sys.O_APPEND != 0 {
		mode |= unix.O_APPEND
	}
	fd, errno := f.openAt(p, flag, mode)
	if errno != 0 {
		return nil, errno
	}
	x := &file{fs: f, f: os.NewFile(uintptr(fd), p.abs), abs: p.abs, appends: flag&sys.O_APPEND != 0}
	x.to = x.seek
	if errno = x.admit(flag, writes); errno != 0 {
		_ = x.f.Close()
		return nil, errno
	}
	f.open++
	return x, 0
}

// openAt opens the file at a place, or makes it.
func (f *fsys) openAt(p position, flag sys.Oflag, mode int) (int, sys.Errno) {
	for range maxLinks {
		if flag&sys.O_CREAT == 0 || flag&sys.O_EXCL == 0 {
			fd, err := unix.Openat(p.dir, p.name, mode, 0)
			if err != unix.ENOENT || flag&sys.O_CREAT == 0 {
				return fd, errnoOf(err)
			}
		}
		if errno := f.reserve(made); errno != 0 {
			return -1, errno
		}
		fd, err := unix.Openat(p.dir, p.name, mode|unix.O_CREAT|unix.O_EXCL, fileMode)
		if err != unix.EEXIST || flag&sys.O_EXCL != 0 {
			return fd, errnoOf(err)
		}
	}
	return -1, sys.EEXIST
}

// Stat implements sys.FS.
func (f *fsys) Stat(name string) (wsys.Stat_t, sys.Errno) { return f.statAt(name, true) }

// Lstat implements sys.FS.
func (f *fsys) Lstat(name string) (wsys.Stat_t, sys.Errno) { return f.statAt(name, false) }

func (f *fsys) statAt(name string, follow bool) (wsys.Stat_t, sys.Errno) {
	p, errno := f.resolve(name, follow)
	if errno != 0 {
		return wsys.Stat_t{}, errno
	}
	defer p.close()
	if p.dir < 0 {
		x, errno := f.openMade(p.abs, false)
		if errno != 0 {
			return wsys.Stat_t{}, errno
		}
		return x.Stat()
	}
	st, errno := p.stat()
	return statOf(&st), errno
}

// Mkdir implements sys.FS.
func (f *fsys) Mkdir(name string, _ fs.FileMode) sys.Errno {
	p, errno := f.resolve(name, false)
	if errno != 0 {
		return errno
	}
	defer p.close()
	if p.dir < 0 {
		if _, ok := f.made(p.abs); ok {
			return sys.EEXIST
		}
		return sys.EROFS
	}
	if _, errno := p.stat(); errno == 0 {
		return sys.EEXIST
	}
	if !f.writable(p.abs) {
		return sys.EROFS
	}
	if errno := f.reserve(made); errno != 0 {
		return errno
	}
	return errnoOf(unix.Mkdirat(p.dir, p.name, dirMode))
}

// Rename implements sys.FS.
func (f *fsys) Rename(from, to string) sys.Errno {
	return f.both(from, to, true, func(a, b position) error { return unix.Renameat(a.dir, a.name, b.dir, b.name) })
}

// Link implements sys.FS. What may not be written cannot be given a name where it might.
func (f *fsys) Link(from, to string) sys.Errno {
	if errno := f.reserve(made); errno != 0 {
		return errno
	}
	return f.both(from, to, false, func(a, b position) error { return unix.Linkat(a.dir, a.name, b.dir, b.name, 0) })
}

func (f *fsys) both(from, to string, move bool, do func(a, b position) error) sys.Errno {
	a, errno := f.change(from, move)
	if errno != 0 {
		return errno
	}
	defer a.close()
	b, errno := f.change(to, true)
	if errno != 0 {
		return errno
	}
	defer b.close()
	if b.name == "." || a.name == "." {
		return sys.EPERM
	}
	return errnoOf(do(a, b))
}

// Rmdir implements sys.FS.
func (f *fsys) Rmdir(name string) sys.Errno { return f.remove(name, unix.AT_REMOVEDIR) }

// Unlink implements sys.FS.
func (f *fsys) Unlink(name string) sys.Errno {
	errno := f.remove(name, 0)
	if errno == sys.EPERM {
		if st, e := f.Lstat(name); e == 0 && st.Mode.IsDir() {
			return sys.EISDIR
		}
	}
	return errno
}

func (f *fsys) remove(name string, flag int) sys.Errno {
	p, errno := f.change(name, true)
	if errno != 0 {
		return errno
	}
	defer p.close()
	return errnoOf(unix.Unlinkat(p.dir, p.name, flag))
}

// Symlink implements sys.FS. A link may say what it likes: no one here follows it out.
func (f *fsys) Symlink(text, name string) sys.Errno {
	p, errno := f.change(name, false)
	if errno != 0 {
		return errno
	}
	defer p.close()
	if errno := f.reserve(made); errno != 0 {
		return errno
	}
	return errnoOf(unix.Symlinkat(text, p.dir, p.name))
}

// Readlink implements sys.FS.
func (f *fsys) Readlink(name string) (string, sys.Errno) {
	p, errno := f.resolve(name, false)
	if errno != 0 {
		return "", errno
	}
	defer p.close()
	if p.dir < 0 {
		return "", sys.EINVAL
	}
	return p.link()
}

// Utimens implements sys.FS.
func (f *fsys) Utimens(name string, atime, mtime int64) sys.Errno {
	p, errno := f.resolve(name, true)
	if errno != 0 {
		return errno
	}
	defer p.close()
	if p.dir < 0 || !f.writable(p.abs) {
		return sys.EROFS
	}
	st, errno := p.stat()
	if errno != 0 {
		return errno
	}
	at := []unix.Timespec{st.Atim, st.Mtim}
	for i, ns := range []int64{atime, mtime} {
		if ns != sys.UTIME_OMIT {
			at[i] = unix.NsecToTimespec(ns)
		}
	}
	return errnoOf(unix.UtimesNanoAt(p.dir, p.name, at, unix.AT_SYMLINK_NOFOLLOW))
}

// Chmod implements sys.FS; the engine has no call for it, the toolbox asks by a function of the host.
func (f *fsys) Chmod(name string, perm fs.FileMode) sys.Errno {
	p, errno := f.resolve(name, true)
	if errno != 0 {
		return errno
	}
	defer p.close()
	if p.dir < 0 || !f.writable(p.abs) {
		return sys.EROFS
	}
	fd, err := unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer func() { _ = unix.Close(fd) }()
	return errnoOf(unix.Fchmod(fd, uint32(perm.Perm())))
}

// statOf is what a program is told of a file.
func statOf(st *unix.Stat_t) wsys.Stat_t {
	return wsys.Stat_t{Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), Size: st.Size,
		Mode: fs.FileMode(st.Mode&0o777) | kindOf(uint32(st.Mode)&unix.S_IFMT),
		Atim: st.Atim.Nano(), Mtim: st.Mtim.Nano(), Ctim: st.Ctim.Nano()}
}

func kindOf(bits uint32) fs.FileMode {
	switch bits {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}

// openMade opens what only the tree has.
func (f *fsys) openMade(abs string, writes bool) (sys.File, sys.Errno) {
	if d, ok := deviceAt(abs); ok {
		return d, 0
	}
	names, ok := f.tree.made(abs)
	switch abs {
	case "/dev":
		names, ok = []string{"null", "random", "urandom", "zero"}, true
	case "/bin":
		list, err := f.programs()
		names, ok = list, err == nil
	}
	if path.Dir(abs) == "/bin" {
		if list, err := f.programs(); err == nil && slices.Contains(list, path.Base(abs)) {
			return program{}, 0
		}
	}
	switch {
	case !ok && writes:
		return nil, sys.EROFS
	case !ok:
		return nil, sys.ENOENT
	case writes:
		return nil, sys.EISDIR
	}
	d := &directory{names: names}
	d.to = d.seek
	return d, 0
}
