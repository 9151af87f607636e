package seccomp

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	asm "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	allow  = uint32(unix.SECCOMP_RET_ALLOW)
	refuse = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	absent = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
)

// answer runs a filter over one system call, as the kernel would.
func answer(t *testing.T, p Profile, machine uint32, call uint32, args ...uint64) uint32 {
	t.Helper()
	raw, err := assemble(p)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := asm.Disassemble(raw)
	if !ok {
		t.Fatal("an instruction is not known")
	}
	vm, err := asm.NewVM(list)
	if err != nil {
		t.Fatal(err)
	}
	// struct seccomp_data; the machine here reads words as networks send them.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[0:], call)
	binary.BigEndian.PutUint32(data[4:], machine)
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(arg>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestFilter(t *testing.T) {
	t.Parallel()
	machine, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	own := uint32(machine.ID)
	number := func(name string) uint32 {
		n, ok := machine.SyscallNames[name]
		if !ok {
			t.Fatalf("no %s here", name)
		}
		return uint32(n)
	}
	for name, c := range map[string]struct {
		profile Profile
		machine uint32
		call    uint32
		args    []uint64
		want    uint32
	}{
		"read":                               {Profile{}, own, number("read"), nil, allow},
		"execve":                             {Profile{}, own, number("execve"), nil, allow},
		"a socket":                           {Profile{}, own, number("socket"), []uint64{unix.AF_INET}, allow},
		"no sockets":                         {Profile{NoSockets: true}, own, number("socket"), []uint64{unix.AF_INET}, refuse},
		"a pair, without sockets":            {Profile{NoSockets: true}, own, number("socketpair"), []uint64{unix.AF_UNIX}, allow},
		"an internet socket":                 {Profile{NoUnix: true}, own, number("socket"), []uint64{unix.AF_INET}, allow},
		"an internet socket, 6":              {Profile{NoUnix: true}, own, number("socket"), []uint64{unix.AF_INET6}, allow},
		"a socket that is a file":            {Profile{NoUnix: true}, own, number("socket"), []uint64{unix.AF_UNIX}, refuse},
		"a raw socket":                       {Profile{NoUnix: true}, own, number("socket"), []uint64{unix.AF_PACKET}, refuse},
		"a fork":                             {Profile{}, own, number("clone"), []uint64{uint64(unix.SIGCHLD)}, allow},
		"a fork into a user namespace":       {Profile{}, own, number("clone"), []uint64{cloneNewUser | uint64(unix.SIGCHLD)}, refuse},
		"a clone that no filter can look at": {Profile{}, own, number("clone3"), nil, absent},
		"a terminal's size":                  {Profile{}, own, number("ioctl"), []uint64{0, unix.TIOCGWINSZ}, allow},
		"typing for others":                  {Profile{}, own, number("ioctl"), []uint64{0, tiocsti}, refuse},
		"pasting for others":                 {Profile{}, own, number("ioctl"), []uint64{0, tioclinux}, refuse},
		"read, as another machine counts":    {Profile{}, uint32(arch.I386.ID), 3, nil, absent},
		"any call of another machine":        {Profile{}, uint32(arch.ARM.ID), number("read"), nil, absent},
	} {
		t.Run("SBX-14 "+name, func(t *testing.T) {
			t.Parallel()
			if got := answer(t, c.profile, c.machine, c.call, c.args...); got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
	t.Run("SBX-14 all that is closed is refused", func(t *testing.T) {
		t.Parallel()
		n := 0
		for _, name := range closed {
			call, ok := machine.SyscallNames[name]
			if !ok {
				continue
			}
			n++
			if got := answer(t, Profile{}, own, uint32(call)); got != refuse {
				t.Errorf("%s: got %#x", name, got)
			}
		}
		if n < 40 {
			t.Errorf("only %d of %d calls are known on this machine", n, len(closed))
		}
	})
}
