package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
)

const (
	// drainIdle is how long a pipe may stay silent after everything that was found was killed. It matters only for a
	// process that hid from the kill and still holds the pipe.
	drainIdle = 500 * time.Millisecond
	// drainMax is the most bytes taken from a pipe after the command ended; more than a pipe can hold.
	drainMax = 4 << 20
	// stdinGrace is how long Run waits for a Read of Stdin that is still blocked after the command ended.
	stdinGrace = 100 * time.Millisecond
	copyBuffer = 32 << 10
)

// Process is one command, ready to start.
type Process struct {
	// Path of the program, absolute.
	Path string
	// Args with the program's name first.
	Args []string
	// Env without the marker, which Run adds.
	Env Env
	// Dir is the absolute working directory.
	Dir string
	// Extra files become descriptors 3 and up. Run does not close them.
	Extra []*os.File

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is that of sandbox.Cmd.
	Terminal *os.File

	// AnyProgram is that of sandbox.Cmd.
	AnyProgram bool
	// Marker is the value of MarkerName: unique to this process and not to be guessed.
	Marker string
	// Started, if set, is called once with the process's id. After, if set, is called when the process has ended and
	// before its output is drained; it must end what the tree walk cannot find by itself.
	Started func(pid int)
	After   func()
	// Wrapped says that the process and the first one of a namespace below it only hold the walls of the command.
	Wrapped bool
	// Attributes, if set, adds to how the process is started.
	Attributes func(*syscall.SysProcAttr)

	sandbox *Sandbox // whose command it is; nil for a probe
}

// Run starts a process in its own group and waits. When ctx ends it kills the process and all it started. Run
// returns when everything is gone and all output has been passed on. The error wraps ctx's error, and the context's
// cause where it is another, if Run ended the process; a process that ended by itself is no error.
func Run(ctx context.Context, p Process) (sandbox.Exit, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{}, Ended(ctx, p)
	}
	// The kernel sends the parent-death signal when the starting thread ends, so this thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	pipes, err := openPipes(p)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", p.Args[0], err)
	}
	start, sys := time.Now(), attributes()
	if p.Attributes != nil {
		p.Attributes(sys)
	}
	keepInherited()
	proc, err := os.StartProcess(p.Path, p.Args, &os.ProcAttr{
		Dir:   p.Dir,
		Env:   append(p.Env.List(), MarkerName+"="+p.Marker),
		Files: append(pipes.child(), p.Extra...),
		Sys:   sys,
	})
	pipes.started()
	if err != nil {
		pipes.finish()
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", p.Args[0], err)
	}
	tree := newTree(proc.Pid, p.Marker, start)
	tree.wrapped = p.Wrapped
	if p.sandbox != nil {
		defer p.sandbox.trees.track(tree)()
	}
	if p.Started != nil {
		p.Started(proc.Pid)
	}
	pipes.copy(p)

	var killed atomic.Bool
	killDone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killDone)
		killed.Store(true)
		tree.killAll()
	})
	state, waitErr := tree.wait(proc, func() {
		if !stop() {
			<-killDone
		}
		if p.After != nil {
			p.After()
		}
		tree.sweep(killed.Load())
	})
	pipes.finish()
	if waitErr != nil {
		return sandbox.Exit{}, fmt.Errorf("wait for %q: %w", p.Args[0], waitErr)
	}
	exit := exitOf(state, time.Since(start))
	if killed.Load() && exit.Signal == "SIGKILL" {
		return exit, Ended(ctx, p)
	}
	return exit, nil
}

// Ended is the error of a command that was ended because ctx did; it tells the cause too, where that is another.
func Ended(ctx context.Context, p Process) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return fmt.Errorf("exec %q was ended: %w: %w", p.Args[0], err, cause)
	}
	return fmt.Errorf("exec %q was ended: %w", p.Args[0], err)
}

func exitOf(state *os.ProcessState, wall time.Duration) sandbox.Exit {
	exit := sandbox.Exit{Code: state.ExitCode(), Wall: wall, User: state.UserTime(), System: state.SystemTime()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Code = 128 + int(ws.Signal())
		exit.Signal = unix.SignalName(ws.Signal())
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		exit.MaxRSS = maxRSS(usage)
		// getrusage(2) counts blocks of 512
		exit.ReadBytes, exit.WriteBytes = int64(usage.Inblock)*512, int64(usage.Oublock)*512
	}
	return exit
}

// Signalled sets the signal of an Exit whose code tells it, as that of a shell does.
func Signalled(exit *sandbox.Exit) {
	if n := exit.Code - 128; n > 0 && n <= 64 {
		exit.Signal = unix.SignalName(unix.Signal(n))
	}
}

// pipes are the three standard streams of one process. Where a stream needs no goroutine there is none.
type pipes struct {
	in, out, err struct{ child, ours *os.File }
	shared       bool // stdout and stderr are one
	over         atomic.Bool
	outputs      sync.WaitGroup
	stdin        chan struct{} // closed when the stdin goroutine is gone; nil without one
}

func openPipes(p Process) (*pipes, error) {
	s := &pipes{shared: p.Stdout != nil && Same(p.Stdout, p.Stderr)}
	var err error
	open := func(wanted, reads bool) (child, ours *os.File) {
		if err != nil {
			return nil, nil
		}
		if !wanted {
			child, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
			return child, nil
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil, nil
		}
		if reads {
			return r, w
		}
		return w, r
	}
	if p.Terminal != nil {
		s.in.child, s.out.child = p.Terminal, p.Terminal
	} else {
		s.in.child, s.in.ours = open(p.Stdin != nil, true)
		s.out.child, s.out.ours = open(p.Stdout != nil, false)
	}
	if s.shared {
		s.err.child = s.out.child
	} else {
		s.err.child, s.err.ours = open(p.Stderr != nil, false)
	}
	if err != nil {
		s.started()
		s.finish()
		return nil, err
	}
	return s, nil
}

func (s *pipes) child() []*os.File { return []*os.File{s.in.child, s.out.child, s.err.child} }

// started closes the child's ends.
func (s *pipes) started() {
	closeFile(s.in.child)
	closeFile(s.out.child)
	if !s.shared {
		closeFile(s.err.child)
	}
}

func (s *pipes) copy(p Process) {
	if s.in.ours != nil {
		s.stdin = make(chan struct{})
		go func() {
			defer close(s.stdin)
			// An error here is the command closing its input, or the reader's own; neither ends the command.
			_, _ = io.Copy(s.in.ours, p.Stdin)
			closeFile(s.in.ours)
		}()
	}
	if s.out.ours != nil {
		s.outputs.Go(func() { s.pass(p.Stdout, s.out.ours) })
	}
	if s.err.ours != nil {
		s.outputs.Go(func() { s.pass(p.Stderr, s.err.ours) })
	}
}

// pass copies one output until its end. After the command ended it takes what is still in the pipe and no more.
func (s *pipes) pass(w io.Writer, r *os.File) {
	buf := make([]byte, copyBuffer)
	late := 0
	for late < drainMax {
		if s.over.Load() {
			_ = r.SetReadDeadline(time.Now().Add(drainIdle))
		}
		n, err := r.Read(buf)
		if n > 0 && w != nil {
			if _, failed := w.Write(buf[:n]); failed != nil {
				w = nil // read on, so that the command does not hang on a full pipe
			}
		}
		if s.over.Load() {
			late += n
		}
		if err != nil {
			return
		}
	}
}

// finish waits for the goroutines and closes our ends.
func (s *pipes) finish() {
	s.over.Store(true)
	for _, r := range []*os.File{s.out.ours, s.err.ours} {
		if r != nil {
			_ = r.SetReadDeadline(time.Now().Add(drainIdle))
		}
	}
	s.outputs.Wait()
	closeFile(s.out.ours)
	closeFile(s.err.ours)
	if s.stdin != nil {
		grace := time.NewTimer(stdinGrace)
		defer grace.Stop()
		select {
		case <-s.stdin:
		case <-grace.C:
		}
	}
	closeFile(s.in.ours)
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() // a second close of the same file is an error of no consequence
	}
}

// Same reports whether two writers are one; writers of types that cannot be compared never are.
func Same(a, b io.Writer) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return a == b
}
