package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

const (
	// systemPath is where programs are looked for.
	systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// boxGroup holds the control groups of all commands.
	sandboxGroup = groups + "/box"
	// groupWait is how long the processes of a control group may take to be gone after they were killed.
	groupWait = 20 * time.Second
	// fullEvery is how often a disk is looked at, and fullBytes what is left on a full one.
	fullEvery = 50 * time.Millisecond
	fullBytes = 64 << 10
	// helperProcesses are those around a command, which are not counted against its limit: the shell that waits for it.
	helperProcesses = 1
)

// agent does what the toolrunner asks.
type agent struct {
	next     atomic.Int64
	fileSize atomic.Int64 // the largest file of commands, 0 for any
}

var _ wire.Guest = (*agent)(nil)

func newAgent() (*agent, error) {
	for _, dir := range []string{groups, sandboxGroup} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		for _, controller := range []string{"cpu", "memory", "pids", "io"} {
			err := os.WriteFile(dir+"/cgroup.subtree_control", []byte("+"+controller), 0)
			if err != nil && controller != "io" {
				return nil, fmt.Errorf("the kernel has no control group %s: %w", controller, err)
			}
		}
	}
	return &agent{}, nil
}

// Run implements wire.Guest.
func (a *agent) Run(ctx context.Context, p mirror.Program) error {
	if len(p.Args) == 0 {
		return errors.New("no program")
	}
	if p.Privileged {
		cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
		cmd.Env, cmd.Dir = []string{"PATH=" + systemPath, "HOME=/"}, "/"
		return started(cmd, p, func() {})
	}
	group := fmt.Sprintf("%s/%d", sandboxGroup, a.next.Add(1))
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	defer func() { _ = os.Remove(group) }() // an empty one is no harm
	order := launchOrder{Args: p.Args, Env: []string{"PATH=" + systemPath, "HOME=" + Home}, Group: group,
		FileSize: a.fileSize.Load()}
	cmd := exec.Command("/proc/self/exe", wordLaunch)
	cmd.Env, cmd.Dir = []string{}, "/"
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{read}
	var telling sync.WaitGroup
	telling.Go(func() {
		_ = order.write(write) // a launcher that did not read it says so
		_ = write.Close()
	})
	stop := context.AfterFunc(ctx, func() { _ = killGroup(group) }) // it is killed again below
	defer stop()
	err = started(cmd, p, func() {
		_ = read.Close() // who tells ends also where the launcher did not come to read
		if kerr := emptied(group); kerr != nil {
			fmt.Fprintln(os.Stderr, "inspan-guest:", kerr)
		}
		if p.Used != nil {
			u := cgroup.UsageOf(group)
			*p.Used = mirror.Used{User: u.User, System: u.System, Memory: u.MaxMemory, Read: u.ReadBytes, Written: u.WriteBytes}
		}
	})
	_ = read.Close() // it may be closed
	telling.Wait()
	return err
}

// started runs a process with its streams until all of them have ended. after is called when the process has ended.
func started(cmd *exec.Cmd, p mirror.Program, after func()) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var copies sync.WaitGroup
	var ours, theirs []*os.File
	shut := func(list []*os.File) {
		for _, f := range list {
			_ = f.Close() // some are closed already
		}
	}
	defer func() { shut(ours) }()
	defer func() { shut(theirs) }()
	outputs := [2]*os.File{}
	for i := range outputs {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		ours, theirs, outputs[i] = append(ours, r), append(theirs, w), r
	}
	cmd.Stdout, cmd.Stderr = theirs[0], theirs[1]
	var input *os.File
	if p.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		ours, theirs, cmd.Stdin, input = append(ours, w), append(theirs, r), r, w
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	shut(theirs)
	for i, to := range []io.Writer{p.Stdout, p.Stderr} {
		copies.Go(func() { _, _ = io.Copy(to, outputs[i]) }) // what no one receives is dropped
	}
	if input != nil {
		go func() { // ends with the stream, whose other end closes it
			_, _ = io.Copy(input, p.Stdin)
			_ = input.Close()
		}()
	}
	_ = cmd.Wait() // how it ended tells the shell that waits for the command
	after()
	copies.Wait()
	return nil
}

func killGroup(group string) error { return os.WriteFile(group+"/cgroup.kill", []byte("1"), 0) }

// Put implements wire.Guest.
func (*agent) Put(_ context.Context, path string, body io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // what is not whole takes no room
	}
	return err
}

// Get implements wire.Guest.
func (*agent) Get(_ context.Context, path string) (io.ReadCloser, error) { return os.Open(path) }

// Hold implements wire.Guest.
func (a *agent) Hold(_ context.Context, h wire.Hold, out func() (net.Conn, error)) error {
	if !strings.HasPrefix(h.Base, Home+"/") || filepath.Clean(h.Base) != h.Base {
		return fmt.Errorf("%w: the base %.100q", wire.ErrStream, h.Base)
	}
	for name, mode := range map[string]os.FileMode{"home": 0o700, "tmp": 0o700, "ws": 0o755,
		"public": 0o777 | fs.ModeSticky} {
		at := sandboxDisk + "/" + name
		if err := errors.Join(os.Mkdir(at, 0o700), os.Chmod(at, mode)); err != nil {
			return err
		}
		target := h.Base + "/" + name
		if name == "public" {
			target = "/tmp"
		} else if err := os.Chown(at, User, User); err != nil {
			return err
		}
		if err := unix.Mount(at, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("copy %s to the disk of the sandbox: %w", target, err)
		}
	}
	// What is beside them is on the disk that is not counted: commands do not write there.
	for _, dir := range []string{h.Base, Home} {
		if err := errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o755)); err != nil {
			return err
		}
	}
	a.fileSize.Store(h.Disk)
	if err := limit(h); err != nil {
		return err
	}
	if err := local.Loopback(); err != nil {
		return fmt.Errorf("bring up the loopback: %w", err)
	}
	return a.lead(h, out)
}

// limit writes the limits of all commands together.
func limit(h wire.Hold) error {
	const period = 100_000 // microseconds
	values := map[string]string{}
	if h.CPU > 0 {
		values["cpu.max"] = fmt.Sprintf("%d %d", int(h.CPU*period), period)
	}
	if h.Memory > 0 {
		values["memory.max"] = strconv.FormatInt(h.Memory, 10)
	}
	if h.PIDs > 0 {
		values["pids.max"] = strconv.Itoa(h.PIDs + helperProcesses)
	}
	for name, value := range values {
		if err := os.WriteFile(sandboxGroup+"/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("limit %s: %w", name, err)
		}
	}
	return nil
}

// lead opens the way out: a port of the loopback whose connections go to the toolrunner.
func (a *agent) lead(h wire.Hold, out func() (net.Conn, error)) error {
	for path, data := range h.Shown {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o444)); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	if h.Port == 0 {
		return nil
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", h.Port))
	if err != nil {
		return err
	}
	go func() { // as long as the machine
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				far, err := out()
				if err != nil {
					_ = conn.Close()
					return
				}
				wire.Join(conn, far)
			}()
		}
	}()
	return nil
}

// Full implements wire.Guest.
func (*agent) Full(ctx context.Context) error {
	tick := time.NewTicker(fullEvery)
	defer tick.Stop()
	for had := false; ; {
		var st unix.Statfs_t
		if err := unix.Statfs(sandboxDisk, &st); err != nil {
			return err
		}
		full := st.Bavail*uint64(st.Bsize) < fullBytes
		if had && full {
			return nil
		}
		had = had || !full
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
