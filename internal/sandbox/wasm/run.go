package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	wsys "github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// maxFault is the most that is said of a program's fault, in bytes.
const maxFault = 2 << 10

// instance is a program that runs.
type instance struct {
	pid   int
	args  []string
	grant *grant
	begun time.Time
	end   context.CancelCauseFunc
	done  chan struct{} // closed when it is gone
}

// signaled is the cause of an instance that a signal ended.
type signaled struct{ signal unix.Signal }

func (s *signaled) Error() string { return "ended by " + unix.SignalName(s.signal) }

// run carries out one command; it is a local.Runner.
func (b *guest) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{}, local.Ended(ctx, p)
	}
	c, err := b.load(ctx, p.Args[0])
	if err != nil {
		return sandbox.Exit{}, err
	}
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	x := &instance{args: p.Args, grant: &grant{of: b.memory, image: c.image}, begun: time.Now(), end: end,
		done: make(chan struct{})}
	if !x.grant.reserve(c.least) {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: it starts with %d bytes of memory; the programs of this sandbox may have %d together",
			p.Args[0], sandbox.ErrNotStarted, c.least, b.memory.limit)
	}
	defer x.grant.release()
	if err := b.enroll(x); err != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", p.Args[0], err)
	}
	defer b.dismiss(x)
	if started != nil {
		started(x.pid)
	}
	exit, err := b.execute(inner, x, c, p)
	exit.Wall, exit.MaxRSS = time.Since(x.begun), x.grant.size()
	return exit, err
}

// load finds and compiles a program.
func (b *guest) load(ctx context.Context, name string) (*compiled, error) {
	file, err := b.backend.find(name)
	if err != nil {
		return nil, err
	}
	e, err := b.backend.started(ctx)
	if err != nil {
		return nil, err
	}
	c, err := e.load(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("exec %q: %w: %w", name, sandbox.ErrNotStarted, err)
	}
	return c, nil
}

// execute runs a program on this thread until it ends, and tells how.
func (b *guest) execute(ctx context.Context, x *instance, c *compiled, p local.Process) (exit sandbox.Exit, err error) {
	e, err := b.backend.started(ctx)
	if err != nil {
		return exit, err
	}
	files := &fsys{tree: b.tree, end: x.end}
	in, stop := input(ctx, p.Stdin)
	defer stop()
	out := &output{to: p.Stdout}
	errs := out
	if !local.Same(p.Stdout, p.Stderr) {
		errs = &output{to: p.Stderr}
	}
	cfg := wazero.NewModuleConfig().WithName("").WithArgs(p.Args...).WithStartFunctions().
		WithStdout(out).WithStderr(errs).WithRandSource(rand.Reader).WithFSConfig(mounted(files)).
		WithSysWalltime().WithSysNanotime().WithNanosleep(sleep(ctx)).WithOsyield(runtime.Gosched)
	if in != nil {
		cfg = cfg.WithStdin(in)
	}
	for _, entry := range p.Env.List() {
		name, value, _ := strings.Cut(entry, "=")
		cfg = cfg.WithEnv(name, value)
	}
	cfg = cfg.WithEnv(local.MarkerName, p.Marker)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	user, system := threadTime()
	self := &caller{sandbox: b, files: files, self: x, p: p}
	if by := callerOf(ctx); by != nil {
		self.depth = by.depth
	}
	err = call(context.WithValue(ctx, callerKey{}, self), e.runtime, x.grant, c, cfg)
	userNow, systemNow := threadTime()
	exit, err = ending(ctx, p, err, errs)
	exit.User, exit.System = userNow-user, systemNow-system
	return exit, err
}

// call makes an instance, runs its _start and takes it away.
func call(ctx context.Context, r wazero.Runtime, memory *grant, c *compiled, cfg wazero.ModuleConfig) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the engine failed on it: %v", fault)
		}
	}()
	mod, err := r.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), c.module, cfg)
	if err != nil {
		return &unstarted{err}
	}
	defer func(m api.Module) { _ = m.Close(context.WithoutCancel(ctx)) }(mod) // it may be closed already
	start := mod.ExportedFunction("_start")
	if start == nil {
		return &unstarted{errors.New("it exports no _start: it is a library, not a program")}
	}
	_, err = start.Call(ctx)
	return err
}

// unstarted means that a program did not come to its _start.
type unstarted struct{ err error }

func (u *unstarted) Error() string { return u.err.Error() }
func (u *unstarted) Unwrap() error { return u.err }

// ending tells how a program ended.
func ending(ctx context.Context, p local.Process, err error, errs *output) (sandbox.Exit, error) {
	if ctx.Err() != nil { // also where it noticed, and ended by itself
		if s, ok := errors.AsType[*signaled](context.Cause(ctx)); ok {
			return sandbox.Exit{Code: 128 + int(s.signal), Signal: unix.SignalName(s.signal)}, nil
		}
		return sandbox.Exit{}, local.Ended(ctx, p)
	}
	status, exited := errors.AsType[*wsys.ExitError](err)
	switch {
	case err == nil:
		return sandbox.Exit{}, nil
	case exited:
		return sandbox.Exit{Code: int(status.ExitCode() & 0xff)}, nil
	}
	if u, ok := errors.AsType[*unstarted](err); ok {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %w", p.Args[0], sandbox.ErrNotStarted, u.err)
	}
	text := err.Error()
	fmt.Fprintf(errs, "%s: %s\n", p.Args[0], text[:min(len(text), maxFault)])
	return sandbox.Exit{Code: 128 + int(unix.SIGABRT), Signal: unix.SignalName(unix.SIGABRT)}, nil
}

// mounted gives a program one directory: the root of the tree.
func mounted(files *fsys) wazero.FSConfig {
	cfg, ok := wazero.NewFSConfig().(sysfs.FSConfig)
	if !ok {
		return nil // no files at all: the engine has no way to be given ours
	}
	return cfg.WithSysFSMount(files, "/")
}
