// Package landlock runs commands under Landlock rules and a system call filter, for places where user namespaces are
// closed and bubblewrap cannot start.
//
// Promises: a command can open a read-only system (/usr, the part of /etc that programs need, /proc), its workspace,
// what Config.ReadOnly and Config.Writable name, and its own HOME and TMPDIR. It has no capability and cannot get one.
// It can not signal, trace or read processes outside, nor change their limits and priorities; modes, owners, times and
// attributes it changes of files that it may write, and it can make no program that gives privileges. Without
// Config.Network it can make no socket but connected pairs; with it, internet sockets only, so that no service of the
// machine is reached through a socket that is a file, and it connects neither to what listens in this process nor to
// what Config.Closed names. Objects of System V and message queues are its own and end with it where the service may
// make namespaces, and are refused elsewhere. The files of Config.DenyPrograms it can neither read nor execute. Limits
// are those of a control group.
//
// It does not promise what only namespaces can: processes of others are listed, with their command lines; files outside
// can be asked for their size, mode and times; /tmp is closed rather than of its own; nothing below a path that is
// shown can be denied, and nothing in a writable one made read-only. What cannot be enforced is refused by Open.
package landlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/programs"
)

// readable is what of the machine commands may read, as far as it is there. Of /etc only what holds no secret.
var readable = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted",
	"/etc/localtime", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/magic",
	"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname",
}

// devices that hold nothing of anybody.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Backend opens Landlock sandboxes.
type Backend struct {
	launcher func() ([]string, error)
	base     string
	groups   func() *cgroup.Driver // looks once
	rulesets rulesets
	programs programs.Finder
}

// finder returns the files of denied programs below directories.
type finder func(names, dirs []string) ([]string, error)

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. launcher is the command line of a program that answers launch.Word, empty for this program
// itself; base is where the private directories of sandboxes are made, empty for the system's place for temporary
// files.
func New(launcher []string, base string) *Backend {
	b := &Backend{launcher: launch.Self, base: base, groups: sync.OnceValue(cgroup.Find)}
	if len(launcher) > 0 {
		b.launcher = func() ([]string, error) { return launcher, nil }
	}
	return b
}

// Mode returns sandbox.Landlock.
func (*Backend) Mode() sandbox.Mode { return sandbox.Landlock }

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() []sandbox.Capability {
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "Landlock: only named paths can be opened",
		sandbox.IsolationNetwork:    "no sockets (seccomp), no TCP (Landlock)",
		sandbox.IsolationPrivileges: "no capabilities, none can be gained, no new privileges",
		sandbox.IsolationSyscalls:   "a seccomp filter",
		sandbox.IsolationPrograms:   "Landlock: the files of denied programs can be neither read nor executed under any name",
		sandbox.IsolationStation:    "the service makes connections (seccomp notification) and refuses those to its own listeners and to those of the station",
		sandbox.IsolationMetadata:   "the service changes modes, owners, times and attributes (seccomp notification), only of files that commands may write",
		sandbox.LimitWallTime:       "the processes of the sandbox are ended",
	}
	why := map[sandbox.Isolation]string{
		sandbox.IsolationDenied:    "Landlock cannot deny a path below an allowed one: use bwrap",
		sandbox.IsolationProcesses: "other processes cannot be signalled, traced, read or changed, but are listed with their command lines: use bwrap",
		sandbox.IsolationTree:      "without control groups, a process that clears its environment, leaves its session and loses its parent is not found again",
	}
	if b.groups().Measures() {
		how[sandbox.IsolationTree] = "the control group of the command, " + b.groups().Version()
	}
	return sandbox.Report(how, why, append(cgroup.Capabilities(b.groups()), local.FileCapability())...)
}

// Probe really starts /bin/true in a sandbox with a closed network, and sees that a wall holds.
func (b *Backend) Probe(ctx context.Context) error {
	if err := launch.Supported(); err != nil {
		return err
	}
	// /dev is not named: a command that can list it has no walls.
	t, err := local.Try(ctx, b.base, sandbox.Config{}, b.Open, "/bin/sh", "-c",
		"ls /dev >/dev/null 2>&1 && echo open || echo closed")
	switch {
	case err != nil && !t.Opened:
		return err
	case err != nil:
		return fmt.Errorf("%w: Landlock cannot start here: %w", sandbox.ErrUnavailable, err)
	case t.Output != "closed\n":
		return fmt.Errorf("%w: Landlock does not isolate here: the probe printed %.100q", sandbox.ErrUnavailable, t.Output)
	}
	return nil
}

// Open binds a sandbox to a workspace. The paths of ReadOnly and Writable must exist.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	launcher, err := b.launcher()
	if err == nil {
		err = launch.Supported()
	}
	if err == nil {
		err = local.Check(sandbox.Landlock, cfg, b.Capabilities())
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	inner, err := local.OpenSandbox(cfg, sandbox.Landlock, b.base, "", "")
	if err != nil {
		return nil, err
	}
	x := &instance{Sandbox: inner, launcher: launcher}
	x.Serve(x.run, nil)
	if err = x.allow(); err == nil {
		err = x.programs(&b.rulesets, x.system(), func(names, dirs []string) ([]string, error) {
			found, err := b.programs.Find(names, dirs)
			return found.Files, err
		})
	}
	if err == nil && b.groups().Works() {
		err = x.bound(b.groups())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), x.Destroy(context.WithoutCancel(ctx)))
	}
	return x, nil
}

// system are the directories of programs that commands may read.
func (b *instance) system() []string {
	return slices.DeleteFunc(slices.Clone(b.read), func(path string) bool {
		return path == "/proc" || strings.HasPrefix(path, "/etc/")
	})
}

// allow lists what commands may open.
func (b *instance) allow() error {
	cfg := b.Config()
	b.write = []string{cfg.Workspace, b.Private("home"), b.Private("tmp")}
	for _, path := range cfg.Writable {
		// What is in a writable directory is open with it. It is not named again: a command that runs at the same time
		// could put a link in its place, and what that leads to would be opened instead.
		if !slices.ContainsFunc(append([]string{cfg.Workspace}, cfg.Writable...), func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
			b.write = append(b.write, path)
		}
	}
	for _, path := range cfg.ReadOnly {
		for _, above := range append([]string{cfg.Workspace}, cfg.Writable...) {
			if path == above || strings.HasPrefix(path, above+"/") {
				return fmt.Errorf("%w: landlock cannot keep %s read-only in %s, which is writable: use bwrap",
					sandbox.ErrNotEnforced, path, above)
			}
		}
	}
	for _, path := range b.write {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("path to show inside: %w", err)
		}
		b.own = append(b.own, real)
	}
	b.read = append([]string{}, cfg.ReadOnly...)
	git, env := gitConfig()
	b.env = env
	optional := append(git, readable[:]...)
	if cfg.Network {
		optional = append(optional, "/etc/resolv.conf")
	}
	for _, path := range optional {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			b.read = append(b.read, real)
		}
	}
	for _, path := range devices {
		if _, err := os.Stat(path); err == nil {
			b.write = append(b.write, path)
		}
	}
	return nil
}
