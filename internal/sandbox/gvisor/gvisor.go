// Package gvisor runs commands under gVisor: a kernel of its own, in user space, answers their system calls.
//
// Promises: each command has a kernel of its own, started for it by the program runsc and ended with it, so that
// nothing outlives its Exec, whatever it does, and what goes wrong in one kernel is no other command's. It sees what
// bubblewrap would show it: a read-only system, its workspace, what Config.ReadOnly and Config.Writable name, its own
// HOME and /tmp, which last as long as the sandbox, and nothing else of the machine. It has no capability and a system
// call filter on top. Without Config.Network it has no network but a loopback of its own; with it, that of the machine.
//
// Limits of processors and memory are those of a control group around the kernel; memory has Overhead on top, which is
// the kernel's own. A command that takes more takes its kernel with it: the call fails with ErrMemory and the next
// command has a new kernel. The limit of processes is held by the kernel itself, and where there is one, commands of a
// sandbox run one after the other. A command that ends with status 128+n is reported as ended by signal n.
//
// Where the service is not root, what needs root is refused by Open: a way out of a closed network (Config.Door),
// denied paths, and named paths in directories that commands write. Where this machine has no groups that can be
// written, a limit of processors or memory is refused and the usage of an Exit is 0.
package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Overhead is what a limit of memory leaves for gVisor itself, in bytes.
const Overhead = 64 << 20

// Program is the name of gVisor's program.
const Program = "runsc"

// ErrMemory means that a command was ended, with its kernel, because it took more memory than Limits.Memory.
var ErrMemory = errors.New("the memory limit of the sandbox was reached and its kernel was ended with the command; the next command starts a new kernel")

// ErrBusy means that a sandbox with a limit of processes already runs a command.
var ErrBusy = errors.New("a sandbox with a limit of processes runs one command at a time: wait for the running command, or set no pids limit")

// Config says how gVisor is started.
type Config struct {
	// Program is the name or path of runsc; empty means Program in the service's PATH.
	Program string
	// Platform is systrap, ptrace or kvm: how system calls are caught. Empty means the first of systrap and ptrace that
	// works here.
	Platform string
	// Base is where the private directories of sandboxes are made; empty means the system's place for temporary files.
	Base string
}

// Backend opens gVisor sandboxes.
type Backend struct {
	cfg    Config
	groups func() *cgroup.Driver // looks once

	mu    sync.Mutex
	known *install // nil until found with success
}

// install is the runsc of this machine.
type install struct {
	path string
	// platform is one that has started something.
	platform string
	// flags that this version has, of those that not all have.
	flags []string
}

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Doored  = (*Backend)(nil)
)

// New returns the backend. It looks for nothing yet.
func New(cfg Config) *Backend {
	if cfg.Program == "" {
		cfg.Program = Program
	}
	return &Backend{cfg: cfg, groups: sync.OnceValue(cgroup.Find)}
}

// Mode returns sandbox.GVisor.
func (*Backend) Mode() sandbox.Mode { return sandbox.GVisor }

// Doored implements sandbox.Doored: with a door, the network that gVisor's kernel uses is a namespace with nothing in
// it but the door.
func (*Backend) Doored() {}

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() []sandbox.Capability {
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "own root in an own kernel: only paths that the sandbox shows exist there",
		sandbox.IsolationDenied:     "covered by an empty mount that no process can open",
		sandbox.IsolationNetwork:    "the gVisor kernel has its own loopback and no other network",
		sandbox.IsolationProcesses:  "own kernel",
		sandbox.IsolationPrivileges: "no capabilities, and none that would take effect outside the gVisor kernel",
		sandbox.IsolationSyscalls:   "the gVisor kernel handles system calls, behind a filter",
		sandbox.IsolationMetadata:   "own root in an own kernel",
		sandbox.IsolationTree:       "the kernel of the command ends",
		sandbox.LimitPIDs:           "the gVisor kernel counts processes and threads; one command at a time",
		sandbox.LimitWallTime:       "the kernels of the sandbox are ended",
	}
	known := []sandbox.Capability{local.FileCapability(), cgroup.Capability(b.groups(), sandbox.LimitCPU),
		cgroup.Capability(b.groups(), sandbox.LimitMemory)}
	if memory := &known[2]; memory.Enforced {
		memory.How += fmt.Sprintf(", around the command and its kernel, with %d MiB more for the kernel; exceeding it ends both", Overhead>>20)
	}
	if os.Geteuid() != 0 {
		known = append(known, sandbox.Capability{Isolation: sandbox.IsolationDenied,
			Why: "under gVisor only root can prevent that a denied path is moved: use bwrap"})
	}
	why := map[sandbox.Isolation]string{sandbox.IsolationStation: "with an open network the gVisor kernel uses the network of the machine: use allowed_hosts, or bwrap",
		sandbox.IsolationPrograms: "gVisor shows the programs of this machine: use bwrap or landlock"}
	return sandbox.Report(how, why, known...)
}

// Probe really starts a kernel with a closed network, and sees that it is not the machine's.
func (b *Backend) Probe(ctx context.Context) error {
	_, err := b.find(ctx)
	return err
}

// find looks for runsc and a platform that works with it, until it was found once.
func (b *Backend) find(ctx context.Context) (*install, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil {
		return b.known, nil
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: gVisor needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
	}
	path, err := exec.LookPath(b.cfg.Program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: runsc, the program of gVisor, is missing: install it, or set INSPAN_GVISOR to its path: %w", sandbox.ErrUnavailable, err)
	}
	ask := exec.CommandContext(ctx, path, "flags")
	ask.Env = []string{"PATH=/usr/bin:/bin"}
	text, err := ask.CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte("-platform")) {
		return nil, fmt.Errorf("%w: %s is not the runsc of gVisor: %w: %s", sandbox.ErrUnavailable, path, errors.Join(err),
			clip(string(text)))
	}
	found := install{path: path, flags: flagsOf(string(text))}
	platforms := []string{"systrap", "ptrace"}
	if b.cfg.Platform != "" {
		platforms = []string{b.cfg.Platform}
	}
	var refusals []error
	for _, found.platform = range platforms {
		if err = b.starts(ctx, found); err == nil {
			b.known = &found
			return b.known, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, ctx.Err())
		}
		refusals = append(refusals, fmt.Errorf("platform %s: %w", found.platform, err))
	}
	return nil, fmt.Errorf("%w: gVisor cannot start here: %w", sandbox.ErrUnavailable, errors.Join(refusals...))
}

// starts runs one command with an install, which says what kernel it sees.
func (b *Backend) starts(ctx context.Context, found install) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	outside, err := os.ReadFile("/proc/version")
	if err != nil {
		return err
	}
	open := func(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) { return b.open(ctx, cfg, found) }
	// Old versions lack calls that programs of newer systems need for the simplest things.
	t, err := local.Try(ctx, b.cfg.Base, sandbox.Config{}, open, "sh", "-c", "ls -d / >&2 && cat /proc/version")
	if err != nil {
		return err
	}
	if t.Exit.Code != 0 || t.Output == "" || t.Output == string(outside) {
		return fmt.Errorf("the probe ended with status %d under the kernel %q: %s", t.Exit.Code, clip(t.Output), clip(t.Err))
	}
	return nil
}

// Open binds a sandbox to a workspace. The paths of ReadOnly and Writable must exist.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	found, err := b.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	return b.open(ctx, cfg, *found)
}

// check refuses what this backend cannot do.
func (b *Backend) check(cfg sandbox.Config) error {
	if cfg.Egress != nil && !cfg.Network && os.Geteuid() != 0 {
		return fmt.Errorf("%w: under gVisor only root can restrict commands to allowed hosts: use bwrap",
			sandbox.ErrNotEnforced)
	}
	return local.Check(sandbox.GVisor, cfg, b.Capabilities(), "/proc", "/dev", "/sys")
}

// newer are flags that not every version of runsc has, and that are given where they are there.
var newer = [...]string{"gofer-network-namespace=new", "host-settings=ignore"}

// flagsOf finds in runsc's own list which of the newer flags it has.
func flagsOf(text string) []string {
	var list []string
	for _, flag := range newer {
		name, _, _ := strings.Cut(flag, "=")
		if strings.Contains(text, "-"+name+" ") || strings.Contains(text, "-"+name+"\n") {
			list = append(list, "--"+flag)
		}
	}
	return list
}

// probeWait bounds the start of the first kernel: a platform that this machine seems to have may hang instead of
// failing.
const probeWait = 30 * time.Second

// clipAt is the most text of runsc's own complaint that is shown.
const clipAt = 400

func clip(text string) string { return local.Clip(text, clipAt) }
