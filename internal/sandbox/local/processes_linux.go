package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
)

// Processes implements sandbox.Sandbox.
func (b *Sandbox) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	found := make(map[int]bool)
	for _, t := range b.trees.running() {
		for pid := range t.members(false) {
			if !t.helper(pid) {
				found[pid] = true
			}
		}
	}
	list := make([]sandbox.ProcessInfo, 0, len(found))
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		if info, ok := infoOf(pid); ok {
			list = append(list, info)
		}
	}
	return list, ctx.Err()
}

// Kill implements sandbox.Sandbox.
func (b *Sandbox) Kill(ctx context.Context, pid int) error {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	gone, err := b.send(pid, unix.SIGKILL, true)
	if err == nil && !gone {
		return fmt.Errorf("kill %d: the process was signalled and does not end: destroy the sandbox", pid)
	}
	return err
}

// send signals one process of the sandbox, by a handle that was taken before it was looked at, so that a number that
// was given to another process is never hit. It reports whether the process was seen to be gone; wait waits for that.
func (b *Sandbox) send(pid int, sig syscall.Signal, wait bool) (gone bool, err error) {
	none := fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess)
	if pid <= 1 {
		return false, none
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, none
	}
	defer func() { _ = unix.Close(fd) }()
	for _, t := range b.trees.running() {
		if t.helper(pid) || (!t.member(pid) && !t.descends(pid)) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
			return false, none
		}
		if !wait {
			return false, nil
		}
		waitExited(fd, time.Now().Add(killWait))
		st, ok := statOf(pid)
		return !ok || st.dead(), nil
	}
	return false, none
}

// helper reports whether a process of the tree is not the command's but what holds its walls.
func (t *tree) helper(pid int) bool {
	return t.wrapped && (pid == t.root || firstOfNamespace(pid))
}

// infoOf reads proc_pid_stat(5) and proc_pid_cmdline(5).
func infoOf(pid int) (sandbox.ProcessInfo, bool) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return sandbox.ProcessInfo{}, false
	}
	line, _ := os.ReadFile(procPath(pid, "cmdline")) // of a process that is ending it is empty
	info, _, ok := Info(pid, string(data), string(line), int64(os.Getpagesize()))
	return info, ok
}

// commandOf waits until the first process of a namespace has started its command, and returns that. The first process
// is given by its id out here. The zero value means that it ended before it was seen.
func commandOf(ctx context.Context, first int) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(procPath(first, "task/"+strconv.Itoa(first)+"/children"))
		if err != nil {
			return 0
		}
		if list := strings.Fields(string(data)); len(list) > 0 {
			pid, _ := strconv.Atoi(list[0])
			return pid
		}
		if st, ok := statOf(first); !ok || st.dead() {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0
		}
	}
}

// CommandOf is commandOf for backends whose commands run in a namespace of their own: it falls back to the namespace's
// first process where the command was too short to be seen.
func CommandOf(ctx context.Context, first int) int {
	if pid := commandOf(ctx, first); pid > 0 {
		return pid
	}
	return first
}
