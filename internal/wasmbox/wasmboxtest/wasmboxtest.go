// Package wasmboxtest keeps the toolbox of the wasm sandbox, and what the engine compiled of it, from one test program
// to the next, in the user's directory for caches.
//
// Promises: a test gets a copy of its own of what the sources are now: the go tool itself decides what is up to date.
// What no test used for some days is removed.
package wasmboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/wasmbox/build"
)

// unused is how long what was compiled is kept.
const unused = 3 * 24 * time.Hour

// Toolbox builds the toolbox of the module in source into a directory, and returns the directory where compiled
// programs are kept.
func Toolbox(ctx context.Context, source, dir string) (compiled string, err error) {
	home, err := os.UserCacheDir()
	if err != nil {
		home = dir // a user without one compiles each time
	}
	home = filepath.Join(home, "inspan-test", "wasm")
	programs, compiled := filepath.Join(home, "programs"), filepath.Join(home, "compiled")
	if err := build.Toolbox(ctx, source, programs); err != nil {
		return "", fmt.Errorf("build the toolbox: %w", err)
	}
	if err := copyAll(programs, dir); err != nil {
		return "", fmt.Errorf("copy the toolbox: %w", err)
	}
	return compiled, forget(compiled)
}

// copyAll copies programs and the links to them. One that is replaced meanwhile is the old one or the new one.
func copyAll(from, to string) error {
	list, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	for _, e := range list {
		if filepath.Ext(e.Name()) != ".wasm" || err != nil {
			continue
		}
		at, copied := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.Type() == fs.ModeSymlink {
			err = os.Symlink("wasmbox.wasm", copied)
			continue
		}
		var data []byte
		if data, err = os.ReadFile(at); err == nil {
			err = os.WriteFile(copied, data, 0o644)
		}
	}
	return err
}

// forget removes what was compiled long ago; another test program may do so at the same time.
func forget(compiled string) error {
	err := filepath.WalkDir(compiled, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && time.Since(info.ModTime()) > unused {
			err = os.Remove(at)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
