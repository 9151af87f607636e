package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// Box is a sandbox as far as all backends agree. A backend embeds it and calls Serve before it gives the sandbox out.
//
// It owns a private directory beside the workspace, for HOME and temporary files: they last as long as the sandbox,
// from one Exec to the next, and are gone after Destroy.
type Sandbox struct {
	Life
	*Files  // of the workspace
	cfg     sandbox.Config
	mode    sandbox.Mode
	private string
	secret  string
	env     Env
	until   time.Time // when Limits.Wall is over

	run      Runner
	signal   Signaler // nil for processes of this machine
	releases []func(ctx context.Context) error
	trees    trees
}

// OpenBox checks a Config, opens the workspace and makes the private directory below base (empty: the system's
// place for temporary files). home and tmp are the paths that a command sees; empty means the private directories'
// own.
func OpenSandbox(cfg sandbox.Config, mode sandbox.Mode, base, home, tmp string) (*Sandbox, error) {
	if cfg.ID == "" {
		return nil, errors.New("sandbox: want an ID")
	}
	if err := checkPaths(cfg); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	cfg.Workspace = filepath.Clean(cfg.Workspace)
	cfg.ReadOnly, cfg.Writable, cfg.Denied = clean(cfg.ReadOnly), clean(cfg.Writable), clean(cfg.Denied)
	files, err := OpenFiles(cfg.Workspace)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	if err := files.keepReadOnly(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), files.Close())
	}
	b := &Sandbox{cfg: cfg, mode: mode, Files: files, secret: ownOwner() + "-" + rand.Text(),
		until: time.Now().Add(cfg.Limits.Wall)}
	if err := b.prepare(base, home, tmp); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), files.Close(), b.removePrivate())
	}
	return b, nil
}

func (b *Sandbox) prepare(base, home, tmp string) (err error) {
	if b.private, err = os.MkdirTemp(base, ownName()); err != nil {
		return fmt.Errorf("make the private directory: %w", err)
	}
	for _, name := range []string{"home", "tmp"} {
		if err := os.Mkdir(b.Private(name), 0o700); err != nil {
			return err
		}
	}
	if home == "" {
		home = b.Private("home")
	}
	if tmp == "" {
		tmp = b.Private("tmp")
	}
	b.env, err = FixedEnv(home, tmp).With(b.cfg.Env)
	return err
}

// ID names the sandbox.
func (b *Sandbox) ID() string { return b.cfg.ID }

// Mode returns the backend's mode.
func (b *Sandbox) Mode() sandbox.Mode { return b.mode }

// Workspace returns the absolute path of the workspace.
func (b *Sandbox) Workspace() string { return b.cfg.Workspace }

// Config returns what the sandbox was opened with, its paths clean.
func (b *Sandbox) Config() sandbox.Config { return b.cfg }

// Name returns a name of the sandbox's own that tells whose it is, for what it makes besides its private directory.
func (b *Sandbox) Name() string { return filepath.Base(b.private) }

// Private returns a path in the private directory.
func (b *Sandbox) Private(name string) string { return filepath.Join(b.private, name) }

// Command checks a command and turns it into a Process that has everything but the program's path.
func (b *Sandbox) Command(cmd sandbox.Cmd) (Process, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return Process{}, fmt.Errorf("exec: want a program in Args: %w", fs.ErrInvalid)
	}
	if err := b.Files.Dir(cmd.Dir); err != nil {
		return Process{}, fmt.Errorf("exec %q: working directory: %w", cmd.Args[0], err)
	}
	env, err := b.env.With(cmd.Env)
	if err != nil {
		return Process{}, fmt.Errorf("exec %q: %w", cmd.Args[0], err)
	}
	dir := filepath.Join(b.cfg.Workspace, cmd.Dir)
	env["PWD"] = dir
	return Process{
		Args: cmd.Args, Env: env, Dir: dir,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		Terminal: cmd.Terminal, AnyProgram: cmd.AnyProgram,
		Marker: b.secret + "." + rand.Text(), sandbox: b,
	}, nil
}

// OnDestroy has Destroy call a function when no command runs any more, before the private directory is removed. Each
// call of Destroy calls it.
func (b *Sandbox) OnDestroy(release func(ctx context.Context) error) {
	b.releases = append(b.releases, release)
}

// Destroy ends all commands, closes the workspace and removes the private directory. It may be called again, also
// after an error.
func (b *Sandbox) Destroy(ctx context.Context) error {
	err := b.End(ctx)
	if err == nil {
		for _, release := range b.releases {
			err = errors.Join(err, release(ctx))
		}
		err = errors.Join(err, b.Files.Close(), b.removePrivate())
	}
	if err != nil {
		return fmt.Errorf("destroy sandbox %s: %w", b.cfg.ID, err)
	}
	return nil
}

func (b *Sandbox) removePrivate() error {
	if b.private == "" {
		return nil
	}
	return RemoveAll(b.private)
}

// RemoveAll removes a directory, also one in which a command made directories unreadable to their owner.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func clean(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, filepath.Clean(path))
	}
	return out
}

func checkPaths(cfg sandbox.Config) error {
	if err := cfg.Limits.Check(); err != nil {
		return err
	}
	for _, path := range slices.Concat([]string{cfg.Workspace}, cfg.ReadOnly, cfg.Writable, cfg.Denied) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("path %q: want an absolute path", path)
		}
	}
	for _, path := range append([]string{cfg.Workspace}, cfg.Writable...) {
		if filepath.Clean(path) == "/" {
			return errors.New("the root directory of the machine cannot be writable")
		}
	}
	return nil
}
