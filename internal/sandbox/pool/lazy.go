package pool

import (
	"context"
	"io/fs"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// LazyConfig says how a sandbox is opened and who takes note of its use.
type LazyConfig struct {
	ID   string
	Mode sandbox.Mode
	// Open opens the sandbox; it is called at the first use, and then again: it returns the same one each time.
	Open Open
	// Pooled says that the sandbox outlives its call.
	Pooled bool
	// Before is called before each use; an error of it is that of the use. Nil does nothing.
	Before func() error
	// Changed takes note of a file that may be changed, by its path, or with an empty path that any may be. Nil takes
	// none.
	Changed func(path string)
}

// Lazy is a sandbox that is opened on first use: many tools never do. Every use of one that cannot be opened returns
// why.
type Lazy struct {
	cfg  LazyConfig
	used bool

	mu    sync.Mutex
	spent events.Usage // guarded by mu
}

var _ sandbox.Sandbox = (*Lazy)(nil)

// NewLazy returns a sandbox that is not yet opened.
func NewLazy(cfg LazyConfig) *Lazy { return &Lazy{cfg: cfg} }

// changed takes note of what may be changed.
func (b *Lazy) changed(path string) {
	if b.cfg.Changed != nil {
		b.cfg.Changed(path)
	}
}

func (b *Lazy) sandbox() (sandbox.Sandbox, error) {
	b.used = true
	if err := b.Prepare(); err != nil {
		return nil, err
	}
	return b.cfg.Open()
}

// Prepare is a use of the workspace that is not one of this sandbox.
func (b *Lazy) Prepare() error {
	if b.cfg.Before == nil {
		return nil
	}
	return b.cfg.Before()
}

// ID implements sandbox.Sandbox.
func (b *Lazy) ID() string { return b.cfg.ID }

// Mode implements sandbox.Sandbox.
func (b *Lazy) Mode() sandbox.Mode { return b.cfg.Mode }

// Workspace implements sandbox.Sandbox; it is empty where the sandbox cannot be opened.
func (b *Lazy) Workspace() string {
	sb, err := b.sandbox()
	if err != nil {
		return ""
	}
	b.changed("") // who knows where it is may do anything there
	return sb.Workspace()
}

// Inside implements sandbox.Elsewhere; it is empty where the sandbox cannot be opened.
func (b *Lazy) Inside() string {
	sb, err := b.sandbox()
	if err != nil {
		return ""
	}
	b.changed("")
	return sandbox.Seen(sb)
}

// Lasts implements sandbox.Lasting.
func (b *Lazy) Lasts() bool { return b.cfg.Pooled }

// Exec implements sandbox.Sandbox.
func (b *Lazy) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	sb, err := b.sandbox()
	if err != nil {
		return sandbox.Exit{}, err
	}
	b.changed("")
	exit, err := sb.Exec(ctx, cmd)
	b.Spend(exit)
	return exit, err
}

// Spend counts what a command used.
func (b *Lazy) Spend(exit sandbox.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent.Commands++
	b.spent.UserMS += exit.User.Milliseconds()
	b.spent.SystemMS += exit.System.Milliseconds()
	b.spent.MaxMemoryBytes = max(b.spent.MaxMemoryBytes, exit.MaxRSS)
	b.spent.ReadBytes += exit.ReadBytes
	b.spent.WriteBytes += exit.WriteBytes
}

// Usage is what the commands used so far, nil where none was run.
func (b *Lazy) Usage() *events.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent.Commands == 0 {
		return nil
	}
	u := b.spent
	return &u
}

// counted is a process whose usage is counted once, when it has ended and a caller asks.
type counted struct {
	sandbox.Process
	once    sync.Once
	sandbox *Lazy
}

// Wait implements sandbox.Process.
func (c *counted) Wait() (sandbox.Exit, error) {
	exit, err := c.Process.Wait()
	c.once.Do(func() { c.sandbox.Spend(exit) })
	return exit, err
}

// Start implements sandbox.Sandbox.
func (b *Lazy) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	sb, err := b.sandbox()
	if err != nil {
		return nil, err
	}
	b.changed("")
	p, err := sb.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &counted{Process: p, sandbox: b}, nil
}

// Processes implements sandbox.Sandbox; what was never used has none.
func (b *Lazy) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	if !b.used {
		return nil, nil
	}
	sb, err := b.cfg.Open()
	if err != nil {
		return nil, err
	}
	return sb.Processes(ctx)
}

// Kill implements sandbox.Sandbox.
func (b *Lazy) Kill(ctx context.Context, pid int) error {
	sb, err := b.sandbox()
	if err != nil {
		return err
	}
	return sb.Kill(ctx, pid)
}

// ReadFile implements sandbox.Sandbox.
func (b *Lazy) ReadFile(path string) ([]byte, error) {
	sb, err := b.sandbox()
	if err != nil {
		return nil, err
	}
	return sb.ReadFile(path)
}

// WriteFile implements sandbox.Sandbox.
func (b *Lazy) WriteFile(path string, data []byte) error {
	sb, err := b.sandbox()
	if err != nil {
		return err
	}
	b.changed(path)
	return sb.WriteFile(path, data)
}

// Stat implements sandbox.Sandbox.
func (b *Lazy) Stat(path string) (fs.FileInfo, error) {
	sb, err := b.sandbox()
	if err != nil {
		return nil, err
	}
	return sb.Stat(path)
}

// Remove implements sandbox.Sandbox.
func (b *Lazy) Remove(path string) error {
	sb, err := b.sandbox()
	if err != nil {
		return err
	}
	b.changed("") // also what is gone is looked for
	return sb.Remove(path)
}

// Rename implements sandbox.Sandbox.
func (b *Lazy) Rename(from, to string) error {
	sb, err := b.sandbox()
	if err != nil {
		return err
	}
	b.changed("")
	return sb.Rename(from, to)
}

// FS implements sandbox.Sandbox.
func (b *Lazy) FS() fs.FS {
	sb, err := b.sandbox()
	if err != nil {
		return noFiles{err}
	}
	return sb.FS()
}

// Destroy implements sandbox.Sandbox; a sandbox that was never opened has nothing to destroy.
func (b *Lazy) Destroy(ctx context.Context) error {
	if !b.used {
		return nil
	}
	sb, err := b.cfg.Open()
	if err != nil {
		return nil //nolint:nilerr // nothing was opened, and its use returned why
	}
	return sb.Destroy(ctx)
}

// noFiles is the file system of a sandbox that cannot be opened.
type noFiles struct{ err error }

func (n noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: n.err}
}
