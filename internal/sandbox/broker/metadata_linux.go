package broker

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxName and maxValue bound an extended attribute, XATTR_NAME_MAX with its end and XATTR_SIZE_MAX.
	maxName, maxValue = 256, 64 << 10
	// keep leaves an owner as it is.
	keep = -1
	// special are the bits of a mode that give a program's privileges to whoever starts it.
	special = unix.S_ISUID | unix.S_ISGID
)

// A change is what a call does to a file that was found permitted.
type change func(f file, who identity) error

// change carries out a call that changes the mode, owner, times or attributes of a file.
func (b *Broker) change(p process, c call) error {
	f, do, err := p.wanted(c)
	if err != nil {
		return err
	}
	defer f.close()
	who, err := p.identity()
	if err != nil {
		return err
	}
	if !p.valid() {
		return unix.ESRCH
	}
	if !b.writable(f.path) || int(f.stat.Uid) != who.user {
		return unix.EPERM
	}
	return do(f, who)
}

// writable reports whether a real path is one that commands may change.
func (b *Broker) writable(path string) bool {
	return slices.ContainsFunc(b.rules.Writable, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

// wanted reads a call: the file, which is to be closed, and what is to be done.
func (p process) wanted(c call) (file, change, error) {
	if f, do, ok, err := p.mode(c); ok {
		return f, do, err
	}
	if f, do, ok, err := p.owner(c); ok {
		return f, do, err
	}
	if f, do, ok, err := p.times(c); ok {
		return f, do, err
	}
	return p.attribute(c)
}

// target finds the file of a call and of what is to be done with it.
func (p process) target(do change, err error, find func() (file, error)) (file, change, bool, error) {
	if err != nil {
		return file{}, nil, true, err
	}
	f, err := find()
	return f, do, true, err
}

// path finds the file of a path in the memory of a process. With AT_EMPTY_PATH an empty path is the descriptor's own
// file.
func (p process) path(dir, address, flags uint64) (file, error) {
	path, err := p.text(address, maxPath, unix.ENAMETOOLONG)
	if err != nil {
		return file{}, err
	}
	if path == "" && flags&unix.AT_EMPTY_PATH != 0 {
		return p.opened(dir)
	}
	return p.open(dir, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
}

const here = uint64(0xffffff9c) // AT_FDCWD as an argument

func (p process) mode(c call) (f file, do change, ok bool, err error) {
	a := c.Args
	set := func(mode uint64) change {
		return func(f file, _ identity) error {
			if mode&special != 0 {
				return unix.EPERM
			}
			return unix.Fchmodat(unix.AT_FDCWD, f.proc(), uint32(mode&0o7777), 0)
		}
	}
	switch c.Number {
	case sysChmod:
		return p.target(set(a[1]), nil, func() (file, error) { return p.path(here, a[0], 0) })
	case unix.SYS_FCHMOD:
		return p.target(set(a[1]), nil, func() (file, error) { return p.opened(a[0]) })
	case unix.SYS_FCHMODAT:
		return p.target(set(a[2]), nil, func() (file, error) { return p.path(a[0], a[1], 0) })
	case unix.SYS_FCHMODAT2:
		return p.target(set(a[2]), nil, func() (file, error) { return p.path(a[0], a[1], a[3]) })
	}
	return f, nil, false, nil
}

func (p process) owner(c call) (f file, do change, ok bool, err error) {
	a := c.Args
	set := func(user, group uint64) change {
		u, g := int(int32(uint32(user))), int(int32(uint32(group))) //nolint:gosec // as the kernel takes them
		return func(f file, who identity) error {
			if u != keep && u != who.user || g != keep && !slices.Contains(who.groups, g) {
				return unix.EPERM
			}
			return unix.Fchownat(f.fd, "", u, g, unix.AT_EMPTY_PATH)
		}
	}
	switch c.Number {
	case sysChown:
		return p.target(set(a[1], a[2]), nil, func() (file, error) { return p.path(here, a[0], 0) })
	case sysLchown:
		return p.target(set(a[1], a[2]), nil, func() (file, error) { return p.path(here, a[0], unix.AT_SYMLINK_NOFOLLOW) })
	case unix.SYS_FCHOWN:
		return p.target(set(a[1], a[2]), nil, func() (file, error) { return p.opened(a[0]) })
	case unix.SYS_FCHOWNAT:
		return p.target(set(a[2], a[3]), nil, func() (file, error) { return p.path(a[0], a[1], a[4]) })
	}
	return f, nil, false, nil
}

// Each of the calls that set times has them in another form.
func (p process) times(c call) (f file, do change, ok bool, err error) {
	a := c.Args
	set := func(address uint64, form func([]byte) []unix.Timespec, size int) (change, error) {
		times := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		if address != 0 {
			raw, err := p.bytes(address, size)
			if err != nil {
				return nil, err
			}
			times = form(raw)
		}
		return func(f file, _ identity) error {
			return unix.UtimesNanoAt(f.fd, "", times, unix.AT_EMPTY_PATH)
		}, nil
	}
	switch c.Number {
	case sysUtime:
		do, err = set(a[1], seconds, 16)
		return p.target(do, err, func() (file, error) { return p.path(here, a[0], 0) })
	case sysUtimes:
		do, err = set(a[1], micro, 32)
		return p.target(do, err, func() (file, error) { return p.path(here, a[0], 0) })
	case sysFutimesat:
		do, err = set(a[2], micro, 32)
		return p.target(do, err, func() (file, error) { return p.path(a[0], a[1], 0) })
	case unix.SYS_UTIMENSAT:
		do, err = set(a[2], nano, 32)
		return p.target(do, err, func() (file, error) {
			if a[1] == 0 {
				return p.opened(a[0])
			}
			return p.path(a[0], a[1], a[3])
		})
	}
	return f, nil, false, nil
}

// attribute is for calls on extended attributes: those of users, and lists of who may do what, which tools copy with
// files.
func (p process) attribute(c call) (f file, do change, err error) {
	a := c.Args
	name, err := p.text(a[1], maxName, unix.ERANGE)
	if err != nil {
		return f, nil, err
	}
	if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_") {
		return f, nil, unix.EOPNOTSUPP
	}
	switch c.Number {
	case unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR:
		if a[3] > maxValue {
			return f, nil, unix.E2BIG
		}
		value, err := p.bytes(a[2], int(a[3])) //nolint:gosec // it was bounded
		if err != nil {
			return f, nil, err
		}
		flags := int(uint32(a[4]))
		do = func(f file, _ identity) error { return unix.Setxattr(f.proc(), name, value, flags) }
	case unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR:
		do = func(f file, _ identity) error { return unix.Removexattr(f.proc(), name) }
	default:
		return f, nil, unix.ENOSYS
	}
	switch c.Number {
	case unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR:
		f, err = p.opened(a[0])
	case unix.SYS_LSETXATTR, unix.SYS_LREMOVEXATTR:
		f, err = p.path(here, a[0], unix.AT_SYMLINK_NOFOLLOW)
	default:
		f, err = p.path(here, a[0], 0)
	}
	return f, do, err
}

// seconds reads struct utimbuf.
func seconds(raw []byte) []unix.Timespec {
	return []unix.Timespec{{Sec: word(raw, 0)}, {Sec: word(raw, 1)}}
}

// micro reads two of struct timeval.
func micro(raw []byte) []unix.Timespec {
	return []unix.Timespec{{Sec: word(raw, 0), Nsec: word(raw, 1) * 1000}, {Sec: word(raw, 2), Nsec: word(raw, 3) * 1000}}
}

// nano reads two of struct timespec.
func nano(raw []byte) []unix.Timespec {
	return []unix.Timespec{{Sec: word(raw, 0), Nsec: word(raw, 1)}, {Sec: word(raw, 2), Nsec: word(raw, 3)}}
}

func word(raw []byte, n int) int64 { return int64(binary.NativeEndian.Uint64(raw[8*n:])) } //nolint:gosec // as the kernel takes it
