package broker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one whose call waits.
type process struct {
	thread int
	// valid reports whether it still waits: until then its id was not given to another.
	valid func() bool
}

// maxPath is the most bytes of a path with its end, PATH_MAX.
const maxPath = 4096

// itself is no error where an id is that of the calling thread, or of its process: both last as long as the call. The
// broker and the process count ids alike.
func (p process) itself(arg uint64) error {
	id := int(int32(uint32(arg))) //nolint:gosec // as the kernel takes it
	if id == p.thread {
		return nil
	}
	if group, err := p.group(); err != nil || id != group {
		return unix.EPERM
	}
	if !p.valid() {
		return unix.ESRCH
	}
	return nil
}

func (p process) at(name string) string { return "/proc/" + strconv.Itoa(p.thread) + "/" + name }

// status reads fields of proc_pid_status(5).
func (p process) status(names ...string) ([][]int, error) {
	data, err := os.ReadFile(p.at("status"))
	if err != nil {
		return nil, unix.ESRCH
	}
	out := make([][]int, len(names))
	for line := range bytes.Lines(data) {
		name, rest, _ := strings.Cut(string(line), ":")
		at := slices.Index(names, name)
		if at < 0 {
			continue
		}
		for _, field := range strings.Fields(rest) {
			n, err := strconv.Atoi(field)
			if err != nil {
				return nil, unix.ESRCH
			}
			out[at] = append(out[at], n)
		}
	}
	return out, nil
}

// group is the id of the thread's process.
func (p process) group() (int, error) {
	fields, err := p.status("Tgid")
	if err != nil || len(fields[0]) != 1 {
		return 0, unix.ESRCH
	}
	return fields[0][0], nil
}

// identity is who a process acts as on files.
type identity struct {
	user   int
	groups []int
}

func (p process) identity() (identity, error) {
	const files = 3 // after the real, the effective and the saved one
	fields, err := p.status("Uid", "Gid", "Groups")
	if err != nil || len(fields[0]) <= files || len(fields[1]) <= files {
		return identity{}, unix.ESRCH
	}
	return identity{user: fields[0][files], groups: append(fields[2], fields[1][files])}, nil
}

// read fills b with the process's memory from an address on, as far as there is any.
func (p process) read(address uint64, b []byte) (int, error) {
	mem, err := os.Open(p.at("mem"))
	if err != nil {
		return 0, unix.EPERM
	}
	defer func() { _ = mem.Close() }()
	if !p.valid() {
		return 0, unix.ESRCH
	}
	// The offset is unsigned for the kernel; addresses of programs are below half of it.
	n, err := mem.ReadAt(b, int64(address)) //nolint:gosec // a negative one is an error
	if n == 0 && err != nil {
		return 0, unix.EFAULT
	}
	return n, nil
}

// bytes reads exactly n bytes.
func (p process) bytes(address uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	if got, err := p.read(address, b); err != nil || got != n {
		return nil, unix.EFAULT
	}
	return b, nil
}

// text reads what ends with a NUL, of at most most bytes with it; tooLong is the error of what does not.
func (p process) text(address uint64, most int, tooLong error) (string, error) {
	b := make([]byte, most)
	n, err := p.read(address, b)
	if err != nil {
		return "", err
	}
	end := bytes.IndexByte(b[:n], 0)
	switch {
	case end >= 0:
		return string(b[:end]), nil
	case n == most:
		return "", tooLong
	default:
		return "", unix.EFAULT
	}
}

// file is a handle without data on a file that a process names.
type file struct {
	fd   int
	stat unix.Stat_t
	path string
}

func (f file) close() { _ = unix.Close(f.fd) }

// proc is a path by which calls that follow links reach the very file.
func (f file) proc() string { return "/proc/self/fd/" + strconv.Itoa(f.fd) }

// open finds the file of a path as the process would, relative to one of its descriptors or AT_FDCWD.
func (p process) open(dir uint64, path string, follow bool) (file, error) {
	flags := uint64(unix.O_PATH | unix.O_CLOEXEC)
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	if path == "" {
		return file{}, unix.ENOENT
	}
	if fd, ok := descriptor(path); ok && follow {
		return p.opened(fd)
	}
	base := unix.AT_FDCWD
	if !strings.HasPrefix(path, "/") {
		name := "cwd"
		if at := int32(uint32(dir)); at != unix.AT_FDCWD { //nolint:gosec // as the kernel takes it
			name = "fd/" + strconv.Itoa(int(at))
		}
		fd, err := unix.Open(p.at(name), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return file{}, errno(err, unix.EBADF)
		}
		defer func() { _ = unix.Close(fd) }()
		base = fd
	}
	// Links that lead by a process lead by this one here, not by the one that asks.
	fd, err := unix.Openat2(base, path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return file{}, errno(err, unix.EPERM)
	}
	return p.handle(fd)
}

// opened is the file behind a descriptor of the process.
func (p process) opened(fd uint64) (file, error) {
	at := int32(uint32(fd)) //nolint:gosec // as the kernel takes it
	if at == unix.AT_FDCWD {
		return p.named("cwd")
	}
	return p.named("fd/" + strconv.Itoa(int(at)))
}

func (p process) named(name string) (file, error) {
	fd, err := unix.Open(p.at(name), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return file{}, unix.EBADF
	}
	return p.handle(fd)
}

// handle looks at what was opened, after which the process must still wait: until then /proc told of no other.
func (p process) handle(fd int) (file, error) {
	f := file{fd: fd}
	if err := unix.Fstat(fd, &f.stat); err != nil {
		f.close()
		return file{}, errno(err, unix.EPERM)
	}
	path, err := os.Readlink(f.proc())
	if err == nil && !p.valid() {
		err = unix.ESRCH
	}
	if err != nil {
		f.close()
		return file{}, errno(err, unix.EPERM)
	}
	if f.path = path; f.stat.Nlink == 0 {
		f.path = strings.TrimSuffix(path, " (deleted)")
	}
	return f, nil
}

// descriptor reports which descriptor of its own a process means by a path.
func descriptor(path string) (uint64, bool) {
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		rest, ok := strings.CutPrefix(path, dir)
		if n, err := strconv.ParseUint(rest, 10, 31); ok && err == nil {
			return n, true
		}
	}
	return 0, false
}

// errno is the error of a system call in err, or another.
func errno(err error, other unix.Errno) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return fmt.Errorf("%w: %w", other, err)
}
