// Package microvm runs commands in virtual machines with a kernel of their own, under QEMU or Firecracker.
//
// Promises: each sandbox is a machine of its own, started when it is opened and gone after Destroy; a machine whose
// toolrunner is lost ends with it, and the reaper ends and removes what did not. The machine has the operator's root
// read-only, two disks that end with it, no network card, and one channel, over which the workspace is mirrored
// (package mirror) and the way out is found where there is one. Commands are a user without rights behind a system call
// filter, held by control groups of the machine's kernel, and by the machine's own size should that kernel be broken.
// Probe really boots a machine: that /dev/kvm can be opened says little. Emulation takes the place of KVM only where
// the operator says so.
package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// Errors of machines. They wrap sandbox.ErrUnavailable.
var (
	// ErrSettings means that the settings do not say what is needed, or name what is not there.
	ErrSettings = fmt.Errorf("%w: the settings of virtual machines", sandbox.ErrUnavailable)
	// ErrBoot means that a machine did not start.
	ErrBoot = fmt.Errorf("%w: the virtual machine does not boot", sandbox.ErrUnavailable)
)

// ErrDisks means that a machine was ended because this computer could not write what belongs on its disks.
var ErrDisks = errors.New("the disks of a virtual machine, which are files in TMPDIR, could not be written")

// Accel is how the processors of a machine come about.
type Accel string

const (
	// KVM uses the processor's own means; the default.
	KVM Accel = "kvm"
	// TCG emulates them, ten times slower or worse.
	TCG Accel = "tcg"
	// AutoAccel is KVM where a machine boots with it, else TCG.
	AutoAccel Accel = "auto"
)

// Defaults of Config.
const (
	DefaultQEMU        = "qemu-system-x86_64"
	DefaultFirecracker = "firecracker"
	defaultMemory      = 1 << 30
	defaultDisk        = 10 << 30
	defaultStart       = 2 * time.Minute
)

const (
	mebi = 1 << 20
	// ownMemory is what a machine has besides that of its commands: for its kernel, the agent, and those who carry
	// files.
	ownMemory = 160 * mebi
	// ownDisk is what a disk has besides what may be written to it, and ownShare the part of it: for its file system.
	ownDisk  = 4 * mebi
	ownShare = 16
	// maxCPUs bounds the processors of a machine.
	maxCPUs = 32
)

// Config says what machines are made of.
type Config struct {
	// Mode is sandbox.QEMU or sandbox.Firecracker.
	Mode sandbox.Mode
	// Program is the engine; empty for DefaultQEMU or DefaultFirecracker, looked for on PATH.
	Program string
	// Kernel, Initrd and Root are files: a kernel, the first file system with inspan-guest as /init, and the image of
	// the root. Initrd is empty where Kernel has it in itself.
	Kernel, Initrd, Root string
	// Accel is for QEMU; empty for KVM.
	Accel Accel
	// CPUs, Memory and Disk, in bytes, of sandboxes whose agent asks for none; 0 for 1, 1 GiB and 10 GiB.
	CPUs         int
	Memory, Disk int64
	// StartWait is how long a machine may take to boot; 0 for two minutes.
	StartWait time.Duration
}

// Backend opens sandboxes in virtual machines.
type Backend struct {
	cfg Config

	mu     sync.Mutex
	chosen Accel // what AutoAccel came to; guarded by mu
}

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Away    = (*Backend)(nil)
	_ sandbox.Doored  = (*Backend)(nil)
)

// New returns the backend. It starts nothing.
func New(cfg Config) *Backend {
	if cfg.Program == "" {
		cfg.Program = DefaultQEMU
		if cfg.Mode == sandbox.Firecracker {
			cfg.Program = DefaultFirecracker
		}
	}
	if cfg.Accel == "" {
		cfg.Accel = KVM
	}
	if cfg.CPUs <= 0 {
		cfg.CPUs = 1
	}
	if cfg.Memory <= 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Disk <= 0 {
		cfg.Disk = defaultDisk
	}
	if cfg.StartWait <= 0 {
		cfg.StartWait = defaultStart
	}
	return &Backend{cfg: cfg}
}

// Mode implements sandbox.Backend.
func (b *Backend) Mode() sandbox.Mode { return b.cfg.Mode }

// Away implements sandbox.Away.
func (*Backend) Away() {}

// OwnNumbers implements sandbox.Numbered: each machine counts its own processes.
func (*Backend) OwnNumbers() {}

// Doored implements sandbox.Doored.
func (*Backend) Doored() {}

// Probe really boots a machine, runs a command in it and ends it.
func (b *Backend) Probe(ctx context.Context) error { return mirror.Probe(ctx, b, false) }

// Open boots a machine and binds it to a workspace.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	away, shown, err := b.checked(cfg)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	accel, err := b.accel(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	var m *machine
	inner, err := mirror.OpenSandbox(ctx, away, b.cfg.Mode, "",
		func(ctx context.Context, name string) (mirror.Remote, error) {
			if m, err = b.boot(ctx, name, cfg.Limits, accel); err != nil {
				return nil, err
			}
			return m, nil
		})
	if err != nil {
		return nil, err
	}
	sb := &instance{Sandbox: inner, machine: m, disk: cfg.Limits.Disk > 0}
	hold := wire.Hold{Base: strings.TrimSuffix(inner.Inside(), "/ws"), CPU: cfg.Limits.CPU, Memory: cfg.Limits.Memory,
		Disk: cfg.Limits.Disk, PIDs: cfg.Limits.PIDs, Shown: shown}
	if cfg.Egress != nil {
		hold.Port = inside.Port
		err = m.lead(cfg.Egress)
	}
	if err == nil {
		err = m.Hold(ctx, hold)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w: %w", cfg.ID, ErrBoot, err), sb.Destroy(ctx))
	}
	return sb, nil
}

// checked refuses what cannot be had, and returns what is left of a Config for a machine elsewhere, and the files that
// go with the way out.
func (b *Backend) checked(cfg sandbox.Config) (away sandbox.Config, shown map[string][]byte, err error) {
	away = cfg
	if cfg.Egress != nil {
		away.Egress = nil
		if shown, err = files(cfg.Egress.Shown()); err != nil {
			return away, nil, err
		}
		away.ReadOnly = slices.DeleteFunc(slices.Clone(cfg.ReadOnly),
			func(at string) bool { return slices.Contains(cfg.Egress.Shown(), at) })
	}
	err = errors.Join(cfg.Limits.Check(), sandbox.Require(b.cfg.Mode, cfg, b.Capabilities()), mirror.Refuse(b.cfg.Mode,
		away), b.settings())
	if cfg.Egress != nil && cfg.Network {
		err = errors.Join(err, errors.New("egress and an open network exclude each other"))
	}
	if cfg.Limits.CPU > maxCPUs {
		err = errors.Join(err, fmt.Errorf("%w: %v processors, the limit of a machine is %d", sandbox.ErrNotEnforced,
			cfg.Limits.CPU, maxCPUs))
	}
	return away, shown, err
}

// settings checks what the operator says.
func (b *Backend) settings() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: they need Linux, this is %s", ErrSettings, runtime.GOOS)
	}
	var failed []error
	program := "INSPAN_QEMU"
	if b.cfg.Mode == sandbox.Firecracker {
		program = "INSPAN_FIRECRACKER"
	}
	if _, err := exec.LookPath(b.cfg.Program); err != nil {
		failed = append(failed, fmt.Errorf("%w: the program %s is missing: install it, or name it with %s: %w", ErrSettings,
			b.cfg.Program, program, err))
	}
	for _, f := range []struct {
		name, path string
		may        bool
	}{{"INSPAN_MICROVM_KERNEL", b.cfg.Kernel, false}, {"INSPAN_MICROVM_INITRD", b.cfg.Initrd, true},
		{"INSPAN_MICROVM_ROOT", b.cfg.Root, false}} {
		if f.path == "" {
			if !f.may {
				failed = append(failed, fmt.Errorf("%w: %s is not set: make microvm builds the file", ErrSettings, f.name))
			}
			continue
		}
		if info, err := os.Stat(f.path); err != nil || !info.Mode().IsRegular() {
			failed = append(failed, fmt.Errorf("%w: %s: %q is not a readable file: make microvm builds one", ErrSettings, f.name,
				f.path))
		}
	}
	if a := b.cfg.Accel; a != KVM && a != TCG && a != AutoAccel {
		failed = append(failed, fmt.Errorf("%w: INSPAN_MICROVM_ACCEL: %.20q is none of kvm, tcg and auto", ErrSettings, a))
	}
	return errors.Join(failed...)
}

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() []sandbox.Capability {
	own := "own virtual machine (" + b.how() + ")"
	const group = "a control group in the kernel of the machine, and the size of the machine"
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      own + ", which receives only the workspace",
		sandbox.IsolationDenied:     "denied paths are not sent",
		sandbox.IsolationNetwork:    "the machine has no network card",
		sandbox.IsolationStation:    "the machine has no network card, also where the network is enabled",
		sandbox.IsolationProcesses:  own,
		sandbox.IsolationPrivileges: "a user of the machine without capabilities, no new privileges",
		sandbox.IsolationSyscalls:   "a system call filter, and its own kernel",
		sandbox.IsolationMetadata:   own,
		sandbox.IsolationTree:       "a control group for each command",
		sandbox.LimitCPU:            group, sandbox.LimitMemory: group,
		sandbox.LimitPIDs:     "a control group in the kernel of the machine",
		sandbox.LimitDisk:     "the size of the disk that the workspace, HOME and TMPDIR are on; the command that fills it is ended",
		sandbox.LimitWallTime: "the processes of the sandbox are ended",
	}
	return sandbox.Report(how, map[sandbox.Isolation]string{
		sandbox.IsolationPrograms: "its programs come from an image: use an image without the denied programs"})
}

// how tells of the processors.
func (b *Backend) how() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.cfg.Mode == sandbox.Firecracker:
		return "Firecracker with KVM"
	case b.cfg.Accel == KVM || b.chosen == KVM:
		return "QEMU with KVM"
	case b.cfg.Accel == TCG || b.chosen == TCG:
		return "QEMU, emulated"
	}
	return "QEMU with KVM, or emulated if no machine boots with KVM"
}

// kvmDevice has to be there for KVM.
const kvmDevice = "/dev/kvm"

// kvmWait is how long a machine with KVM may take until AutoAccel takes it for one that does not boot.
const kvmWait = 20 * time.Second

// accel returns how machines come about, and finds out where that is left open.
func (b *Backend) accel(ctx context.Context) (Accel, error) {
	if b.cfg.Mode == sandbox.Firecracker {
		return KVM, nil
	}
	if b.cfg.Accel != AutoAccel {
		return b.cfg.Accel, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chosen != "" {
		return b.chosen, nil
	}
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err == nil {
		_ = f.Close() // it was only opened
		trial, cancel := context.WithTimeout(ctx, kvmWait)
		defer cancel()
		var m *machine
		if m, err = b.boot(trial, trialName, sandbox.Limits{}, KVM); err == nil {
			err = m.End(context.WithoutCancel(ctx))
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err() // a trial that was cut short says nothing
	}
	b.chosen = KVM
	if err != nil {
		b.chosen = TCG
	}
	return b.chosen, nil
}

// commandLine is that of the machine's kernel.
func commandLine(channel string, more ...string) string {
	return strings.Join(append([]string{"console=ttyS0", "quiet", "panic=-1", "mitigations=off", "random.trust_cpu=on",
		guest.ChannelFlag + channel}, more...), " ")
}
