//go:build !linux

package local

import (
	"context"
	"fmt"
	"runtime"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
)

// Processes is refused: without /proc a process that left its group is not found.
func (b *Sandbox) Processes(context.Context) ([]sandbox.ProcessInfo, error) {
	return nil, fmt.Errorf("%w: processes are listed on Linux only, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}

// Kill knows the commands that were started, and no other process.
func (b *Sandbox) Kill(_ context.Context, pid int) error {
	_, err := b.send(pid, syscall.SIGKILL, true)
	return err
}

func (b *Sandbox) send(pid int, sig syscall.Signal, _ bool) (bool, error) {
	for _, t := range b.trees.running() {
		if t.root == pid {
			return true, syscall.Kill(pid, sig)
		}
	}
	return false, fmt.Errorf("process %d: %w", pid, sandbox.ErrNoProcess)
}
