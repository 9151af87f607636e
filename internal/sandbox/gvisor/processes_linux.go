package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// first is the number that a command has in its kernel.
	first = 1
	// numbers is how many a kernel gives at most: outside, a process is known by its kernel's number and its own.
	numbers = 100_000
	// askWait bounds one question to runsc.
	askWait = 20 * time.Second
	// tick is how often a kernel that starts, or a process that was killed, is looked at.
	tick = 5 * time.Millisecond
	// killWait is how long a killed process may take to be gone.
	killWait = 5 * time.Second
)

// numberOf names a process by the number of its runsc on this machine and its own under that.
func numberOf(outside, inside int) int { return outside*numbers + inside }

// kernelOf finds the kernel of a process.
func (b *instance) kernelOf(pid int) (k *kernel, inside int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, inside = b.running[pid/numbers], pid%numbers
	if pid <= numbers || k == nil || inside == 0 {
		return nil, 0, fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess)
	}
	return k, inside, nil
}

// send signals one process.
func (b *instance) send(ctx context.Context, pid int, sig syscall.Signal) error {
	k, inside, err := b.kernelOf(pid)
	if err != nil {
		return err
	}
	if _, err := k.ask(ctx, "kill", "--pid="+strconv.Itoa(inside), k.name, strconv.Itoa(int(sig))); err != nil {
		if _, _, gone := b.kernelOf(pid); gone != nil {
			return gone
		}
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// Processes implements sandbox.Sandbox.
func (b *instance) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	b.mu.Lock()
	var kernels []*kernel
	for _, k := range b.running {
		kernels = append(kernels, k)
	}
	b.mu.Unlock()
	list := []sandbox.ProcessInfo{}
	for _, k := range kernels {
		some, err := k.processes(ctx)
		if err != nil {
			b.mu.Lock()
			_, there := b.running[k.outside]
			b.mu.Unlock()
			if !there {
				continue // it ended while it was asked
			}
			return nil, err
		}
		list = append(list, some...)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list, ctx.Err()
}

// Kill implements sandbox.Sandbox.
func (b *instance) Kill(ctx context.Context, pid int) error {
	_, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	there := func() (bool, error) {
		k, _, err := b.kernelOf(pid)
		if err != nil {
			return false, err
		}
		list, err := k.processes(ctx)
		return slices.ContainsFunc(list, func(i sandbox.ProcessInfo) bool { return i.PID == pid }), err
	}
	if ok, err := there(); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess))
	}
	if err := b.send(ctx, pid, syscall.SIGKILL); err != nil {
		return err
	}
	deadline := time.Now().Add(killWait)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		// Where its kernel cannot be asked any more it has ended with its command.
		if ok, err := there(); !ok || err != nil {
			return nil
		}
		wait(ctx, tick)
	}
	return errors.Join(ctx.Err(), fmt.Errorf("kill %d: the process was signalled and does not end: destroy the sandbox",
		pid))
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask runs a verb of runsc about this kernel and returns what it says, also where it failed after it had said
// something.
func (k *kernel) ask(ctx context.Context, verb string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	line := k.command(verb, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var out, cried bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &cried
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("runsc %s: %w: %s", verb, err, clip(cried.String()))
	}
	return out.Bytes(), nil
}

// awaited waits until the command of a kernel runs. It is false where the command could not begin, or ctx has ended.
func (k *kernel) awaited(ctx context.Context) bool {
	for ctx.Err() == nil {
		if _, alive := local.ParentOf(k.outside); !alive {
			return k.complaint("run") == "" // it ran, and was short
		}
		// A question costs as much as a part of the start that it waits for: there is none before the container is
		// made.
		if _, err := os.Stat(k.file("pid")); err == nil {
			if text, err := k.ask(ctx, "state", k.name); err == nil && bytes.Contains(text, []byte(`"running"`)) {
				return true
			}
		}
		wait(ctx, tick)
	}
	return false
}

// lister says its own number and then becomes a program that shows the files of all processes.
const lister = `echo $$; exec "$0" -v -c 4096 /proc/[0-9]*/stat /proc/[0-9]*/cmdline`

// processes asks the kernel for its processes, from inside: it is the only one who knows them.
func (k *kernel) processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	head, err := local.FixedEnv("", "").Look("head", "/")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	// A full house lets a process with this capability in. It means nothing outside of gVisor's kernel.
	// One that ends while it is looked at makes the program fail after it has shown the others.
	text, err := k.ask(ctx, "exec", "--cwd=/", "--cap=CAP_SYS_RESOURCE", k.name, "/bin/sh", "-c", lister, head)
	if err != nil && len(text) == 0 {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return parse(k.outside, string(text)), nil
}

// parse reads what lister said. What a process says of itself it may have made up; it can only say it of itself and of
// others of its own sandbox.
func parse(outside int, text string) []sandbox.ProcessInfo {
	own, rest, _ := strings.Cut(text, "\n")
	lines, stats := map[int]string{}, map[int]string{}
	for part := range strings.SplitSeq("\n"+rest, "\n==> /proc/") {
		name, body, ok := strings.Cut(part, " <==\n")
		id, file, ok2 := strings.Cut(name, "/")
		pid, err := strconv.Atoi(id)
		switch {
		case !ok || !ok2 || err != nil || pid <= 0 || pid >= numbers || id == strings.TrimSpace(own):
		case file == "cmdline":
			lines[pid] = strings.TrimRight(body, "\x00\n")
		default:
			stats[pid] = body
		}
	}
	var list []sandbox.ProcessInfo
	for pid, stat := range stats {
		info, dead, ok := local.Info(numberOf(outside, pid), stat, lines[pid], int64(os.Getpagesize()))
		if !ok || dead {
			continue
		}
		if info.Parent > 0 {
			info.Parent = numberOf(outside, info.Parent)
		}
		list = append(list, info)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list
}
