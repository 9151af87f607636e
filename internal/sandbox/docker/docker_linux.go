package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// homeInside and tmpInside are HOME and TMPDIR in a container.
	homeInside = "/home/agent"
	tmpInside  = "/tmp/agent"
	// engineWait bounds one request to the engine, askWait one that only asks for capabilities.
	engineWait = time.Minute
	askWait    = 2 * time.Second
	// leastMemory is what the helper and a shell need besides what a command does.
	leastMemory = 24 << 20
	// helperThreads are added to a limit of processes: the engine counts the helper's threads too.
	helperThreads = 24
)

// Backend opens sandboxes in containers. It is safe for concurrent use.
type Backend struct {
	cfg    Config
	client func() (*client.Client, error) // makes it once
	helper func() (string, error)         // looks once

	mu    sync.Mutex
	known *system.Info // of the engine, nil until it answered; guarded by mu
	dirty bool         // a container is left that could not be removed; guarded by mu
}

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Doored  = (*Backend)(nil)
)

// New returns the backend. It asks nothing yet.
func New(cfg Config) *Backend {
	if cfg.Network == "" {
		cfg.Network = "bridge"
	}
	b := &Backend{cfg: cfg}
	b.client = sync.OnceValues(b.connect)
	b.helper = sync.OnceValues(b.findHelper)
	return b
}

// Mode returns sandbox.Docker.
func (*Backend) Mode() sandbox.Mode { return sandbox.Docker }

// Doored implements sandbox.Doored: a container has a network of its own, with nothing in it but the door.
func (*Backend) Doored() {}

// OwnNumbers implements sandbox.Numbered.
func (*Backend) OwnNumbers() {}

// Capabilities implements sandbox.Backend. Where the engine was not asked yet, it is asked, for a moment.
func (b *Backend) Capabilities() []sandbox.Capability {
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	info, err := b.info(ctx)
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "own mount namespace: a read-only image, and what is mounted into it",
		sandbox.IsolationDenied:     "covered by an empty mount that no process can open",
		sandbox.IsolationNetwork:    "own network namespace with a loopback interface only",
		sandbox.IsolationProcesses:  "own process namespace",
		sandbox.IsolationPrivileges: "no capabilities, no new privileges, user " + b.userText(),
		sandbox.IsolationSyscalls:   "a seccomp filter in addition to that of the engine",
		sandbox.IsolationMetadata:   "own mount namespace",
		sandbox.IsolationTree:       "a process in the container is the parent of all processes of a command; if it is lost, the container ends",
		sandbox.LimitWallTime:       "the processes of the sandbox are ended",
	}
	why := map[sandbox.Isolation]string{
		sandbox.IsolationStation:  "the network of the engine reaches services that listen on non-loopback addresses of this machine: use allowed_hosts, or bwrap",
		sandbox.IsolationPrograms: "its programs come from an image: use an image without the denied programs",
	}
	missing := "the control groups of the engine do not have it: see docker info"
	if err != nil {
		info, missing = &system.Info{}, "no response from the engine"
	}
	for limit, enforced := range map[sandbox.Isolation]bool{sandbox.LimitCPU: info.CPUCfsQuota,
		sandbox.LimitMemory: info.MemoryLimit, sandbox.LimitPIDs: info.PidsLimit} {
		if why[limit] = missing; enforced {
			how[limit] = "control group of the container, version " + info.CgroupVersion
		}
	}
	if how[sandbox.LimitPIDs] != "" {
		how[sandbox.LimitPIDs] += fmt.Sprintf("; %d more for the threads of the helper, some of which commands may use",
			helperThreads)
	}
	disk := local.DiskCapability()
	disk.How += "; no single file exceeds it; images and files of the engine are not counted"
	return sandbox.Report(how, why, disk)
}

// Open binds a sandbox to a workspace. The paths of ReadOnly and Writable must exist. The container is started with the
// first command.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	x, err := b.open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	return x, nil
}

func (b *Backend) open(ctx context.Context, cfg sandbox.Config) (*instance, error) {
	if err := b.check(ctx, cfg); err != nil {
		return nil, err
	}
	user, err := b.user()
	if err != nil {
		return nil, err
	}
	if _, err := b.helper(); err != nil {
		return nil, err
	}
	b.tidy(ctx)
	made, err := b.image(ctx, cmp.Or(cfg.Image, b.cfg.Image, DefaultImage))
	if err != nil {
		return nil, err
	}
	inner, err := local.OpenSandbox(cfg, sandbox.Docker, b.cfg.Base, homeInside, tmpInside)
	if err != nil {
		return nil, err
	}
	x := &instance{Sandbox: inner, b: b, image: made, user: user, running: map[*command]struct{}{}}
	x.Serve(x.run, x.send)
	x.OnDestroy(x.release)
	if err := x.prepare(); err != nil {
		return nil, errors.Join(err, x.Destroy(context.WithoutCancel(ctx)))
	}
	return x, nil
}

// check refuses what no container of this engine can do.
func (b *Backend) check(ctx context.Context, cfg sandbox.Config) error {
	if _, err := b.info(ctx); err != nil {
		return err
	}
	if err := local.Check(sandbox.Docker, cfg, b.Capabilities()); err != nil {
		return err
	}
	if m := cfg.Limits.Memory; m > 0 && m < leastMemory && cfg.Limits.Check() == nil {
		return fmt.Errorf("%w: a memory limit of %d bytes: a container needs %d", sandbox.ErrNotEnforced, m, leastMemory)
	}
	for _, path := range append(append([]string{cfg.Workspace}, cfg.ReadOnly...), cfg.Writable...) {
		at := filepath.Clean(path)
		for _, taken := range []string{"/proc", "/dev", "/sys", homeInside} {
			if at == taken || strings.HasPrefix(at, taken+"/") || at == "/" {
				return fmt.Errorf("path %s: %w: %s belongs to the container", at, fs.ErrInvalid, taken)
			}
		}
	}
	return nil
}

// Probe really starts a container of the image of the settings, and a command in it, with a closed network. Without
// such an image it only asks the engine: agents may name images of their own, and the default need not be there.
func (b *Backend) Probe(ctx context.Context) error {
	if b.cfg.Image == "" {
		return b.check(ctx, sandbox.Config{})
	}
	t, err := local.Try(ctx, b.cfg.Base, sandbox.Config{}, b.Open, "sh", "-c", "test ! -w / && test ! -w /etc")
	switch {
	case err != nil && !t.Opened:
		return err
	case err != nil:
		return fmt.Errorf("%w: containers cannot start here: %w", sandbox.ErrUnavailable, err)
	case t.Exit.Code != 0:
		return fmt.Errorf("%w: a container does not isolate here: the probe ended with status %d: %s", sandbox.ErrUnavailable,
			t.Exit.Code, clip(t.Err))
	}
	return nil
}

// clip bounds a text of others that is shown.
func clip(text string) string { return local.Clip(text, 600) }
