package bwrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
)

// network is a closed network with nothing in it but its loopback, which all commands of a sandbox have together: what
// one of them listens on another reaches. It is held by handles, and gone when they are closed and its last process has
// ended.
type network struct {
	// user is the user namespace that owns it. To enter it a process needs rights that it has there alone.
	user, net *os.File
}

// close lets go of it.
func (n *network) close() {
	if n != nil {
		_ = n.user.Close() // a handle without data
		_ = n.net.Close()
	}
}

// enter are the arguments that begin a command in it. Paths lead to the handles of this process, so that the command
// inherits none.
func (n *network) enter(nsenter string) []string {
	at := func(f *os.File) string {
		return "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(f.Fd()))
	}
	return []string{nsenter, "--preserve-credentials", "--user=" + at(n.user), "--net=" + at(n.net), "--"}
}

// newNetwork has bubblewrap make a network, takes hold of it, and lets bubblewrap go.
func newNetwork(ctx context.Context, program string) (n *network, err error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	// It dies with the thread that started it, which others may end (local.Apart) unless it is held.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var f files
	defer func() { f.close() }()
	if f.status, f.statusIn, err = os.Pipe(); err != nil {
		return nil, err
	}
	if f.hold, f.release, err = os.Pipe(); err != nil {
		return nil, err
	}
	// Its first process waits until the network was taken hold of. When it has ended well the network is set up.
	cmd := exec.CommandContext(ctx, program, "--unshare-user", "--unshare-net", "--uid", "0", "--gid", "0",
		"--die-with-parent",
		"--ro-bind", "/", "/", "--json-status-fd", "3", "--block-fd", "4", "--", "/bin/true")
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{f.statusIn, f.hold}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = f.statusIn.Close()
	if n, err = seize(ctx, f); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return nil, err
	}
	_, err = f.release.Write([]byte{1})
	if err = errors.Join(err, cmd.Wait()); err != nil {
		n.close()
		return nil, fmt.Errorf("bubblewrap created no network namespace: %w", err)
	}
	return n, nil
}

// seize takes hold of the network of which bubblewrap tells.
func seize(ctx context.Context, f files) (*network, error) {
	stop := context.AfterFunc(ctx, func() { _ = f.status.SetReadDeadline(time.Now()) })
	defer stop()
	var made struct {
		Child int    `json:"child-pid"`
		Net   uint64 `json:"net-namespace"`
	}
	if err := json.NewDecoder(io.LimitReader(f.status, statusMax)).Decode(&made); err != nil {
		return nil, fmt.Errorf("bubblewrap created no network namespace: %w", err)
	}
	if made.Child <= 0 || made.Net == 0 {
		return nil, errors.New("this bubblewrap does not report its network namespace")
	}
	return holdNetwork(made.Child, made.Net)
}

// holdNetwork takes hold of the network of a process, which must be the one with that number: the process may have
// become another.
func holdNetwork(pid int, number uint64) (*network, error) {
	net, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(net.Fd()), &st); err != nil || st.Ino != number {
		return nil, errors.Join(errors.New("the process that owns the network namespace has exited"), err, net.Close())
	}
	user, err := unix.IoctlRetInt(int(net.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("owner of the network namespace: %w", err), net.Close())
	}
	unix.CloseOnExec(user)
	return &network{user: os.NewFile(uintptr(user), "user namespace"), net: net}, nil
}

// findNsenter returns the program by which a command enters a network, empty where that does not work here: then each
// command has a network of its own. It really enters one.
func findNsenter(ctx context.Context, bubblewrap string) string {
	path, err := exec.LookPath("nsenter")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	n, err := newNetwork(ctx, bubblewrap)
	if err != nil {
		return ""
	}
	defer n.close()
	line := append(n.enter(path), bubblewrap, "--unshare-user", "--uid", user, "--gid", user, "--ro-bind", "/", "/", "--",
		"/bin/true")
	try := exec.CommandContext(ctx, line[0], line[1:]...)
	if try.Env = []string{}; try.Run() != nil {
		return ""
	}
	return path
}

// common is the network of all commands of a box, made with the first one.
type common struct {
	mu  sync.Mutex
	net *network // guarded by mu; nil until it is made
}

func (c *common) get(ctx context.Context, program string) (n *network, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net == nil {
		c.net, err = newNetwork(ctx, program)
	}
	return c.net, err
}

func (c *common) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.net.close()
}

// shares reports whether the commands of a sandbox are to have one network, and can.
func (b *instance) shares() bool {
	cfg := b.Config()
	return cfg.Lasting && !cfg.Network && cfg.Egress == nil && b.bwrap.nsenter() != ""
}

// line is the command line that begins bubblewrap.
func (b *instance) line(ctx context.Context) ([]string, error) {
	if !b.shares() {
		return []string{b.bwrap.path}, nil
	}
	n, err := b.common.get(context.WithoutCancel(ctx), b.bwrap.path) // for all that come, not for this one alone
	if err != nil {
		return nil, fmt.Errorf("%w: the network of the sandbox: %w", sandbox.ErrNotStarted, err)
	}
	return append(n.enter(b.bwrap.nsenter()), b.bwrap.path), nil
}
