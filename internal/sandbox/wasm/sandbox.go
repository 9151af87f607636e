package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// firstPID is the number before the first program's. It is above all numbers that systems give processes, so that none
// is ever taken for one.
const firstPID = 1 << 24

// guest is a sandbox. Files, environment, life and limits of time are those of local.Box.
type guest struct {
	*local.Sandbox
	backend *Backend
	tree    *tree
	memory  *memory

	mu   sync.Mutex
	next int               // the last number given; guarded by mu, as is live
	live map[int]*instance // what runs, by number
}

var _ sandbox.Sandbox = (*guest)(nil)

// send implements local.Signaler. A program cannot catch a signal: those that end a process by default end it, signal 0
// asks whether it runs, and any other is errors.ErrUnsupported.
func (b *guest) send(_ context.Context, pid int, s unix.Signal) error {
	b.mu.Lock()
	x := b.live[pid]
	b.mu.Unlock()
	switch {
	case x == nil:
		return sandbox.ErrNoProcess
	case s == 0:
		return nil
	case slices.Contains([]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGKILL, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE}, s):
		x.end(&signaled{s})
		return nil
	}
	return fmt.Errorf("signal %v: a wasm program can only be killed: %w", s, errors.ErrUnsupported)
}

// enroll gives a program a number, where there is room for it.
func (b *guest) enroll(x *instance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := b.Config().Limits.PIDs; most > 0 && len(b.live) >= most {
		return fmt.Errorf("%w: %d programs are running, which is the limit", sandbox.ErrNotStarted, most)
	}
	b.next++
	x.pid = firstPID + b.next
	b.live[x.pid] = x
	return nil
}

func (b *guest) dismiss(x *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, x.pid)
	close(x.done)
}

// Processes implements sandbox.Sandbox.
func (b *guest) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []sandbox.ProcessInfo
	for _, x := range b.live {
		list = append(list, sandbox.ProcessInfo{PID: x.pid, Parent: os.Getpid(), Args: shown(x.args), RSS: x.grant.size()})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list, nil
}

// shown keeps a command line within what ProcessInfo promises.
func shown(args []string) []string {
	left := 4096
	var out []string
	for _, arg := range args {
		if left <= 0 {
			break
		}
		arg = arg[:min(len(arg), left)]
		left -= len(arg) + 1
		out = append(out, arg)
	}
	return out
}

// Kill implements sandbox.Sandbox.
func (b *guest) Kill(ctx context.Context, pid int) error {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	b.mu.Lock()
	x := b.live[pid]
	b.mu.Unlock()
	if x == nil {
		return fmt.Errorf("kill %d: %w", pid, sandbox.ErrNoProcess)
	}
	x.end(&signaled{unix.SIGKILL})
	select {
	case <-x.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
