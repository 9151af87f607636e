package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/seccomp"
)

// MinABI is the version of Landlock that is needed: the first that closes signals and abstract sockets of others.
const MinABI = 6

// What MinABI knows, in the bits of landlock(7).
const (
	allFiles  landlock.AccessFSSet  = 1<<16 - 1
	allTCP    landlock.AccessNetSet = 1<<2 - 1
	allScopes landlock.ScopedSet    = 1<<2 - 1
)

// maxOrder bounds an order; environments and arguments are bounded by the kernel to less.
const maxOrder = 8 << 20

// Supported reports whether this kernel has what the launcher needs.
func Supported() error {
	abi, err := llsys.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("%w: this kernel has no Landlock, or it is off (it must be among lsm=... of the kernel's command line): %w", sandbox.ErrUnavailable, err)
	}
	if abi < MinABI {
		return fmt.Errorf("%w: this kernel has version %d of Landlock, %d is needed (Linux 6.12)", sandbox.ErrUnavailable,
			abi, MinABI)
	}
	return seccomp.Supported()
}

// Main is the launcher. It returns only where it failed.
func Main() int {
	runtime.LockOSThread() // credentials belong to a thread, and this one becomes the command
	if os.Args[1] == ConnectWord {
		return connect(os.Args[2:])
	}
	unix.CloseOnExec(faultFD)
	order, err := read()
	if err != nil {
		return fault(faultFD, err)
	}
	profile, err := order.isolation()
	if err == nil {
		err = filter(profile, faultFD)
	}
	if err != nil {
		return fault(faultFD, err)
	}
	err = unix.Exec(order.Path, order.Args, order.Env)
	return fault(faultFD, fmt.Errorf("%s: %w", order.Path, err))
}

// connect is the launcher that ConnectWord asks for.
func connect(args []string) int {
	var fds [2]int
	for i := range fds {
		fd, err := strconv.Atoi(args[i])
		if err != nil || fd <= faultFD {
			return fault(int(os.Stderr.Fd()), fmt.Errorf("argument %q is not a descriptor of a launcher", args[i]))
		}
		fds[i] = fd
		unix.CloseOnExec(fd)
	}
	socket, command := fds[0], args[len(fds):]
	if err := filter(seccomp.Profile{Connect: true}, socket); err != nil {
		return fault(socket, err)
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = unix.Exec(path, command, os.Environ())
	}
	return fault(socket, fmt.Errorf("%s: %w", command[0], err))
}

func read() (Order, error) {
	file := os.NewFile(orderFD, "order")
	var o Order
	if err := json.NewDecoder(io.LimitReader(file, maxOrder)).Decode(&o); err != nil || len(o.Args) == 0 {
		return o, fmt.Errorf("%w (%w)", ErrOrder, err)
	}
	return o, file.Close()
}

// wall does all that comes before the system call filter, which it returns, the strictest last: what is closed cannot
// be used to close the rest.
func (o Order) isolation() (p seccomp.Profile, err error) {
	fail := func(what string, err error) (seccomp.Profile, error) { return p, fmt.Errorf("%s: %w", what, err) }
	for _, file := range o.Groups {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fail("join a control group", err)
		}
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0}
	if o.FileSize > 0 {
		limits[unix.RLIMIT_FSIZE] = uint64(o.FileSize)
	}
	for what, most := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fail("set a limit", err)
		}
	}
	if err := os.Chdir(o.Dir); err != nil {
		return p, err
	}
	// What System V objects and message queues are made, and which are there, is the command's own where it may be. It
	// may not where the service has no right to namespaces: then they are closed.
	own := unix.Unshare(unix.CLONE_NEWIPC) == nil
	if err := o.files(); err != nil {
		return p, err
	}
	if o.Programs {
		unix.CloseOnExec(rulesFD)
		if err := llsys.LandlockRestrictSelf(rulesFD, 0); err != nil {
			return fail("landlock: deny programs", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return fail("drop capabilities", err)
	}
	return seccomp.Profile{NoSockets: !o.Network, NoUnix: true, SharedPIDs: true, Metadata: true, Connect: o.Network,
		NoIPC: !own}, nil
}

// filter loads the system call filter and sends its listener away.
func filter(p seccomp.Profile, socket int) error {
	fd, err := seccomp.Listen(p)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(socket, []byte{listening}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("send the listener of the system call filter: %w", err)
	}
	return unix.Close(fd)
}

// files closes what is not named, and with it TCP where the network is closed, and signals and abstract sockets of
// others.
func (o Order) files() error {
	args := []any{allFiles, allScopes}
	if !o.Network {
		args = append(args, allTCP)
	}
	cfg, err := landlock.NewConfig(args...)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	var rules []landlock.Rule
	add := func(paths []string, dir, file func(...string) landlock.FSRule) error {
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case err != nil:
				return err
			case info.IsDir():
				rules = append(rules, dir(path))
			default:
				rules = append(rules, file(path))
			}
		}
		return nil
	}
	if err := add(o.Read, landlock.RODirs, landlock.ROFiles); err != nil {
		return err
	}
	moving := func(paths ...string) landlock.FSRule { return landlock.RWDirs(paths...).WithRefer() }
	if err := add(o.Write, moving, landlock.RWFiles); err != nil {
		return err
	}
	if err := cfg.Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// dropCapabilities gives up all, also those that the command's program would be given for being root's.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		// Who may not do this is not root: nothing is given to its programs.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && os.Geteuid() == 0 {
			return err
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return err
	}
	return nil
}
