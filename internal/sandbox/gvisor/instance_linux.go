package gvisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/seccomp"
)

// endWait is how long a killed kernel may take to be gone.
const endWait = 10 * time.Second

type instance struct {
	*local.Sandbox
	found  install
	mounts []mount
	// held are named paths in directories that commands write, and where each is mounted for runsc to find it: a
	// command that runs at the same time can put a link in such a path's place.
	held map[string]string
	// group bounds and measures all kernels of this sandbox; nil where this machine has no groups to write.
	group *cgroup.Group

	mu      sync.Mutex
	running map[int]*kernel // guarded by mu; by the number of its runsc outside
	busy    int             // guarded by mu; commands that run or begin to
}

var _ sandbox.Sandbox = (*instance)(nil)

// open binds a sandbox to a workspace, with an install that may not have been tried yet.
func (b *Backend) open(ctx context.Context, cfg sandbox.Config, found install) (sandbox.Sandbox, error) {
	if err := b.check(cfg); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	inner, err := local.OpenSandbox(cfg, sandbox.GVisor, b.cfg.Base, homeInside, tmpInside)
	if err != nil {
		return nil, err
	}
	x := &instance{Sandbox: inner, found: found, running: map[int]*kernel{}, held: map[string]string{}}
	x.Serve(x.run, x.send)
	x.OnDestroy(func(context.Context) error { return x.group.Remove() })
	if err = makePrivate(inner); err == nil {
		x.mounts, err = x.view()
	}
	if groups := b.groups(); err == nil && groups.Works() {
		limits := cfg.Limits
		limits.PIDs = 0 // gVisor's kernel counts its own; threads of runsc are not the command's
		if limits.Memory > 0 {
			limits.Memory += Overhead
		}
		x.group, err = groups.New(inner.Name(), limits)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), x.Destroy(context.WithoutCancel(ctx)))
	}
	return x, nil
}

// kernel is what one command runs under.
type kernel struct {
	sandbox *instance
	// name is that of its container, which no one else has; dir holds its bundle.
	name, dir string
	// outside is the number of its runsc on this machine, 0 until it is started.
	outside int
}

// file returns a path in the bundle.
func (k *kernel) file(name string) string { return filepath.Join(k.dir, name) }

// command returns the command line of runsc for a verb, with its path first.
func (k *kernel) command(verb string, args ...string) []string {
	network := "none"
	if hostNetwork(k.sandbox.Config()) {
		network = "host"
	}
	line := append([]string{k.sandbox.found.path, "--root=" + k.sandbox.Private("runsc"), "--log=" + k.file(verb+".log"),
		"--platform=" + k.sandbox.found.platform, "--network=" + network, "--ignore-cgroups", "--overlay2=none",
		"--host-fifo=open", "--oci-seccomp"}, k.sandbox.found.flags...)
	if os.Geteuid() != 0 {
		line = append(line, "--rootless")
	}
	return append(append(line, verb), args...)
}

// run carries out one command under a kernel of its own.
func (b *instance) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	program := p.Args[0]
	fail := func(err error) (sandbox.Exit, error) {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", program, err)
	}
	leave, err := b.begin()
	if err != nil {
		return fail(err)
	}
	defer leave()
	k, err := b.bundle(p)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = local.RemoveAll(k.dir) }() // what is left goes with the sandbox
	group, err := b.group.Child()                 // of this command
	if err != nil {
		return fail(err)
	}
	p.Args, p.Dir, p.Wrapped = k.command("run", "--bundle="+k.dir, "--pid-file="+k.file("pid"), k.name), "/", true
	p.Env = local.Env{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	p.Started = func(pid int) {
		b.enter(k, pid)
		if started != nil && k.awaited(ctx) {
			started(numberOf(pid, first))
		}
	}
	var used cgroup.Usage
	var left error
	p.After = func() {
		b.exit(k)
		left = k.end()
		used = group.Usage()
		left = errors.Join(left, group.Remove())
	}
	exit, closed, err := b.start(ctx, p, func(command []string) []string { return joining(group, command) })
	used.Fill(&exit)
	switch complaint := k.complaint("run"); {
	case left != nil:
		return fail(errors.Join(err, left))
	case err != nil:
		return exit, err
	case closed != nil:
		return fail(fmt.Errorf("%w: %w", sandbox.ErrNotStarted, closed))
	case used.Killed > 0 && b.Config().Limits.Memory > 0 && (complaint != "" || exit.Code == 128+int(unix.SIGKILL)):
		return exit, fmt.Errorf("exec %q was ended: %w: %d bytes", program, ErrMemory, b.Config().Limits.Memory)
	case complaint != "":
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: gVisor: %s", program, sandbox.ErrNotStarted, complaint)
	}
	local.Signalled(&exit)
	return exit, nil
}

// begin takes the place of a command: one that a limit of processes bounds runs alone, because each kernel counts for
// itself.
func (b *instance) begin() (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Config().Limits.PIDs > 0 && b.busy > 0 {
		return nil, ErrBusy
	}
	b.busy++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy--
	}, nil
}

// enter and exit keep the list of kernels that run.
func (b *instance) enter(k *kernel, outside int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k.outside = outside
	b.running[outside] = k
}

func (b *instance) exit(k *kernel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, k.outside)
}

// bundle writes what runsc needs to know of a command.
func (b *instance) bundle(p local.Process) (*kernel, error) {
	k := &kernel{sandbox: b, name: strings.ToLower(rand.Text()[:16])}
	k.dir = b.Private("run-" + k.name)
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		return nil, err
	}
	limits := []rlimit{{Type: "RLIMIT_CORE"}}
	for name, most := range map[string]int64{"RLIMIT_NPROC": int64(b.Config().Limits.PIDs),
		"RLIMIT_FSIZE": b.Config().Limits.Disk} {
		if most > 0 {
			limits = append(limits, rlimit{Type: name, Hard: uint64(most), Soft: uint64(most)})
		}
	}
	s := spec{Version: "1.0.0", Hostname: "inspan", Root: root{Path: b.Private("root"), ReadOnly: true}, Mounts: b.mounts,
		Process: process{Args: p.Args, Env: append(p.Env.List(), local.MarkerName+"="+p.Marker), Dir: p.Dir,
			Capabilities: noCapabilities(), Rlimits: limits, NoNew: true},
		Linux: linux{Seccomp: closing(seccomp.Closed())}}
	for _, one := range []string{"pid", "mount", "ipc", "uts", "network"} {
		if one != "network" || !hostNetwork(b.Config()) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, namespace{one})
		}
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(k.file("config.json"), text, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, local.RemoveAll(k.dir))
	}
	return k, nil
}

// joiner puts itself into control groups and becomes runsc: what runsc starts is in them from its first moment on.
const joiner = `n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1" || exit 125; shift; n=$((n-1)); done; exec "$@"`

func joining(group *cgroup.Group, command []string) []string {
	if group == nil {
		return command
	}
	files := group.Files()
	line := append([]string{"/bin/sh", "-c", joiner, "sh", strconv.Itoa(len(files))}, files...)
	return append(line, command...)
}

// complaint is why runsc could not do something, in its own words; empty where it could.
func (k *kernel) complaint(verb string) string {
	text, err := os.ReadFile(k.file(verb + ".log"))
	if err != nil {
		return ""
	}
	var said []string
	docs := json.NewDecoder(strings.NewReader(string(text)))
	for {
		var one struct {
			Msg   string `json:"msg"`
			Level string `json:"level"`
		}
		if docs.Decode(&one) != nil {
			return clip(strings.Join(said, ": "))
		}
		if one.Level == "error" || one.Level == "fatal" {
			said = append(said, one.Msg)
		}
	}
}

// end makes sure that the kernel itself is gone: it ends when its runsc does, and that may take a moment.
func (k *kernel) end() error {
	text, err := os.ReadFile(k.file("pid"))
	if err != nil {
		return nil // it was never there
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // gone
	}
	defer func() { _ = unix.Close(fd) }()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || !strings.Contains(string(line), k.name) {
		return nil // gone, or another process that was given its number
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	deadline := time.Now().Add(endWait)
	for left := endWait; left > 0; left = time.Until(deadline) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return nil
		}
	}
	return fmt.Errorf("the gVisor kernel, process %d, does not exit", pid)
}
