package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// engine compiles programs and runs them.
type engine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache

	mu       sync.Mutex
	programs map[fileID]*compiled // guarded by mu
}

// fileID tells one state of a program's file from another.
type fileID struct {
	path     string
	size     int64
	modified time.Time
}

// compiled is a program that is ready to run, once its once is done.
type compiled struct {
	once   sync.Once
	err    error
	module wazero.CompiledModule
	least  int64    // the memory it begins with, in bytes
	image  *os.File // what is in that; nil where the engine copies it
}

func newEngine(ctx context.Context, dir string) (*engine, error) {
	e := &engine{programs: make(map[fileID]*compiled), cache: wazero.NewCompilationCache()}
	if dir != "" {
		if err := private(dir); err != nil {
			return nil, err
		}
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return nil, fmt.Errorf("cache of compiled programs: %w", err)
		}
		e.cache = cache
	}
	cfg := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(e.cache)
	e.runtime = wazero.NewRuntimeWithConfig(ctx, cfg)
	_, err := wasi_snapshot_preview1.Instantiate(ctx, e.runtime)
	if err == nil {
		err = hostFunctions(ctx, e.runtime)
	}
	if err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}
	return e, nil
}

// private makes a directory that only its owner can write. What lies in it is run as native code.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cache of compiled programs: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cache of compiled programs: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("cache of compiled programs %s: other users can write to it, and its content is executed: chown it to your user and chmod 700", dir)
	}
	return nil
}

func (e *engine) close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.programs {
		if c.image != nil {
			_ = c.image.Close() // it was only ever read
		}
	}
	return errors.Join(e.runtime.Close(ctx), e.cache.Close(ctx))
}

// load returns the program in a file, which it compiles at first use. That takes seconds for a large one.
func (e *engine) load(ctx context.Context, file string) (*compiled, error) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	id := fileID{real, info.Size(), info.ModTime()}
	e.mu.Lock()
	c := e.programs[id]
	if c == nil {
		c = &compiled{}
		e.programs[id] = c
	}
	e.mu.Unlock()
	// No one can stop the engine while it compiles, and all who wait need what it makes.
	c.once.Do(func() { c.err = c.compile(context.WithoutCancel(ctx), e.runtime, real) })
	return c, c.err
}

func (c *compiled) compile(ctx context.Context, r wazero.Runtime, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() > maxModule {
		return fmt.Errorf("%w: it has %d bytes, at most %d", errModule, info.Size(), maxModule)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return c.translate(ctx, r, data)
}

// translate checks a program and makes native code of it.
func (c *compiled) translate(ctx context.Context, r wazero.Runtime, data []byte) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: the engine failed on it: %v", errModule, fault)
		}
	}()
	if data, c.least, err = inspect(data); err != nil {
		return err
	}
	data, c.image = prefilled(data, c.least)
	if c.module, err = r.CompileModule(experimental.WithCompilationWorkers(ctx, min(4, runtime.NumCPU())),
		data); err != nil {
		return fmt.Errorf("%w: %w", errModule, err)
	}
	return nil
}

// smallest is a program that does nothing: a function, exported as _start.
var smallest = string(header) + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x07\x0a\x01\x06_start\x00\x00" +
	"\x0a\x04\x01\x02\x00\x0b"

// probe runs the smallest program.
func (e *engine) probe(ctx context.Context) error {
	c := &compiled{}
	if err := c.translate(ctx, e.runtime, []byte(smallest)); err != nil {
		return err
	}
	mod, err := e.runtime.InstantiateModule(ctx, c.module,
		wazero.NewModuleConfig().WithName("").WithRandSource(rand.Reader))
	if err != nil {
		return err
	}
	return errors.Join(mod.Close(ctx), c.module.Close(ctx))
}
