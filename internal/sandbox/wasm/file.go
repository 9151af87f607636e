package wasm

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"
)

// file is an open file or directory of the machine.
type file struct {
	rest
	seeker[int64]
	fs      *fsys
	f       *os.File
	abs     string
	dir     bool
	appends bool
	closed  bool
}

var _ sys.File = (*file)(nil)

// admit looks at what was opened, and refuses pipes, sockets and devices. Only then an old text is cut.
func (x *file) admit(flag sys.Oflag, writes bool) sys.Errno {
	st, errno := x.Stat()
	if errno != 0 {
		return errno
	}
	x.dir = st.Mode.IsDir()
	switch {
	case !x.dir && !st.Mode.IsRegular():
		return sys.EACCES
	case x.dir && writes:
		return sys.EISDIR
	case !x.dir && flag&sys.O_DIRECTORY != 0:
		return sys.ENOTDIR
	case flag&sys.O_TRUNC != 0 && st.Size > 0:
		return errnoOf(x.f.Truncate(0))
	}
	return 0
}

// Stat implements sys.File.
func (x *file) Stat() (wsys.Stat_t, sys.Errno) {
	var st unix.Stat_t
	raw, err := x.f.SyscallConn()
	if err != nil {
		return wsys.Stat_t{}, sys.EBADF
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.Fstat(int(fd), &st) }); err != nil {
		return wsys.Stat_t{}, sys.EBADF
	}
	return statOf(&st), errnoOf(inner)
}

// Dev implements sys.File.
func (x *file) Dev() (uint64, sys.Errno) {
	st, errno := x.Stat()
	return st.Dev, errno
}

// Ino implements sys.File.
func (x *file) Ino() (wsys.Inode, sys.Errno) {
	st, errno := x.Stat()
	return st.Ino, errno
}

// IsDir implements sys.File.
func (x *file) IsDir() (bool, sys.Errno) { return x.dir, 0 }

// IsAppend implements sys.File.
func (x *file) IsAppend() bool { return x.appends }

// Read implements sys.File.
func (x *file) Read(p []byte) (int, sys.Errno) {
	if x.dir {
		return 0, sys.EISDIR
	}
	if len(p) == 0 {
		return 0, 0
	}
	n, err := x.f.Read(p)
	return n, ended(err)
}

// Pread implements sys.File.
func (x *file) Pread(p []byte, off int64) (int, sys.Errno) {
	if x.dir {
		return 0, sys.EISDIR
	}
	n, err := x.f.ReadAt(p, off)
	return n, ended(err)
}

// ended takes the end of a file for what programs are told of it: nothing read, and no error.
func ended(err error) sys.Errno {
	if errors.Is(err, io.EOF) {
		return 0
	}
	return errnoOf(err)
}

// seek is the Seek of sys.File.
func (x *file) seek(off int64, whence int) (int64, sys.Errno) {
	if x.dir && (off != 0 || whence != io.SeekStart) {
		return 0, sys.EINVAL
	}
	at, err := x.f.Seek(off, whence)
	return at, errnoOf(err)
}

// Readdir implements sys.File. What is denied is not there.
func (x *file) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	if !x.dir {
		return nil, sys.ENOTDIR
	}
	var out []sys.Dirent
	for n <= 0 || len(out) < n {
		ask := n
		if n > 0 {
			ask = n - len(out)
		}
		list, err := x.f.ReadDir(ask)
		for _, entry := range list {
			if !x.fs.hidden(path.Join(x.abs, entry.Name())) {
				out = append(out, sys.Dirent{Name: entry.Name(), Type: entry.Type()})
			}
		}
		if err != nil || n <= 0 {
			return out, ended(err)
		}
	}
	return out, 0
}

// end is the size of the file.
func (x *file) end() (int64, sys.Errno) {
	st, errno := x.Stat()
	return st.Size, errno
}

// Write implements sys.File.
func (x *file) Write(p []byte) (int, sys.Errno) {
	if x.dir {
		return 0, sys.EISDIR
	}
	if x.fs.quota != nil {
		size, errno := x.end()
		if errno != 0 {
			return 0, errno
		}
		at := size
		if !x.appends {
			var err error
			if at, err = x.f.Seek(0, io.SeekCurrent); err != nil {
				return 0, errnoOf(err)
			}
		}
		if errno := x.fs.reserve(at + int64(len(p)) - size); errno != 0 {
			return 0, errno
		}
	}
	n, err := x.f.Write(p)
	return n, errnoOf(err)
}

// Pwrite implements sys.File.
func (x *file) Pwrite(p []byte, off int64) (int, sys.Errno) {
	if x.dir {
		return 0, sys.EISDIR
	}
	if off < 0 || x.appends {
		return 0, sys.EINVAL
	}
	if x.fs.quota != nil {
		size, errno := x.end()
		if errno == 0 {
			errno = x.fs.reserve(off + int64(len(p)) - size)
		}
		if errno != 0 {
			return 0, errno
		}
	}
	n, err := x.f.WriteAt(p, off)
	return n, errnoOf(err)
}

// Truncate implements sys.File.
func (x *file) Truncate(size int64) sys.Errno {
	if x.dir {
		return sys.EISDIR
	}
	if size < 0 {
		return sys.EINVAL
	}
	old, errno := x.end()
	if errno == 0 {
		errno = x.fs.reserve(size - old)
	}
	if errno != 0 {
		return errno
	}
	return errnoOf(x.f.Truncate(size))
}

// Sync implements sys.File.
func (x *file) Sync() sys.Errno { return errnoOf(x.f.Sync()) }

// Datasync implements sys.File.
func (x *file) Datasync() sys.Errno { return x.Sync() }

// Utimens implements sys.File.
func (x *file) Utimens(atime, mtime int64) sys.Errno {
	if !x.fs.writable(x.abs) {
		return sys.EROFS
	}
	return x.fs.Utimens(x.abs, atime, mtime)
}

// Close implements sys.File.
func (x *file) Close() sys.Errno {
	if x.closed {
		return 0
	}
	x.closed = true
	x.fs.open--
	return errnoOf(x.f.Close())
}

// rest is what a file does not do.
type rest struct{ sys.UnimplementedFile }

// seeker has the Seek of sys.File. Its offset is a type parameter because go vet takes every other Seek for that of
// io.Seeker.
type seeker[N ~int64] struct {
	to func(off int64, whence int) (int64, sys.Errno)
}

// Seek implements sys.File.
func (s seeker[N]) Seek(off N, whence int) (N, sys.Errno) {
	at, errno := s.to(int64(off), whence)
	return N(at), errno
}

// directory is one that only the tree has.
type directory struct {
	rest
	seeker[int64]
	names []string
	next  int
}

// Stat implements sys.File.
func (*directory) Stat() (wsys.Stat_t, sys.Errno) {
	return wsys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}, 0
}

// IsDir implements sys.File.
func (*directory) IsDir() (bool, sys.Errno) { return true, 0 }

// seek is the Seek of sys.File.
func (d *directory) seek(off int64, whence int) (int64, sys.Errno) {
	if off != 0 || whence != io.SeekStart {
		return 0, sys.EINVAL
	}
	d.next = 0
	return 0, 0
}

// Readdir implements sys.File.
func (d *directory) Readdir(n int) (out []sys.Dirent, errno sys.Errno) {
	for ; d.next < len(d.names) && (n <= 0 || len(out) < n); d.next++ {
		out = append(out, sys.Dirent{Name: d.names[d.next], Type: fs.ModeDir})
	}
	return out, 0
}

// device is a file without content.
type device struct {
	rest
	seeker[int64]
	read func(p []byte) int
}

// deviceAt returns the device of a path.
func deviceAt(abs string) (device, bool) {
	read, ok := map[string]func(p []byte) int{
		"/dev/null":   func([]byte) int { return 0 },
		"/dev/zero":   func(p []byte) int { clear(p); return len(p) },
		"/dev/random": random, "/dev/urandom": random,
	}[abs]
	return device{read: read, seeker: seeker[int64]{func(int64, int) (int64, sys.Errno) { return 0, 0 }}}, ok
}

func random(p []byte) int {
	n, _ := rand.Read(p) // it never fails
	return n
}

// Stat implements sys.File.
func (device) Stat() (wsys.Stat_t, sys.Errno) {
	return wsys.Stat_t{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, Nlink: 1}, 0
}

// IsDir implements sys.File.
func (device) IsDir() (bool, sys.Errno) { return false, 0 }

// Read implements sys.File.
func (d device) Read(p []byte) (int, sys.Errno) { return d.read(p), 0 }

// Write implements sys.File.
func (device) Write(p []byte) (int, sys.Errno) { return len(p), 0 }

// Truncate implements sys.File.
func (device) Truncate(int64) sys.Errno { return 0 }

// program is the name of a command in /bin. It can be seen, so that a shell finds it, and not read.
type program struct{ sys.UnimplementedFile }

// Stat implements sys.File.
func (program) Stat() (wsys.Stat_t, sys.Errno) { return wsys.Stat_t{Mode: 0o755, Nlink: 1}, 0 }

// IsDir implements sys.File.
func (program) IsDir() (bool, sys.Errno) { return false, 0 }
