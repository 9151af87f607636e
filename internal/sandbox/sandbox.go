// Package sandbox is the port between a tool and the place it runs in.
//
// Promises: a sandbox is bound to one workspace directory and shows a tool nothing it does not declare. File paths
// are relative to the workspace and cannot leave it, by "..", by absolute path or by symbolic link. When the
// context of a command ends, the whole process tree it started is gone before Exec or Wait returns, and nothing
// outlives Destroy. A backend says of each wall and limit whether it enforces it (Capabilities); one that cannot
// enforce what was asked says so when it is opened; it never does less in silence (SBX-20).
package sandbox

import (
	"context"
	"errors"
	"net/netip"
	"os"
)

// ErrUnavailable means that this machine cannot run the backend; the error text names what is missing.
var ErrUnavailable = errors.New("sandbox unavailable")

// Backend opens sandboxes of one mode.
type Backend interface {
	Mode() Mode
	// Probe really starts something and returns ErrUnavailable, wrapped with what is missing, where that fails.
	Probe(ctx context.Context) error
	// Open binds a sandbox to a workspace, an existing directory given by absolute path.
	// It returns ErrNotEnforced for a wall or limit that this machine cannot enforce.
	Open(ctx context.Context, cfg Config) (Sandbox, error)
	// Capabilities tells of each of Walls, in that order, whether sandboxes of this backend enforce it on this
	// machine, how, and why not. It starts nothing.
	Capabilities() []Capability
}

// Config says what a sandbox may see.
type Config struct {
	// ID names the sandbox in logs and process titles.
	ID string
	// Workspace is the absolute path of the directory that tools may change.
	Workspace string
	// Env is added to a small, fixed environment (PATH, HOME, LANG, TMPDIR). Nothing of the service's own
	// environment is passed on.
	Env []string
	// ReadOnly lists further absolute host paths that a command may read (toolchains, module caches).
	ReadOnly []string
	// Writable lists further absolute host paths that a command may write (build caches).
	Writable []string
	// Network lets commands reach the network. Backends that cannot restrict it accept only true.
	Network bool
	// Closed, where set, asks for WallStation in a sandbox whose network is open: commands cannot connect to what
	// listens in this process, nor to addresses for which it returns true.
	Closed func(to netip.AddrPort) bool
	// Lasting says that several calls use the sandbox: a backend that would give each command a closed network of its
	// own gives all of them one where it can, so that one command reaches what another listens on. It opens no wall.
	Lasting bool
	// Egress, where set, is the one way out of a closed network. A backend that cannot keep commands to it refuses it.
	Egress Egress
	// Denied lists absolute host paths that a command cannot see at all, also where a wider path is shown.
	Denied []string
	// DenyPrograms are programs that commands can neither read nor execute: base names, patterns of path.Match over
	// base names, or absolute paths. Every file of the system's directories and of ReadOnly that is such a program is
	// closed, by name, by inode or by content; one that is many programs (busybox) only by its own name. What a command
	// brings along is its own.
	DenyPrograms []string
	// Limits of all that runs in the sandbox, together; the zero value sets none.
	Limits Limits
	// Image is what a backend that has images takes the system's files from; empty means its own setting. Others have
	// no use for it.
	Image string
}

// Doored is implemented by backends that keep commands to Config.Door; no other is given one.
type Doored interface{ Doored() }

// Egress lets the commands of a sandbox whose network is closed reach something outside; see package egress.
type Egress interface {
	// Pass readies the way out for one command, whose inherited files begin with descriptor fd.
	Pass(command []string, fd int) (EgressSession, error)
	// Env is added to the environment of commands; Shown lists directories that they must be able to read.
	Env() []string
	Shown() []string
}

// EgressSession is the way out of one command.
type EgressSession struct {
	// Args are started in the place of the command.
	Args []string
	// Files are inherited, in this order, from descriptor fd on. The backend does not close them.
	Files []*os.File
	// Started is called once, when the process runs. Close is called in any case, when it has ended or did not start;
	// its error says why the command could not begin.
	Started func()
	Close   func() error
}
