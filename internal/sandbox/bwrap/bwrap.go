// Package bwrap runs commands in bubblewrap: own user, process, mount, IPC, host-name and network namespaces.
//
// Promises: a command sees a read-only system (/usr and the part of /etc that programs need to start), its workspace,
// what Config.ReadOnly and Config.Writable name, and nothing else of this machine: no other home, no /run, no key or
// password file. It can write the workspace, Config.Writable, /tmp and HOME; the last two are its own and last as long
// as the sandbox. It has no capability, another user id, no network unless Config.Network, and cannot make user
// namespaces where bubblewrap can forbid them. With Config.Lasting the commands of a sandbox have one closed network
// together, where nsenter of util-linux is there; else each has its own. Its processes end with the Exec that started
// them, because their namespace does. With Config.Network the network is the machine's own, loopback included; with
// Config.Closed besides, nothing that listens in this process is reached, nor what that names.
//
// Every command has a system call filter. Limits of processors, memory and processes are those of a control group,
// which also measures what a command used; where this machine has no groups that can be written, a limit is refused and
// the usage of an Exit is 0, as it is for commands that ran at the same time in one sandbox. A command that ends with
// status 128+n is reported as ended by signal n, which bubblewrap cannot tell apart either.
package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/programs"
)

// Backend opens bubblewrap sandboxes.
type Backend struct {
	program string
	base    string

	mu    sync.Mutex
	known *install // nil until looked for with success

	groups func() *cgroup.Driver // looks once
	// programs finds the files of denied programs.
	programs programs.Finder
	// helped is an error where this program cannot be the launcher of commands.
	helped func() error
}

// install is the bubblewrap of this machine.
type install struct {
	path string
	// closesUserns is true where it can forbid further user namespaces inside (0.8.0 and later).
	closesUserns bool
	// takesHandles is true where it mounts what a descriptor stands for (0.10.0, and 0.8.0 with security updates).
	takesHandles bool
	// nsenter is the program by which commands enter a network that they share, empty where they cannot. It
	// tries once.
	nsenter func() string
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. program is the name or path of bubblewrap, empty means "bwrap" in the service's PATH;
// base is where the private directories of sandboxes are made, empty means the system's place for temporary files.
func New(program, base string) *Backend {
	if program == "" {
		program = "bwrap"
	}
	return &Backend{program: program, base: base, groups: sync.OnceValue(cgroup.Find),
		helped: sync.OnceValue(func() error {
			_, err := launch.Self()
			return err
		})}
}

// Mode returns sandbox.Bwrap.
func (*Backend) Mode() sandbox.Mode { return sandbox.Bwrap }

// Doored implements sandbox.Doored: a command has a network of its own, with nothing in it but the door.
func (*Backend) Doored() {}

// Open binds a sandbox to a workspace. The paths of ReadOnly and Writable must exist.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	found, err := b.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := local.Check(sandbox.Bwrap, cfg, b.Capabilities(), "/proc", "/dev", "/sys"); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	hidden, err := b.programs.Find(cfg.DenyPrograms, slices.Concat([]string{"/usr"}, rootLinks[:], cfg.ReadOnly))
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	inner, err := local.OpenSandbox(cfg, sandbox.Bwrap, b.base, homeInside, tmpInside)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(inner.Private("tmp/agent"), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), inner.Destroy(context.WithoutCancel(ctx)))
	}
	x := &instance{Sandbox: inner, bwrap: *found, groups: b.groups()}
	x.Serve(x.run, nil)
	if x.mounts, x.given, err = mounts(inner); err == nil {
		x.masks, err = masks(inner, hidden.Files)
	}
	if err == nil {
		err = x.isolation()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), x.Destroy(context.WithoutCancel(ctx)))
	}
	return x, nil
}

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() []sandbox.Capability {
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "own mount namespace: only paths that the sandbox shows exist there",
		sandbox.IsolationDenied:     "covered by an empty mount that no process can open",
		sandbox.IsolationNetwork:    "own network namespace",
		sandbox.IsolationProcesses:  "own process namespace",
		sandbox.IsolationPrivileges: "no capabilities, another user, no new privileges",
		sandbox.IsolationSyscalls:   "a seccomp filter",
		sandbox.IsolationMetadata:   "own mount namespace",
		sandbox.IsolationPrograms:   "the files of denied programs are covered by an empty mount that no process can open",
		sandbox.IsolationTree:       "the end of the process namespace",
		sandbox.LimitWallTime:       "the processes of the sandbox are ended",
	}
	why := make(map[sandbox.Isolation]string)
	if err := b.helped(); err != nil {
		why[sandbox.IsolationStation] = err.Error()
	} else {
		how[sandbox.IsolationStation] = "the service makes connections (seccomp notification) and refuses those to its own listeners and to those of the station"
	}
	return sandbox.Report(how, why, append(cgroup.Capabilities(b.groups()), local.FileCapability())...)
}

// find looks for bubblewrap and asks it what it can do, until it was found once.
func (b *Backend) find(ctx context.Context) (*install, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil {
		return b.known, nil
	}
	path, err := exec.LookPath(b.program)
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap is not installed: apt-get install bubblewrap: %w", sandbox.ErrUnavailable, err)
	}
	ask := exec.CommandContext(ctx, path, "--help")
	ask.Env = []string{"PATH=/usr/bin:/bin"}
	help, err := ask.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s --help: %w", sandbox.ErrUnavailable, path, err)
	}
	if !strings.Contains(string(help), "--json-status-fd") {
		return nil, fmt.Errorf("%w: %s is older than bubblewrap 0.4: install a newer one", sandbox.ErrUnavailable, path)
	}
	b.known = &install{path: path, closesUserns: strings.Contains(string(help), "--disable-userns"),
		takesHandles: strings.Contains(string(help), "--ro-bind-fd")}
	b.known.nsenter = sync.OnceValue(func() string { return findNsenter(context.Background(), path) })
	return b.known, nil
}
