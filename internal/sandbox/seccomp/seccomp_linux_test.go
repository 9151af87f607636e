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
	hand   = uint32(unix.SECCOMP_RET_USER_NOTIF)
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
		binary.BigEndian.PutUint32(data[offArgs+8*i+int(lower):], uint32(arg))
		binary.BigEndian.PutUint32(data[offArgs+8*i+4-int(lower):], uint32(arg>>32))
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
		"typing for others, in half a word":  {Profile{}, own, number("ioctl"), []uint64{0, 7<<32 | tiocsti}, refuse},
		"typing for others, and a sign":      {Profile{}, own, number("ioctl"), []uint64{0, 0xffffffff<<32 | tiocsti}, refuse},
		"a request that looks negative":      {Profile{}, own, number("ioctl"), []uint64{0, 0xffffffff<<32 | 0x80045430}, allow},
		"a request with its upper bit":       {Profile{}, own, number("ioctl"), []uint64{0, 0x80045430}, allow},
		"pasting for others":                 {Profile{}, own, number("ioctl"), []uint64{0, tioclinux}, refuse},
		"read, as another machine counts":    {Profile{}, uint32(arch.I386.ID), 3, nil, absent},
		"any call of another machine":        {Profile{}, uint32(arch.ARM.ID), number("read"), nil, absent},
		"a call that no list has yet":        {Profile{}, own, uint32(last(machine.SyscallNames)) + 1, nil, absent},
		"a mode":                             {Profile{}, own, number("fchmodat"), []uint64{0, 0, 0o755}, allow},
		"a mode with the user's bit":         {Profile{}, own, number("fchmodat"), []uint64{0, 0, 0o4755}, refuse},
		"a mode with the group's bit":        {Profile{}, own, number("fchmod"), []uint64{0, 0o2755}, refuse},
		"a mode with both bits, by a link":   {Profile{}, own, number("fchmodat2"), []uint64{0, 0, 0o6755, 0}, refuse},
		"a new file":                         {Profile{}, own, number("openat"), []uint64{0, 0, unix.O_CREAT, 0o755}, allow},
		"a new file with the user's bit":     {Profile{}, own, number("openat"), []uint64{0, 0, unix.O_CREAT, 0o4755}, refuse},
		"a nameless file with that bit":      {Profile{}, own, number("openat"), []uint64{0, 0, unix.O_TMPFILE, 0o4755}, refuse},
		"a file, with what looks like bits":  {Profile{}, own, number("openat"), []uint64{0, 0, unix.O_RDONLY, 0o4755}, allow},
		"a folder, with what looks like it":  {Profile{}, own, number("openat"), []uint64{0, 0, unix.O_DIRECTORY, 0o4755}, allow},
		"a node with the user's bit":         {Profile{}, own, number("mknodat"), []uint64{0, 0, unix.S_IFREG | 0o4755}, refuse},
		"a file whose flags are in memory":   {Profile{}, own, number("openat2"), nil, absent},
		"a limit of one's own":               {Profile{SharedPIDs: true}, own, number("prlimit64"), []uint64{0, 7}, allow},
		"a limit of one's own, half a word":  {Profile{SharedPIDs: true}, own, number("prlimit64"), []uint64{1 << 32, 7}, allow},
		"a limit of another":                 {Profile{SharedPIDs: true}, own, number("prlimit64"), []uint64{1, 7}, hand},
		"a limit, ids of its own":            {Profile{}, own, number("prlimit64"), []uint64{1, 7}, allow},
		"processors of one's own":            {Profile{SharedPIDs: true}, own, number("sched_setaffinity"), []uint64{0}, allow},
		"processors of another":              {Profile{SharedPIDs: true}, own, number("sched_setaffinity"), []uint64{7}, hand},
		"processors of another, looked at":   {Profile{SharedPIDs: true}, own, number("sched_getaffinity"), []uint64{7}, allow},
		"niceness of one's own":              {Profile{SharedPIDs: true}, own, number("setpriority"), []uint64{0, 0, 5}, allow},
		"niceness of another":                {Profile{SharedPIDs: true}, own, number("setpriority"), []uint64{0, 7, 5}, hand},
		"niceness of a group":                {Profile{SharedPIDs: true}, own, number("setpriority"), []uint64{1, 0, 5}, refuse},
		"niceness of a user":                 {Profile{SharedPIDs: true}, own, number("setpriority"), []uint64{2, 0, 5}, refuse},
		"turn at the disk of one's own":      {Profile{SharedPIDs: true}, own, number("ioprio_set"), []uint64{1, 0, 5}, allow},
		"turn at the disk of a user":         {Profile{SharedPIDs: true}, own, number("ioprio_set"), []uint64{3, 0, 5}, refuse},
		"a mode where files are shared":      {Profile{Metadata: true}, own, number("fchmodat"), []uint64{0, 0, 0o755}, hand},
		"a bit where files are shared":       {Profile{Metadata: true}, own, number("fchmodat"), []uint64{0, 0, 0o4755}, refuse},
		"times where files are shared":       {Profile{Metadata: true}, own, number("utimensat"), nil, hand},
		"flags where files are shared":       {Profile{Metadata: true}, own, number("ioctl"), []uint64{0, uint64(attributes[0])}, refuse},
		"a connection":                       {Profile{Connect: true}, own, number("connect"), nil, hand},
		"a connection with its first data":   {Profile{Connect: true}, own, number("sendto"), []uint64{0, 0, 0, unix.MSG_FASTOPEN}, refuse},
		"a loose pair":                       {Profile{NoUnix: true}, own, number("socketpair"), []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, refuse},
		"a loose pair, in half a word":       {Profile{NoUnix: true}, own, number("socketpair"), []uint64{unix.AF_UNIX, 1<<32 | unix.SOCK_DGRAM}, refuse},
		"a loose pair without sockets":       {Profile{NoSockets: true}, own, number("socketpair"), []uint64{unix.AF_UNIX, unix.SOCK_RAW}, refuse},
		"a pair of streams":                  {Profile{NoUnix: true}, own, number("socketpair"), []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		"shared memory":                      {Profile{}, own, number("shmget"), nil, allow},
		"shared memory that stays":           {Profile{NoIPC: true}, own, number("shmget"), nil, absent},
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
