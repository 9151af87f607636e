// Package seccomp makes the system call filter of sandboxes.
//
// Promises: what tools have no need of and what has let programs out of sandboxes before is refused with EPERM: mounts,
// namespaces, modules, keys, tracing of the kernel, rings of requests that no filter sees. A program for another
// processor mode, whose calls have other numbers, is refused every call. What is not listed is allowed: the filter
// narrows the way to the kernel, the walls are made by others.
package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	asm "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Profile says what a filter closes besides what it always does.
type Profile struct {
	// NoSockets closes socket(2): there is no way to any network and to no service of the machine. Pairs of connected
	// sockets, which programs use among themselves, work.
	NoSockets bool
	// NoUnix closes sockets of the families that are no network of machines; internet sockets work.
	NoUnix bool
	// SharedPIDs is for commands that have the process ids of the machine: a call that would change a process given by
	// its id is handed to the listener, one that would change many at once is refused.
	SharedPIDs bool
	// Metadata is for commands that have the files of the machine: a call that changes the mode, owner, times or
	// attributes of a file is handed to the listener.
	Metadata bool
	// Connect hands connect(2) to the listener.
	Connect bool
	// NoIPC closes System V objects and POSIX message queues, which outlive the processes that made them.
	NoIPC bool
}

// Listens reports whether the filter hands calls to a listener: then it is loaded with Listen.
func (p Profile) Listens() bool { return p.SharedPIDs || p.Metadata || p.Connect }

// closed are the system calls that are always refused. Those that a processor does not have are left out.
var closed = [...]string{
	// The tree of files, from which a mount could take walls away or see behind them.
	"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig",
	"fsmount", "fspick",
	"mount_setattr", "name_to_handle_at", "open_by_handle_at", "swapon", "swapoff", "quotactl", "quotactl_fd",
	// Namespaces.
	"unshare", "setns",
	// The kernel and the machine.
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "perf_event_open", "reboot",
	"syslog", "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "iopl", "ioperm", "vhangup",
	"sethostname", "setdomainname",
	"create_module", "get_kernel_syms", "query_module", "nfsservctl", "lookup_dcookie", "uselib", "ustat", "_sysctl",
	"userfaultfd",
	// Keys, which are shared between the sandboxes of one user.
	"add_key", "request_key", "keyctl",
	// Requests that the kernel carries out without a system call: no filter sees them.
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	// The memory of other processes.
	"process_vm_writev", "process_vm_readv", "pidfd_getfd", "kcmp", "move_pages", "migrate_pages", "process_madvise",
	"process_mrelease",
}

// Offsets in struct seccomp_data of seccomp(2).
const (
	offNumber  = 0
	offMachine = 4
	offArgs    = 16
)

// Program returns the filter as bubblewrap and the kernel take it: instructions of 8 bytes each.
func Program(p Profile) ([]byte, error) {
	list, err := assemble(p)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 8*len(list))
	for _, in := range list {
		out = binary.NativeEndian.AppendUint16(out, in.Op)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out, nil
}

// Supported reports whether filters can be made for this processor.
func Supported() error {
	_, err := assemble(Profile{})
	return err
}

func assemble(p Profile) ([]asm.RawInstruction, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("system call filter for %s: %w", runtime.GOARCH, err)
	}
	// The numbers of other processor modes mean other calls.
	list := []asm.Instruction{
		asm.LoadAbsolute{Off: offMachine, Size: 4},
		asm.JumpIf{Cond: asm.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		asm.RetConstant{Val: missing},
		// A call that the table does not have yet, or of another mode of this processor, may do what is closed here.
		asm.LoadAbsolute{Off: offNumber, Size: 4},
		asm.JumpIf{Cond: asm.JumpLessOrEqual, Val: uint32(last(machine.SyscallNames)), SkipTrue: 1},
		asm.RetConstant{Val: missing},
	}
	raw, err := asm.Assemble(append(list, p.program(machine.SyscallNames)...))
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	return raw, nil
}

// last returns the greatest number of a system call.
func last(names map[string]int) int {
	most := 0
	for _, number := range names {
		most = max(most, number)
	}
	return most
}

// Load puts the filter on every thread of this process, for good and for all that it starts. The process must not be
// able to get new privileges any more.
func Load(p Profile) error {
	_, err := load(p, unix.SECCOMP_FILTER_FLAG_TSYNC)
	return err
}

// Listen is Load for a profile that Listens. It returns the descriptor at which the calls are answered that the filter
// hands over; it is closed on exec.
func Listen(p Profile) (int, error) {
	// A signal that is handled does not take a call back that is being answered: runtimes send themselves such signals
	// all the time.
	return load(p, unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH|
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

func load(p Profile, flags uintptr) (int, error) {
	list, err := assemble(p)
	if err != nil {
		return -1, err
	}
	filters := make([]unix.SockFilter, len(list))
	for i, in := range list {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return -1, fmt.Errorf("load the system call filter: %w", errno)
	}
	return int(fd), nil
}
