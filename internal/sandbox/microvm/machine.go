package microvm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

const (
	// endWait bounds the end of a machine.
	endWait = 30 * time.Second
	// trialName begins the name of a machine that is started to see whether it boots.
	trialName = local.SandboxPrefix + "trial"
	// transitBytes is the size of the disk for files on their way, which is a file with holes.
	transitBytes = 2*mirror.MaxTree + 1<<30
)

// spec is what an engine makes a machine of.
type spec struct {
	name             string // tells whose it is
	dir              string // of the machine's own
	kernel           string
	initrd           string
	root             string
	sandbox, transit string // disks
	cpus             int
	memory           int64
	accel            Accel
}

// machine is one virtual machine.
type machine struct {
	*wire.Client
	engine  *process
	dir     string
	way     *way   // nil without a way out
	finish  func() // asks the engine to end the machine by itself; may be nil
	closing sync.Once
	ended   atomic.Bool // it was asked to end
}

var _ mirror.Remote = (*machine)(nil)

// boot starts a machine and waits until its agent answers.
func (b *Backend) boot(ctx context.Context, name string, l sandbox.Limits, accel Accel) (*machine, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.StartWait)
	defer cancel()
	dir, err := os.MkdirTemp("", name+"-vm-")
	if err != nil {
		return nil, fmt.Errorf("make the machine's directory: %w", err)
	}
	s := spec{name: name, dir: dir, kernel: b.cfg.Kernel, initrd: b.cfg.Initrd, root: b.cfg.Root,
		sandbox: filepath.Join(dir, "box"), transit: filepath.Join(dir, "transit"),
		cpus: b.cfg.CPUs, memory: b.cfg.Memory, accel: accel}
	if l.CPU > 0 {
		s.cpus = int(math.Ceil(l.CPU))
	}
	if l.Memory > 0 {
		s.memory = l.Memory
	}
	s.memory = (s.memory + ownMemory + mebi - 1) / mebi * mebi
	disk := b.cfg.Disk
	if l.Disk > 0 {
		disk = l.Disk
	}
	err = errors.Join(sparse(s.sandbox, disk+disk/ownShare+ownDisk), sparse(s.transit, transitBytes))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the machine's disks: %w", err), os.RemoveAll(dir))
	}
	start := qemu
	if b.cfg.Mode == sandbox.Firecracker {
		start = firecracker
	}
	engine, channel, finish, err := start(ctx, b.cfg.Program, s)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrBoot, err), os.RemoveAll(dir))
	}
	m := &machine{engine: engine, dir: dir, finish: finish}
	if m.Client, err = wire.NewClient(channel); err == nil {
		err = m.Ping(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("after %v: %w", b.cfg.StartWait, ctx.Err())
		}
		why := m.lost(err) // which knows nothing of one that is there
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		ended := m.end(ctx, channel) // first: then all of the console's words are here
		if why == err {              //nolint:errorlint // the very error: lost had nothing to add
			why = fmt.Errorf("%w%s", err, engine.said())
		}
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrBoot, why), ended)
	}
	return m, nil
}

// sparse makes a file with holes, rounded up to whole blocks of 512 bytes.
func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate((size+511)/512*512), f.Close())
}

// End implements mirror.Remote.
func (m *machine) End(ctx context.Context) error {
	if m.finish != nil {
		m.finish()
	}
	return m.end(ctx, m.Client)
}

// lost adds to the error of a command why its machine is gone, where it is.
func (m *machine) lost(err error) error {
	if err == nil || m.Client == nil || m.ended.Load() {
		return err
	}
	select {
	case <-m.Closed():
		return fmt.Errorf("%w; the machine has ended: %w", err, m.engine.why())
	default:
		return err
	}
}

func (m *machine) end(ctx context.Context, channel io.Closer) error {
	m.ended.Store(true)
	m.closing.Do(func() { _ = channel.Close() }) // the machine may be gone before
	err := m.engine.end(ctx)
	if m.way != nil {
		m.way.close()
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(m.dir)
}

// marker is what the engine's environment says of whose it is, so that the reaper finds it.
func marker(name string) string {
	return local.MarkerName + "=" + strings.TrimPrefix(name, local.SandboxPrefix) + "." + rand.Text()
}

// files reads the files of directories, not of those in them.
func files(dirs []string) (map[string][]byte, error) {
	const most = 4 << 20
	all := map[string][]byte{}
	for _, dir := range dirs {
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("egress files: %w", err)
		}
		for _, e := range list {
			path := filepath.Join(dir, e.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("egress files: %w", err)
			}
			if len(data) > most {
				return nil, fmt.Errorf("egress files: %s has %d bytes, at most %d", path, len(data), most)
			}
			all[path] = data
		}
	}
	return all, nil
}
