package toolrunner

import (
	"context"
	"io/fs"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// laterBox is a sandbox that is opened on first use. Every use of one that can not be opened returns why.
type laterBox struct {
	id   string
	mode sandbox.Mode
	open func() (sandbox.Sandbox, error)
	used bool
	// lasts says that it is one that is kept.
	lasts bool
	// before is done once before the first use; nil does nothing. made takes note of what may be changed.
	before func() error
	made   *made

	mu    sync.Mutex
	spent events.Usage // guarded by mu
}

var _ sandbox.Sandbox = (*laterBox)(nil)

func (b *laterBox) box() (sandbox.Sandbox, error) {
	b.used = true
	if err := b.prepare(); err != nil {
		return nil, err
	}
	return b.open()
}

// prepare is what is done before a sandbox is used.
func (b *laterBox) prepare() error {
	if b.before == nil {
		return nil
	}
	return b.before()
}

// ID implements sandbox.Sandbox.
func (b *laterBox) ID() string { return b.id }

// Mode implements sandbox.Sandbox.
func (b *laterBox) Mode() sandbox.Mode { return b.mode }

// Workspace implements sandbox.Sandbox; it is empty where the sandbox can not be opened.
func (b *laterBox) Workspace() string {
	box, err := b.box()
	if err != nil {
		return ""
	}
	b.made.all() // who knows where it is may do anything there
	return box.Workspace()
}

// Inside implements sandbox.Elsewhere; it is empty where the sandbox can not be opened.
func (b *laterBox) Inside() string {
	box, err := b.box()
	if err != nil {
		return ""
	}
	b.made.all()
	return sandbox.Seen(box)
}

// Lasts implements sandbox.Lasting.
func (b *laterBox) Lasts() bool { return b.lasts }

// Exec implements sandbox.Sandbox.
func (b *laterBox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	box, err := b.box()
	if err != nil {
		return sandbox.Exit{}, err
	}
	b.made.all()
	exit, err := box.Exec(ctx, cmd)
	b.spend(exit)
	return exit, err
}

// spend counts what a command used.
func (b *laterBox) spend(exit sandbox.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent.Commands++
	b.spent.UserMS += exit.User.Milliseconds()
	b.spent.SystemMS += exit.System.Milliseconds()
	b.spent.MaxMemoryBytes = max(b.spent.MaxMemoryBytes, exit.MaxRSS)
	b.spent.ReadBytes += exit.ReadBytes
	b.spent.WriteBytes += exit.WriteBytes
}

// usage is what the commands used so far, nil where none was run.
func (b *laterBox) usage() *events.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent.Commands == 0 {
		return nil
	}
	u := b.spent
	return &u
}

// counted is a process whose usage is counted once, when it has ended and somebody asks.
type counted struct {
	sandbox.Process
	once sync.Once
	box  *laterBox
}

// Wait implements sandbox.Process.
func (c *counted) Wait() (sandbox.Exit, error) {
	exit, err := c.Process.Wait()
	c.once.Do(func() { c.box.spend(exit) })
	return exit, err
}

// Start implements sandbox.Sandbox.
func (b *laterBox) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	box, err := b.box()
	if err != nil {
		return nil, err
	}
	b.made.all()
	p, err := box.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &counted{Process: p, box: b}, nil
}

// Processes implements sandbox.Sandbox; what was never used has none.
func (b *laterBox) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	if !b.used {
		return nil, nil
	}
	box, err := b.open()
	if err != nil {
		return nil, err
	}
	return box.Processes(ctx)
}

// Kill implements sandbox.Sandbox.
func (b *laterBox) Kill(ctx context.Context, pid int) error {
	box, err := b.box()
	if err != nil {
		return err
	}
	return box.Kill(ctx, pid)
}

// ReadFile implements sandbox.Sandbox.
func (b *laterBox) ReadFile(path string) ([]byte, error) {
	box, err := b.box()
	if err != nil {
		return nil, err
	}
	return box.ReadFile(path)
}

// WriteFile implements sandbox.Sandbox.
func (b *laterBox) WriteFile(path string, data []byte) error {
	box, err := b.box()
	if err != nil {
		return err
	}
	b.made.wrote(path)
	return box.WriteFile(path, data)
}

// Stat implements sandbox.Sandbox.
func (b *laterBox) Stat(path string) (fs.FileInfo, error) {
	box, err := b.box()
	if err != nil {
		return nil, err
	}
	return box.Stat(path)
}

// Remove implements sandbox.Sandbox.
func (b *laterBox) Remove(path string) error {
	box, err := b.box()
	if err != nil {
		return err
	}
	b.made.all() // also what is gone is looked for
	return box.Remove(path)
}

// Rename implements sandbox.Sandbox.
func (b *laterBox) Rename(from, to string) error {
	box, err := b.box()
	if err != nil {
		return err
	}
	b.made.all()
	return box.Rename(from, to)
}

// FS implements sandbox.Sandbox.
func (b *laterBox) FS() fs.FS {
	box, err := b.box()
	if err != nil {
		return noFiles{err}
	}
	return box.FS()
}

// Destroy implements sandbox.Sandbox; a sandbox that was never opened has nothing to destroy.
func (b *laterBox) Destroy(ctx context.Context) error {
	if !b.used {
		return nil
	}
	box, err := b.open()
	if err != nil {
		return nil //nolint:nilerr // nothing was opened, and its use was told so
	}
	return box.Destroy(ctx)
}

// noFiles is the file system of a sandbox that can not be opened.
type noFiles struct{ err error }

func (n noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: n.err}
}
