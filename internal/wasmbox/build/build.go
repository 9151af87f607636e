// Package build makes the toolbox of the wasm sandbox with the Go toolchain.
//
// Promises: the same source gives the same program, which is not linked again where it is there. A directory that has
// an older toolbox has the new one or the old one, never a part; who builds there at the same time waits. The shell's
// interpreter wants pipes of the system, which WASI has none of: a copy of it is compiled that has pipes in memory
// instead (pipes.go.txt), and lasts as long as the build.
package build

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/wasmbox"
)

//go:embed pipes.go.txt
var pipes []byte

// shellModule is the module that is compiled with our pipes, and systemPipes the file of it that they stand for.
const (
	shellModule = "mvdan.cc/sh/v3"
	systemPipes = "interp/stdin_os.go"
)

// Toolbox builds the toolbox of the module in source into a directory: wasmbox.wasm with links NAME.wasm to it, and
// js.wasm.
func Toolbox(ctx context.Context, source, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	// Its path is in what is linked, so it is the same each time.
	work := filepath.Join(dir, ".build")
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	mod, err := changed(ctx, source, work)
	if err != nil {
		return err
	}
	for program, name := range map[string]string{"./cmd/wasmbox": "wasmbox.wasm", "./cmd/wasmjs": "js.wasm"} {
		made := filepath.Join(work, name)
		_ = os.Link(filepath.Join(dir, name), made) // the go tool looks whether it is up to date
		_, err := goTool(ctx, source, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-modfile="+mod, "-o", made,
			program)
		if err == nil {
			err = os.Chmod(made, 0o644)
		}
		if err == nil {
			err = os.Rename(made, filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	for _, name := range wasmbox.Names() {
		link := filepath.Join(dir, name+".wasm")
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink("wasmbox.wasm", link); err != nil {
			return err
		}
	}
	return nil
}

// lock waits until no one else builds in a directory.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for tick := time.Tick(50 * time.Millisecond); ; {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { _ = f.Close() }, nil // which unlocks
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for who builds in %s: %w", filepath.Dir(file), ctx.Err()), f.Close())
		}
	}
}

// changed returns a go.mod, which is that of the source but for a copy of the shell's module with our pipes.
func changed(ctx context.Context, source, work string) (string, error) {
	out, err := goTool(ctx, source, "list", "-m", "-f", "{{.Dir}}", shellModule)
	if err != nil {
		return "", err
	}
	from, to := strings.TrimSpace(string(out)), filepath.Join(work, "sh")
	if err := copyGo(from, to); err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(to, systemPipes)); err != nil {
		return "", fmt.Errorf("the shell's interpreter is not what it was, so its pipes cannot be replaced: %w", err)
	}
	if err := os.WriteFile(filepath.Join(to, "interp", "pipes.go"), pipes, 0o644); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(work, name), data, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	mod := filepath.Join(work, "go.mod")
	_, err = goTool(ctx, source, "mod", "edit", "-replace", shellModule+"="+to, mod)
	return mod, err
}

// copyGo copies what of a module is compiled.
func copyGo(from, to string) error {
	return filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "testdata" || name == "cmd"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case name != "go.mod" && (filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go")):
			return nil
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

// goTool runs the go tool for the system that the toolbox is built for.
func goTool(ctx context.Context, source string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
}
