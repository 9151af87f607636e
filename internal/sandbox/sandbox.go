// Package sandbox is the port between a tool and the place it runs in.
//
// Promises: a sandbox is bound to one workspace directory and shows a tool nothing it does not declare. File paths
// are relative to the workspace and can not leave it, by "..", by absolute path or by symbolic link. When the
// context of Exec ends, the whole process tree it started is gone before Exec returns. A backend that can not
// enforce what was asked says so when it is opened; it never does less in silence (SBX-20).
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Mode names a backend.
type Mode string

const (
	// Host passes straight through: no isolation, no overhead (SBX-3).
	Host Mode = "host"
	// Bwrap uses bubblewrap: own namespaces, read-only system, no network, only the workspace writable.
	Bwrap Mode = "bwrap"
	// Auto asks for Bwrap where its probe passes and Host otherwise; the mode chosen is recorded in the run's facts.
	Auto Mode = "auto"
)

// ErrUnavailable means that this machine can not run the backend; the error text names what is missing.
var ErrUnavailable = errors.New("sandbox unavailable")

// ErrOutside means that a path leaves the workspace.
var ErrOutside = errors.New("path is outside the workspace")

// ErrDestroyed means that the sandbox was destroyed before or while it was asked.
var ErrDestroyed = errors.New("sandbox is destroyed")

// ErrNotStarted means that a sandbox could not start a program: most often it is not there, or not shown to it.
var ErrNotStarted = errors.New("not started")

// ErrNotRegular means that a path names a pipe, socket or device, which the file operations never open for data.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge means that a file is larger than MaxReadFile; read a part of it through FS instead.
var ErrTooLarge = errors.New("file is too large to read whole")

// MaxReadFile is the most bytes ReadFile returns.
const MaxReadFile = 64 << 20

// Backend opens sandboxes of one mode.
type Backend interface {
	Mode() Mode
	// Probe really starts something and returns ErrUnavailable, wrapped with what is missing, where that fails.
	Probe(ctx context.Context) error
	// Open binds a sandbox to a workspace, an existing directory given by absolute path.
	Open(ctx context.Context, cfg Config) (Sandbox, error)
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
	// Network lets commands reach the network. Backends that can not restrict it accept only true.
	Network bool
}

// Sandbox is where the calls of one run happen. It is safe for concurrent use.
type Sandbox interface {
	ID() string
	Mode() Mode
	// Workspace returns the absolute path of the workspace on this machine.
	Workspace() string
	// Exec runs a command in the workspace until it ends or ctx does. A non-zero exit is not an error. An error
	// means that the command could not be started or was ended: then errors.Is(err, ctx.Err()) where ctx ended.
	// What the command leaves running in the background ends with it: nothing outlives its Exec.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)
	// ReadFile, WriteFile, Stat, Remove and Rename work on paths relative to the workspace; they return ErrOutside for one
	// that leaves it. WriteFile makes parent directories and replaces a file in one move (write aside, rename).
	ReadFile(path string) ([]byte, error)
	WriteFile(path string, data []byte) error
	Stat(path string) (fs.FileInfo, error)
	// Remove takes a file or a symbolic link away, never a directory. Rename moves one, with its mode, makes parent
	// directories, and returns fs.ErrExist where something stands already.
	Remove(path string) error
	Rename(from, to string) error
	// FS is a read-only view of the workspace that can not leave it.
	FS() fs.FS
	// Destroy ends all processes of the sandbox and removes what it made besides the workspace. It may be called twice.
	Destroy(ctx context.Context) error
}

// Cmd is one command. Path "" with Args nil is an error.
type Cmd struct {
	// Args holds the program and its arguments; no shell is involved unless Args[0] is one.
	Args []string
	// Dir is relative to the workspace; empty means its root.
	Dir string
	// Env is added to the sandbox's environment.
	Env []string
	// Stdin may be nil (empty input). A Read of it that still blocks after the command ended is left behind.
	Stdin io.Reader
	// Stdout and Stderr take output as it comes; nil discards. They may be the same writer. Exec waits for a Write
	// to return; what the command says after a Write failed is read and dropped.
	Stdout, Stderr io.Writer
}

// Exit is how a command ended.
type Exit struct {
	Code int
	// Signal that ended it, or empty.
	Signal string
	// Wall, User and System time; User and System are 0 where unknown.
	Wall, User, System time.Duration
	// MaxRSS in bytes, 0 where unknown.
	MaxRSS int64
}
