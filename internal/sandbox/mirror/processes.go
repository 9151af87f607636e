package mirror

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// maxProcesses is the most processes that are listed.
	maxProcesses = 10_000
)

// Processes implements sandbox.Sandbox.
func (b *Sandbox) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	said, err := b.helper(ctx, Program{Privileged: true}, processes, b.mark, b.since)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	page, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil || len(lines)%3 != 2 || len(lines) > 3*maxProcesses || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("list processes: %w", ErrHostile)
	}
	list := []sandbox.ProcessInfo{}
	for lines = lines[1 : len(lines)-1]; len(lines) > 0; lines = lines[3:] {
		info, err := processOf(lines[0], lines[1], lines[2], page)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w: %w", ErrHostile, err)
		}
		list = append(list, info)
	}
	return list, nil
}

// processOf reads a line of proc_pid_stat(5) and a command line in hexadecimal.
func processOf(pid, stat, line string, page int64) (sandbox.ProcessInfo, error) {
	number, err := strconv.Atoi(pid)
	raw, broken := hex.DecodeString(line)
	info, _, ok := local.Info(number, stat, string(raw), page)
	if err != nil || broken != nil || !ok {
		return info, fmt.Errorf("process %.20q", pid)
	}
	return info, nil
}

// Kill implements sandbox.Sandbox.
func (b *Sandbox) Kill(ctx context.Context, pid int) error {
	return b.send(ctx, pid, unix.SIGKILL, true)
}

// send signals one process that carries the sandbox's mark or descends from one that does.
func (b *Sandbox) send(ctx context.Context, pid int, sig syscall.Signal, wait bool) error {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	none := fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess)
	if pid <= 1 {
		return none
	}
	waits := "0"
	if wait {
		waits = "1"
	}
	said, err := b.helper(ctx, Program{Privileged: true}, signal, b.mark, b.since, fmt.Sprint(pid),
		fmt.Sprint(int(sig)), waits)
	switch {
	case err != nil:
		return fmt.Errorf("signal process %d: %w", pid, err)
	case strings.TrimSpace(said) == "sent":
		return nil
	case strings.TrimSpace(said) == "stays":
		return fmt.Errorf("kill %d: the process was signalled and does not end: destroy the sandbox", pid)
	}
	return none
}
