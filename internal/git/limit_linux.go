package git

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// canLimit reports whether limits can be set on a running process: the children of one must be listed.
var canLimit = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
})

// bounded is the command line of a call, and what sets its limits once it runs, which its helpers inherit.
//
// A shell that sets them first would be a third of what a small git costs. Git has begun to run when they are set, by
// milliseconds, more on a busy machine. What it started in the meantime gets them, too, and what any of them took or
// wrote counts: beyond the limit it gets and writes no more.
func (g *runner) bounded(c call) (args []string, limit func(pid int) error) {
	if !canLimit() {
		return g.byShell(c), func(int) error { return nil }
	}
	return append([]string{g.program}, c.args...), func(pid int) error {
		if err := g.limit(c, pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("set its limits: %w", err)
		}
		return nil
	}
}

// limit sets the limits of a process first, and then of its children: those that it starts later inherit them.
func (g *runner) limit(c call, pid int) error {
	memory := unix.Rlimit{Cur: uint64(g.cfg.Limits.Memory), Max: uint64(g.cfg.Limits.Memory)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &memory, nil); err != nil && !errors.Is(err, syscall.EPERM) {
		return err // where that much may not be asked for, less may
	}
	if c.bound {
		size := uint64(g.cfg.Limits.Pack/ulimitBlock+1) * ulimitBlock
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}, nil); err != nil {
			return err
		}
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := g.limit(c, child); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// childrenOf lists the processes that the threads of a process started and that still live.
func childrenOf(pid int) (all []int, err error) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil, gone(err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + "/" + thread.Name() + "/children")
		if err = gone(err); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil && !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all, nil
}

// gone makes ESRCH of what reading a process that has ended gives.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return syscall.ESRCH
	}
	return err
}
