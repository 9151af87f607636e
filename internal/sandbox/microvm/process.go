package microvm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/tail"
)

// maxConsole is how much is kept of what a console says.
const maxConsole = 2 << 10

// lostWait is how long the end of an engine is waited for whose channel has ended.
const lostWait = 2 * time.Second

// process is a running engine.
type process struct {
	cmd    *exec.Cmd
	said   func() string
	exited chan struct{} // closed when it has ended; how is in cmd then
	// watches are those who hear what it tells of itself, until it has ended.
	watches sync.WaitGroup

	mu    sync.Mutex
	fault error // why it was ended, where that is its own fault; guarded by mu
}

// run starts an engine that ends with this process.
func run(cmd *exec.Cmd) (*process, error) {
	console := tail.New(maxConsole)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = console, console, attributes()
	p := &process{cmd: cmd, said: func() string { return printed(console) }, exited: make(chan struct{})}
	started := make(chan error, 1) // one result
	go func() {
		// The kernel sends the parent-death signal when the starting thread ends, so this thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is of no interest: what was asked of it tells
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end kills the engine and waits until it is gone. It may be called again.
func (p *process) end(ctx context.Context) error {
	_ = p.cmd.Process.Kill() // it may have ended
	select {
	case <-p.exited:
		p.watches.Wait()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the engine to end: %w", ctx.Err())
	}
}

// fail kills an engine whose machine is of no use any more. The first reason stays.
func (p *process) fail(why error) {
	p.mu.Lock()
	if p.fault == nil {
		p.fault = why
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended
}

// why tells of an engine that was lost. It waits a moment for its end, which is seen later than that of its channel.
func (p *process) why() error {
	late := time.NewTimer(lostWait)
	defer late.Stop()
	select {
	case <-p.exited:
	case <-late.C:
		return errors.New("its engine runs and does not respond")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return p.fault
	}
	return fmt.Errorf("its engine ended (%v)%s", p.cmd.ProcessState, p.said())
}

// printed is the end of what a console printed, for an error.
func printed(console *tail.Writer) string {
	end, _ := console.End()
	said := strings.TrimSpace(strings.ToValidUTF8(string(end), "\uFFFD"))
	if said == "" {
		return ""
	}
	return fmt.Sprintf("; its console printed %q", said)
}
