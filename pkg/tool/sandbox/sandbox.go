// Package sandbox is the place that a call of a tool runs in, as the tool sees it.
//
// Promises: a sandbox is bound to one workspace directory and shows a tool nothing it does not declare. File paths
// are relative to the workspace and cannot leave it, by "..", by absolute path or by symbolic link. When the
// context of a command ends, the whole process tree it started is gone before Exec or Wait returns, and nothing
// outlives Destroy.
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// Mode names a backend.
type Mode string

const (
	// Host passes straight through: no isolation, no overhead (SBX-3).
	Host Mode = "host"
	// Bwrap uses bubblewrap: own namespaces, read-only system, no network, only the workspace writable.
	Bwrap Mode = "bwrap"
	// Landlock runs commands under Landlock rules and a system call filter, for places where user namespaces are
	// closed: only what is named can be opened, no capability, no network, but the machine's own processes are listed.
	Landlock Mode = "landlock"
	// Docker runs commands in a container of an engine (SBX-4).
	Docker Mode = "docker"
	// GVisor runs commands under a kernel of its own in user space (SBX-7).
	GVisor Mode = "gvisor"
	// Firecracker and QEMU run commands in a virtual machine with a kernel of its own (SBX-6).
	Firecracker Mode = "firecracker"
	QEMU        Mode = "qemu"
	// WASM runs WebAssembly programs and nothing else (SBX-8).
	WASM Mode = "wasm"
	// E2B runs commands in the cloud of that name (SBX-5).
	E2B Mode = "e2b"
	// Kubernetes runs commands in a pod.
	Kubernetes Mode = "kubernetes"
	// Auto asks for the strongest local backend whose probe passes; the mode chosen is recorded in the run's events.
	Auto Mode = "auto"
)

// Strength orders modes by how much they isolate: a mode of a greater number has every wall of a smaller one, and a
// kernel of its own above 2. A mode that is not known counts as none.
func (m Mode) Strength() int {
	switch m {
	case Firecracker, QEMU, E2B:
		return 4
	case GVisor, WASM:
		return 3
	case Bwrap, Docker, Kubernetes:
		return 2
	case Landlock:
		return 1
	default:
		return 0
	}
}

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

// ErrNoProcess means that no living process of the sandbox has that number.
var ErrNoProcess = errors.New("no such process in the sandbox")

// ErrLifetime means that a sandbox was ended because it lived as long as Limits.Wall allows.
var ErrLifetime = errors.New("the sandbox has reached its time limit")

// ErrDisk means that a sandbox's commands were ended because its files took more than Limits.Disk.
var ErrDisk = errors.New("the sandbox has reached its disk limit")

// MaxReadFile is the most bytes ReadFile returns.
const MaxReadFile = 64 << 20

// ErrLost means that what carries out commands, an engine or a machine elsewhere, was lost in the middle of one: no one
// knows how far it came.
var ErrLost = errors.New("the sandbox was lost while a command ran")

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
	// Start runs a command and returns once it runs. It lives until it ends, ctx ends or the sandbox is destroyed; Exec
	// is Start and Wait.
	Start(ctx context.Context, cmd Cmd) (Process, error)
	// Processes lists what runs in the sandbox, by ProcessInfo.PID upwards, and nothing else of the machine.
	Processes(ctx context.Context) ([]ProcessInfo, error)
	// Kill ends one process that Processes lists, and returns when it is gone. Any other number is ErrNoProcess.
	Kill(ctx context.Context, pid int) error
	// ReadFile, WriteFile, Stat, Remove and Rename work on paths relative to the workspace; they return ErrOutside for
	// one that leaves it. WriteFile makes parent directories and replaces a file in one move (write aside, rename).
	ReadFile(path string) ([]byte, error)
	WriteFile(path string, data []byte) error
	Stat(path string) (fs.FileInfo, error)
	// Remove takes a file or a symbolic link away, never a directory. Rename moves one, with its mode, makes parent
	// directories, and returns fs.ErrExist where something stands already.
	Remove(path string) error
	Rename(from, to string) error
	// FS is a read-only view of the workspace that cannot leave it.
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
	// AnyProgram lets the command run programs of Config.DenyPrograms: for a tool that runs one by itself, and no text
	// of an agent.
	AnyProgram bool
	// Stdin may be nil (empty input). A Read of it that still blocks after the command ended is left behind.
	Stdin io.Reader
	// Stdout and Stderr take output as it comes; nil discards. They may be the same writer. Exec waits for a Write
	// to return; what the command says after a Write failed is read and dropped.
	Stdout, Stderr io.Writer
	// Terminal, where set, is the command's standard input and output in the place of Stdin and Stdout: the command's
	// side of a pseudo terminal. It is not its controlling terminal, so nothing typed there is a signal. Start takes the
	// file over and closes it. Only the modes for which HasTerminal is true have it.
	Terminal *os.File
}

// HasTerminal reports whether commands in sandboxes of a mode can be given a terminal: those that are processes of this
// machine and its kernel.
func HasTerminal(m Mode) bool { return m == Host || m == Landlock || m == Bwrap }

// Process is a command that was started. It is safe for concurrent use.
type Process interface {
	// PID is its number in Processes. Inside the sandbox it may see itself under another.
	PID() int
	// Wait returns how it ended, as Exec does. It may be called more than once.
	Wait() (Exit, error)
	// Signal sends a signal to the process alone. One that has ended is ErrNoProcess.
	Signal(sig os.Signal) error
}

// ProcessInfo is a process of a sandbox.
type ProcessInfo struct {
	// PID is its number outside (see Numbered), Parent that of its parent, which may be no process of the sandbox.
	PID, Parent int
	// Args is its command line as it shows itself, at most 4 KiB; hostile text.
	Args []string
	// User and System time so far; RSS is its memory in bytes.
	User, System time.Duration
	RSS          int64
}

// Exit is how a command ended, and what it and all it started used.
type Exit struct {
	Code int
	// Signal that ended it, or empty.
	Signal string
	// Wall, User and System time; User and System are 0 where unknown.
	Wall, User, System time.Duration
	// MaxRSS in bytes, 0 where unknown. Where a cgroup counts, it is the most of all processes together, with the files
	// that the kernel keeps in memory for them; else that of the largest process.
	MaxRSS int64
	// ReadBytes and WriteBytes are what was read from and written to disks, 0 where unknown.
	ReadBytes, WriteBytes int64
}

// Lasting is implemented by sandboxes that tell whether they outlive the call that uses them: then what a call leaves
// in HOME and TMPDIR is there for the next one.
type Lasting interface{ Lasts() bool }

// Outlives reports whether a sandbox outlives the call that uses it.
func Outlives(sb Sandbox) bool {
	l, ok := sb.(Lasting)
	return ok && l.Lasts()
}
