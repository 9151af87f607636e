package toolrunner

import (
	"context"
	"io/fs"

	"github.com/inspan/inspan/internal/sandbox"
)

// laterBox is a sandbox that is opened on first use. Every use of one that can not be opened returns why.
type laterBox struct {
	id   string
	mode sandbox.Mode
	open func() (sandbox.Sandbox, error)
	used bool
}

var _ sandbox.Sandbox = (*laterBox)(nil)

func (b *laterBox) box() (sandbox.Sandbox, error) {
	b.used = true
	return b.open()
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
	return box.Workspace()
}

// Exec implements sandbox.Sandbox.
func (b *laterBox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	box, err := b.box()
	if err != nil {
		return sandbox.Exit{}, err
	}
	return box.Exec(ctx, cmd)
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
	return box.Remove(path)
}

// Rename implements sandbox.Sandbox.
func (b *laterBox) Rename(from, to string) error {
	box, err := b.box()
	if err != nil {
		return err
	}
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
