package seccomp

import (
	"encoding/binary"
	"maps"
	"slices"

	asm "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What a rule answers a call with.
const (
	allowed  = uint32(unix.SECCOMP_RET_ALLOW)
	refused  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	missing  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	notified = uint32(unix.SECCOMP_RET_USER_NOTIF)
)

const (
	cloneNewUser = 0x10000000
	// Typing for somebody at a terminal.
	tiocsti, tioclinux = 0x5412, 0x541C
	// special are the bits of a mode that give a program's privileges to whoever starts it.
	special = unix.S_ISUID | unix.S_ISGID
	// creating are the flags with which open(2) looks at a mode: O_CREAT, and what makes O_TMPFILE of O_DIRECTORY.
	creating      = unix.O_CREAT | 0o20000000
	prSchedCore   = 62 // of prctl(2)
	prioProcess   = 0  // PRIO_PROCESS of setpriority(2)
	ioprioProcess = 1  // IOPRIO_WHO_PROCESS of ioprio_set(2)
	caller        = 0  // as the id of a process
)

var (
	// modes are the calls that set the mode of a file, by the argument that has it; creates are those that do so where
	// a flag, in the first argument, makes a file with the mode in the second.
	modes = map[string]uint32{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1,
		"mknodat": 2, "mq_open": 2}
	creates = map[string][2]uint32{"open": {1, 2}, "openat": {2, 3}}

	// unread are calls whose flags are in memory, where no filter sees them. A library for which they are missing uses
	// clone and openat.
	unread = [...]string{"clone3", "openat2"}

	// metadata are the calls that change what is known of a file besides what is in it; metadataNew are those that no
	// library needs yet.
	metadata = [...]string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes", "futimesat",
		"utimensat",
		"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
	}
	metadataNew = [...]string{"setxattrat", "removexattrat"}

	// attributes are requests of ioctl(2) that change a file by a descriptor that may be for reading alone.
	attributes = [...]uint32{
		0x40086602, 0x40046602, // FS_IOC_SETFLAGS, for both sizes of a word
		0x40087602, 0x40047602, // FS_IOC_SETVERSION
		0x401c5820,             // FS_IOC_FSSETXATTR
		0x40806685,             // FS_IOC_ENABLE_VERITY
		0x800c6613,             // FS_IOC_SET_ENCRYPTION_POLICY
		0xc0506617, 0xc0406618, // FS_IOC_ADD_ENCRYPTION_KEY, FS_IOC_REMOVE_ENCRYPTION_KEY
	}

	// named are the calls that change a process given by its id, by the argument that has it.
	named = map[string]uint32{
		"prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
		"setpriority": 1, "ioprio_set": 1,
	}

	// objects are the calls that make, or find, what outlives its maker.
	objects = [...]string{"shmget", "semget", "msgget", "mq_open"}

	// fast are the calls that connect with their first data, where a flag says so, by the argument that has the flags.
	fast = map[string]uint32{"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
)

// check looks at the lower half of an argument, which is all that the kernel takes of the arguments that are looked at
// here.
type check struct {
	arg  uint32
	test asm.JumpTest
	val  uint32
}

func is(arg, val uint32) check    { return check{arg, asm.JumpEqual, val} }
func isNot(arg, val uint32) check { return check{arg, asm.JumpNotEqual, val} }
func has(arg, bits uint32) check  { return check{arg, asm.JumpBitsSet, bits} }

// rule answers a call whose arguments pass all checks.
type rule struct {
	when   []check
	answer uint32
}

// rules are those of each call; the first that applies decides, and where none does the call is allowed.
type rules map[string][]rule

func (r rules) add(name string, answer uint32, when ...check) {
	r[name] = append(r[name], rule{when, answer})
}

// rules of a profile. Those that look at arguments come before those that hand a call over.
func (p Profile) rules() rules {
	r := rules{}
	for _, name := range unread {
		r.add(name, missing)
	}
	for _, name := range closed {
		r.add(name, refused)
	}
	r.add("clone", refused, has(0, cloneNewUser))
	r.add("ioctl", refused, is(1, tiocsti))
	r.add("ioctl", refused, is(1, tioclinux))
	r.add("prctl", refused, is(0, prSchedCore))
	if p.NoIPC {
		for _, name := range objects {
			r.add(name, missing)
		}
	}
	for name, mode := range modes {
		r.add(name, refused, has(mode, special))
	}
	for name, at := range creates {
		r.add(name, refused, has(at[0], creating), has(at[1], special))
	}
	p.sockets(r)
	if p.SharedPIDs {
		r.add("setpriority", refused, isNot(0, prioProcess))
		r.add("ioprio_set", refused, isNot(0, ioprioProcess))
		for name, id := range named {
			r.add(name, notified, isNot(id, caller))
		}
	}
	if p.Metadata {
		p.files(r)
	}
	return r
}

// sockets are the rules of what leads to others.
func (p Profile) sockets(r rules) {
	switch {
	case p.NoSockets:
		r.add("socket", refused)
	case p.NoUnix:
		r.add("socket", refused, isNot(0, unix.AF_INET), isNot(0, unix.AF_INET6))
	}
	if p.NoSockets || p.NoUnix {
		// A pair of sockets for datagrams can be aimed at any socket of the machine afterwards.
		for _, kind := range []uint32{unix.SOCK_DGRAM, unix.SOCK_RAW} { // the kernel makes the second the first
			for _, flags := range []uint32{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
				r.add("socketpair", refused, is(1, kind|flags))
			}
		}
	}
	if p.Connect {
		for name, flags := range fast {
			r.add(name, refused, has(flags, unix.MSG_FASTOPEN))
		}
		r.add("connect", notified)
	}
}

// files are the rules of what is known of files.
func (p Profile) files(r rules) {
	for _, name := range metadataNew {
		r.add(name, missing)
	}
	for _, request := range attributes {
		r.add("ioctl", refused, is(1, request))
	}
	for _, name := range metadata {
		r.add(name, notified)
	}
}

// program turns the rules into instructions, for the calls that a processor has. The number of the call is loaded.
func (p Profile) program(numbers map[string]int) []asm.Instruction {
	all := p.rules()
	var list []asm.Instruction
	for _, name := range slices.Sorted(maps.Keys(all)) {
		number, ok := numbers[name]
		if !ok {
			continue
		}
		body := answers(all[name])
		list = append(list, asm.JumpIf{Cond: asm.JumpEqual, Val: uint32(number), SkipTrue: 1},
			asm.Jump{Skip: uint32(len(body))})
		list = append(list, body...)
	}
	return append(list, asm.RetConstant{Val: allowed})
}

// answers are the instructions for one call, which end with an answer.
func answers(list []rule) []asm.Instruction {
	var out []asm.Instruction
	for _, r := range list {
		for i, c := range r.when {
			rest := uint8(2*(len(r.when)-i-1) + 1) //nolint:gosec // two instructions for each check that is left, and the answer
			out = append(out, asm.LoadAbsolute{Off: offArgs + 8*c.arg + lower, Size: 4}, asm.JumpIf{Cond: c.test, Val: c.val,
				SkipFalse: rest})
		}
		out = append(out, asm.RetConstant{Val: r.answer})
		if len(r.when) == 0 {
			return out
		}
	}
	return append(out, asm.RetConstant{Val: allowed})
}

// lower is where the lower half of an argument begins.
var lower = func() uint32 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return 0
	}
	return 4
}()
