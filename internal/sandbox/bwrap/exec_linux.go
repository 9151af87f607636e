package bwrap

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// statusMax and statusWait bound what is read from bubblewrap's status.
	statusMax  = 16 << 10
	statusWait = time.Second
	// heardMax is how much of bubblewrap's complaint is kept to explain a command that did not start.
	heardMax = 2 << 10
)

type box struct {
	*local.Box
	bwrap  install
	mounts []string
}

var _ sandbox.Sandbox = (*box)(nil)

// Exec implements sandbox.Sandbox.
func (b *box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer leave()
	p, err := b.Command(cmd)
	if err != nil {
		return sandbox.Exit{}, err
	}
	args, err := b.arguments(p)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", cmd.Args[0], err)
	}
	defer func() { _ = args.Close() }()
	status, statusIn, err := os.Pipe()
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", cmd.Args[0], err)
	}
	defer func() { _, _ = status.Close(), statusIn.Close() }()

	complaint := listen(&p)
	// The environment travels inside args: bubblewrap itself, which runs outside, is not moved by it, and a list of
	// processes does not show it.
	p.Path, p.Dir, p.Env = b.bwrap.path, "/", local.Env{}
	p.Args = append([]string{"bwrap", "--args", "3", "--"}, cmd.Args...)
	p.Extra = []*os.File{args, statusIn}
	p.Started = func(int) { _ = statusIn.Close() }
	shut, err := b.through(&p, cmd.Args)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", cmd.Args[0], err)
	}
	var began bool
	p.After = func() { began = b.settle(status) }
	exit, err := local.Run(ctx, p)
	closed := shut()
	if err != nil {
		return exit, err
	}
	if closed != nil {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %w", cmd.Args[0], sandbox.ErrNotStarted, closed)
	}
	if !began {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %s", cmd.Args[0], sandbox.ErrNotStarted, clip(complaint.text()))
	}
	exit.User, exit.System, exit.MaxRSS = 0, 0, 0 // bubblewrap's own, not the command's
	if n := exit.Code - 128; n > 0 && n < 65 {
		exit.Signal = unix.SignalName(unix.Signal(n))
	}
	return exit, nil
}

// arguments writes bubblewrap's arguments, each ended by a NUL, to an unnamed file.
func (b *box) arguments(p local.Process) (*os.File, error) {
	list := append(isolation(b.bwrap, b.Config().Network), "--json-status-fd", "4")
	for _, entry := range p.Env.List() {
		name, value, _ := strings.Cut(entry, "=")
		list = append(list, "--setenv", name, value)
	}
	list = append(list, b.mounts...)
	list = append(list, "--chdir", p.Dir)
	fd, err := unix.MemfdCreate("inspan-bwrap-args", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "bwrap-args")
	_, err = io.WriteString(file, strings.Join(list, "\x00")+"\x00")
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// settle reads bubblewrap's status after it ended, ends the namespace for certain, and reports whether the command
// was started: an exit code is only said for one that was.
func (b *box) settle(status *os.File) (began bool) {
	_ = status.SetReadDeadline(time.Now().Add(statusWait))
	docs := json.NewDecoder(io.LimitReader(status, statusMax))
	for {
		var doc struct {
			Child int  `json:"child-pid"`
			Exit  *int `json:"exit-code"`
		}
		if docs.Decode(&doc) != nil {
			return began
		}
		if doc.Child > 0 {
			local.EndNamespace(doc.Child)
		}
		began = began || doc.Exit != nil
	}
}

// heard passes output on and keeps its beginning.
type heard struct {
	mu   sync.Mutex
	to   io.Writer
	head []byte
}

// listen puts a listener on the process's stderr and keeps stdout and stderr one where they were.
func listen(p *local.Process) *heard {
	h := &heard{to: p.Stderr}
	if p.Stdout != nil && local.Same(p.Stdout, p.Stderr) {
		p.Stdout = h
	}
	p.Stderr = h
	return h
}

func (h *heard) Write(data []byte) (int, error) {
	h.mu.Lock()
	if room := heardMax - len(h.head); room > 0 {
		h.head = append(h.head, data[:min(room, len(data))]...)
	}
	h.mu.Unlock()
	if h.to == nil {
		return len(data), nil
	}
	return h.to.Write(data)
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.head)
}
