package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/seccomp"
)

// orderFD is where a launcher finds its order, and maxOrder the most bytes of one.
const (
	orderFD  = 3
	maxOrder = 8 << 20
)

// launchOrder is what a launcher does: it joins a control group, gives up every right and becomes a program.
type launchOrder struct {
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Group    string   `json:"group"`
	FileSize int64    `json:"file_size,omitempty"`
}

func (o launchOrder) write(w io.Writer) error { return json.NewEncoder(w).Encode(o) }

// launch becomes the command. It returns only where it failed.
func launch() error {
	runtime.LockOSThread() // credentials belong to a thread, and this one becomes the command
	file := os.NewFile(orderFD, "order")
	var o launchOrder
	if err := json.NewDecoder(io.LimitReader(file, maxOrder)).Decode(&o); err != nil {
		return fmt.Errorf("no launch order: %w", err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	path, err := exec.LookPath(o.Args[0])
	if err != nil {
		return err
	}
	if err := o.isolation(); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, unix.Exec(path, o.Args, o.Env))
}

// wall does all that comes before the command, the strictest last.
func (o launchOrder) isolation() error {
	if err := os.WriteFile(o.Group+"/cgroup.procs", []byte("0"), 0); err != nil {
		return fmt.Errorf("join a control group: %w", err)
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0}
	if o.FileSize > 0 {
		limits[unix.RLIMIT_FSIZE] = uint64(o.FileSize)
	}
	for what, most := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set a limit: %w", err)
		}
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // a kernel that is older does not know all
	}
	// Of this thread alone, which becomes the command: to ask it of all threads takes seconds on a slow machine.
	for _, call := range [...][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, User, User, User},
		{unix.SYS_SETRESUID, User, User, User}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return fmt.Errorf("drop to an unprivileged user: %w", errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("disable new privileges: %w", err)
	}
	return seccomp.Load(seccomp.Profile{})
}
