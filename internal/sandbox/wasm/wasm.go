// Package wasm runs WebAssembly programs (WASI preview 1) and nothing else (SBX-8).
//
// Promises: a command is a program NAME.wasm in a directory that the operator names; no other can be started, and a
// program can start none. It has no system call, no socket and no process; it reaches files through Tree alone, which
// walks each path by hand, one open directory after the other, and has the kernel follow no link: what is not shown
// cannot be opened by any name, link or race. Memory of all commands of a sandbox together, files and time are bounded.
// When a context ends, the program is stopped wherever it is before Exec returns, also in an endless loop.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// DefaultMemory bounds the memory of a sandbox that asks for no limit, in bytes: it is the memory of the process that
// runs the programs.
const DefaultMemory = 1 << 30

// Config says what the backend runs.
type Config struct {
	// Dirs hold the programs, as NAME.wasm. The first that has a name wins. Links in them are the operator's: followed.
	Dirs []string
	// Cache is a directory where compiled programs are kept. They are native code: no one else may write there. Empty
	// keeps them in memory, so that each process compiles anew.
	Cache string
	// Base is where the private directories of sandboxes are made; empty means the system's place for temporary files.
	Base string
}

// Backend opens sandboxes for WebAssembly programs. Its engine starts with the first Probe or command.
type Backend struct {
	cfg Config

	mu     sync.Mutex
	engine *engine // guarded by mu
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. It does nothing yet.
func New(cfg Config) *Backend { return &Backend{cfg: cfg} }

// Mode returns sandbox.WASM.
func (*Backend) Mode() sandbox.Mode { return sandbox.WASM }

// Capabilities implements sandbox.Backend.
func (*Backend) Capabilities() []sandbox.Capability {
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "a program has only the files that are shown to it: no link or path leads outside",
		sandbox.IsolationDenied:     "denied paths are not among the files of a program, under any name",
		sandbox.IsolationNetwork:    "a program has no sockets, even if the network is enabled",
		sandbox.IsolationStation:    "a program has no sockets, even if the network is enabled",
		sandbox.IsolationProcesses:  "a program sees no process",
		sandbox.IsolationPrivileges: "a program is not a process and has no privileges",
		sandbox.IsolationSyscalls:   "a program can make no system calls",
		sandbox.IsolationMetadata:   "a program reaches no file outside",
		sandbox.IsolationTree:       "a program can start no processes",
		sandbox.LimitMemory:         "memory of all programs together is counted as it grows, and refused above the limit",
		sandbox.LimitDisk:           "counted before each write; a write above the limit is refused and ends the command",
		sandbox.LimitPIDs:           "programs that run at the same time are counted",
		sandbox.LimitWallTime:       "the sandbox's programs are ended",
	}
	return sandbox.Report(how, map[sandbox.Isolation]string{
		sandbox.IsolationPrograms: "its programs come from INSPAN_WASM_PROGRAMS: remove the denied programs from it",
		sandbox.LimitCPU:          "a program runs on a thread of the toolrunner, whose cpu cannot be limited: remove cpu, or use bwrap or docker"})
}

// Probe really runs a small program that is built in, and looks for others in the directories.
func (b *Backend) Probe(ctx context.Context) error {
	if err := b.named(); err != nil {
		return err
	}
	names, err := b.names()
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: no NAME.wasm in %q: make wasm builds a toolbox into bin/wasm", sandbox.ErrUnavailable,
			b.cfg.Dirs)
	}
	e, err := b.started(ctx)
	if err == nil {
		err = e.probe(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: the engine does not start: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}

// named is ErrUnavailable where no one said where programs are.
func (b *Backend) named() error {
	if len(b.cfg.Dirs) == 0 {
		return fmt.Errorf("%w: no programs: name directories of NAME.wasm files in INSPAN_WASM_PROGRAMS; make wasm builds a toolbox into bin/wasm", sandbox.ErrUnavailable)
	}
	return nil
}

// Open binds a sandbox to a workspace. ReadOnly and Writable must exist.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	if err := b.named(); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	if err := sandbox.Require(sandbox.WASM, cfg, b.Capabilities()); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	if cfg.Egress != nil {
		return nil, fmt.Errorf("sandbox %s: %w: wasm programs have no network: use bwrap, or remove allowed_hosts", cfg.ID,
			sandbox.ErrUnavailable)
	}
	inner, err := local.OpenSandbox(cfg, sandbox.WASM, b.cfg.Base, "", "")
	if err != nil {
		return nil, err
	}
	x := &guest{Sandbox: inner, backend: b, memory: &memory{limit: DefaultMemory}, live: make(map[int]*instance)}
	if cfg.Limits.Memory > 0 {
		x.memory.limit = cfg.Limits.Memory
	}
	if x.tree, err = openTree(inner, b.names); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), inner.Destroy(context.WithoutCancel(ctx)))
	}
	x.Serve(x.run, x.send)
	x.OnDestroy(func(context.Context) error { return x.tree.close() })
	return x, nil
}

// Close gives the engine back. Sandboxes must be destroyed before.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	e := b.engine
	b.engine = nil
	b.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.close(ctx)
}

// started returns the engine, which it starts where it is not yet.
func (b *Backend) started(ctx context.Context) (*engine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine == nil {
		e, err := newEngine(ctx, b.cfg.Cache)
		if err != nil {
			return nil, err
		}
		b.engine = e
	}
	return b.engine, nil
}
