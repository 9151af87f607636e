package sandbox

import "github.com/inspan/inspan/pkg/tool/sandbox"

// What tools see of a sandbox is in pkg/tool/sandbox, so that tools can be written outside of this module.
type (
	Mode        = sandbox.Mode
	Sandbox     = sandbox.Sandbox
	Cmd         = sandbox.Cmd
	Process     = sandbox.Process
	ProcessInfo = sandbox.ProcessInfo
	Exit        = sandbox.Exit
	Lasting     = sandbox.Lasting
)

// The modes.
const (
	Host        = sandbox.Host
	Bwrap       = sandbox.Bwrap
	Landlock    = sandbox.Landlock
	Docker      = sandbox.Docker
	GVisor      = sandbox.GVisor
	Firecracker = sandbox.Firecracker
	QEMU        = sandbox.QEMU
	WASM        = sandbox.WASM
	E2B         = sandbox.E2B
	Kubernetes  = sandbox.Kubernetes
	Auto        = sandbox.Auto

	MaxReadFile = sandbox.MaxReadFile
)

// The errors that tools see.
var (
	ErrOutside    = sandbox.ErrOutside
	ErrDestroyed  = sandbox.ErrDestroyed
	ErrNotStarted = sandbox.ErrNotStarted
	ErrNotRegular = sandbox.ErrNotRegular
	ErrTooLarge   = sandbox.ErrTooLarge
	ErrNoProcess  = sandbox.ErrNoProcess
	ErrLifetime   = sandbox.ErrLifetime
	ErrDisk       = sandbox.ErrDisk
	ErrLost       = sandbox.ErrLost
)

// HasTerminal reports whether commands in sandboxes of a mode can be given a terminal.
func HasTerminal(m Mode) bool { return sandbox.HasTerminal(m) }

// Outlives reports whether a sandbox outlives the call that uses it.
func Outlives(sb Sandbox) bool { return sandbox.Outlives(sb) }
