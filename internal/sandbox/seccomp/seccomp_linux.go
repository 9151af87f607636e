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

	bpf "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	asm "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Profile says what a filter closes besides what it always does.
type Profile struct {
	// NoSockets closes socket(2): there is no way to any network and to no service of the machine. Pairs of sockets,
	// which programs use among themselves, work.
	NoSockets bool
	// NoUnix closes sockets of the families that are no network of machines; internet sockets work.
	NoUnix bool
}

// closed are the system calls that are always refused. Those that a processor does not have are left out.
var closed = [...]string{
	// The tree of files, from which a mount could take walls away or see behind them.
	"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "name_to_handle_at", "open_by_handle_at", "swapon", "swapoff", "quotactl", "quotactl_fd",
	// Namespaces.
	"unshare", "setns",
	// The kernel and the machine.
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "perf_event_open", "reboot",
	"syslog", "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "iopl", "ioperm", "vhangup", "sethostname", "setdomainname",
	"create_module", "get_kernel_syms", "query_module", "nfsservctl", "lookup_dcookie", "uselib", "ustat", "_sysctl", "userfaultfd",
	// Keys, which are shared between the sandboxes of one user.
	"add_key", "request_key", "keyctl",
	// Requests that the kernel carries out without a system call: no filter sees them.
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	// The memory of other processes.
	"process_vm_writev", "process_vm_readv", "pidfd_getfd", "kcmp", "move_pages",
}

const (
	cloneNewUser = 0x10000000
	// Typing for somebody at a terminal.
	tiocsti, tioclinux = 0x5412, 0x541C
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
	names := make([]string, 0, len(closed)+1)
	for _, name := range closed {
		if _, ok := machine.SyscallNames[name]; ok {
			names = append(names, name)
		}
	}
	if p.NoSockets {
		names = append(names, "socket")
	}
	conditions := []bpf.NameWithConditions{
		{Name: "clone", Conditions: bpf.ArgumentConditions{{Argument: 0, Operation: bpf.BitsSet, Value: cloneNewUser}}},
		{Name: "ioctl", Conditions: bpf.ArgumentConditions{{Argument: 1, Operation: bpf.Equal, Value: tiocsti}}},
		{Name: "ioctl", Conditions: bpf.ArgumentConditions{{Argument: 1, Operation: bpf.Equal, Value: tioclinux}}},
	}
	if p.NoUnix && !p.NoSockets {
		conditions = append(conditions, bpf.NameWithConditions{Name: "socket", Conditions: bpf.ArgumentConditions{
			{Argument: 0, Operation: bpf.NotEqual, Value: unix.AF_INET}, {Argument: 0, Operation: bpf.NotEqual, Value: unix.AF_INET6}}})
	}
	policy := bpf.Policy{DefaultAction: bpf.ActionAllow, Syscalls: []bpf.SyscallGroup{
		// A library that is told that clone3 is not there uses clone, whose flags can be looked at.
		{Action: bpf.ActionErrno | bpf.Action(unix.ENOSYS), Names: []string{"clone3"}},
		{Action: bpf.ActionErrno, Names: names},
		{Action: bpf.ActionErrno, NamesWithCondtions: conditions},
	}}
	list, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	// The numbers of other processor modes mean other calls, and the policy's own answer to those modes is to allow.
	guard := []asm.Instruction{
		asm.LoadAbsolute{Off: 4, Size: 4}, // seccomp_data.arch
		asm.JumpIf{Cond: asm.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		asm.RetConstant{Val: uint32(bpf.ActionErrno) | uint32(unix.ENOSYS)},
	}
	raw, err := asm.Assemble(append(guard, list...))
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	return raw, nil
}

// Load puts the filter on every thread of this process, for good and for all that it starts. The process must not be
// able to get new privileges any more.
func Load(p Profile) error {
	list, err := assemble(p)
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(list))
	for i, in := range list {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return fmt.Errorf("load the system call filter: %w", errno)
	}
	return nil
}
