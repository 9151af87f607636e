package bwrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/seccomp"
)

const (
	// statusMax and statusWait bound what is read from bubblewrap's status.
	statusMax  = 16 << 10
	statusWait = time.Second
	// startWait is how long bubblewrap may take to make its namespaces.
	startWait = time.Minute
	// maxStderr is how much of bubblewrap's complaint is kept to explain a command that did not start.
	maxStderr = 2 << 10
)

type instance struct {
	*local.Sandbox
	bwrap  install
	mounts []string
	// masks cover denied programs in what is mounted.
	masks []string
	// given are files whose texts are given with each command.
	given []gift
	// kept are handles on what the mounts name in directories that commands write.
	kept anchors
	// filter is the system call filter, as the kernel takes it; empty where there is none for this processor.
	filter []byte
	groups *cgroup.Driver
	// group holds and measures what runs here; nil where this machine has no groups to write, and then nothing is
	// bounded.
	group *cgroup.Group
	// common is the closed network of all its commands, where they share one.
	common common
}

var _ sandbox.Sandbox = (*instance)(nil)

// wall takes handles on what is mounted and makes the system call filter and the control group.
func (b *instance) isolation() (err error) {
	cfg := b.Config()
	b.OnDestroy(func(context.Context) error {
		b.kept.close()
		b.common.close()
		return b.group.Remove()
	})
	if b.mounts, err = b.kept.fix(b.mounts, append([]string{cfg.Workspace}, cfg.Writable...),
		firstGiven+len(b.given)); err != nil {
		return err
	}
	if len(b.kept.files) > 0 && !b.bwrap.takesHandles {
		return fmt.Errorf("%w: a path in a directory that commands write needs a bubblewrap with --bind-fd: install 0.8.0 with its security updates, or newer", sandbox.ErrNotEnforced)
	}
	// The network namespace closes the network; sockets among the commands of a sandbox work.
	if b.filter, err = seccomp.Program(seccomp.Profile{}); err != nil {
		return err
	}
	if !b.groups.Works() {
		return nil // Open has refused limits that would need one
	}
	b.group, err = b.groups.New(b.Name(), b.Config().Limits)
	return err
}

// run carries out one command.
func (b *instance) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	program := p.Args[0]
	fail := func(err error) (sandbox.Exit, error) {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", program, err)
	}
	f, err := b.files(p)
	defer f.close()
	if err != nil {
		return fail(err)
	}
	line, err := b.line(ctx)
	if err != nil {
		return fail(err)
	}
	group, err := b.group.Child() // of this command
	if err != nil {
		return fail(err)
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	complaint := listen(&p)
	// The environment travels inside args: bubblewrap itself, which runs outside, is not moved by it, and a list of
	// processes does not show it.
	p.Path, p.Dir, p.Env, p.Wrapped = line[0], "/", local.Env{}, true
	command := p.Args
	p.Args = append(append(line, "--args", "3", "--"), command...)
	p.Extra = slices.Concat([]*os.File{f.args, f.statusIn, f.hold, f.filter}, f.given, b.kept.files)
	docs := json.NewDecoder(io.LimitReader(f.status, statusMax))
	var first int
	var bounded error
	p.Started = func(int) {
		_ = f.statusIn.Close()
		if first, bounded = b.bound(f.status, docs, group); bounded != nil {
			end(bounded) // it waits to be let go, and nothing of the command has run
			return
		}
		_, _ = f.release.Write([]byte{1}) // where it has ended, its status says so
		if started != nil && first > 0 {
			started(local.CommandOf(ctx, first))
		}
	}
	var began bool
	p.After = func() { began = settle(f.status, docs, first) }
	shut, err := b.through(&p, command)
	if err == nil && b.Config().Egress == nil {
		shut, err = b.asked(&p, command)
	}
	if err != nil {
		return fail(err)
	}
	exit, err := local.Run(ctx, p)
	closed := shut()
	group.Usage().Fill(&exit) // in place of bubblewrap's own
	if left := group.Remove(); left != nil {
		return fail(errors.Join(err, left))
	}
	switch {
	case bounded != nil:
		return fail(bounded)
	case err != nil:
		return exit, err
	case closed != nil:
		return fail(fmt.Errorf("%w: %w", sandbox.ErrNotStarted, closed))
	case !began:
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %s", program, sandbox.ErrNotStarted, clip(complaint.Text()))
	}
	local.Signalled(&exit)
	return exit, nil
}

// files are what bubblewrap is given beside its command, and our ends of its pipes.
type files struct {
	args, filter, status, statusIn, hold, release *os.File
	given                                         []*os.File
}

func (b *instance) files(p local.Process) (f files, err error) {
	if f.args, err = b.arguments(p); err != nil {
		return f, err
	}
	if f.filter, err = local.Memory("bwrap-filter", string(b.filter)); err != nil {
		return f, err
	}
	if f.status, f.statusIn, err = os.Pipe(); err != nil {
		return f, err
	}
	if f.hold, f.release, err = os.Pipe(); err != nil {
		return f, err
	}
	for _, g := range b.given {
		file, err := g.open()
		if err != nil {
			return f, err
		}
		f.given = append(f.given, file)
	}
	return f, nil
}

func (f files) close() {
	for _, file := range append(f.given, f.args, f.filter, f.status, f.statusIn, f.hold, f.release) {
		_ = file.Close() // also of none: then it only says so
	}
}

// bound waits until bubblewrap has made the namespace, whose first process is held, and puts that into the control
// group before anything of the command runs. first is 0 where bubblewrap ended before.
func (b *instance) bound(status *os.File, docs *json.Decoder, group *cgroup.Group) (first int, err error) {
	_ = status.SetReadDeadline(time.Now().Add(startWait))
	var doc statusDoc
	switch err := docs.Decode(&doc); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, fmt.Errorf("bubblewrap did not start within %v: %w", startWait, sandbox.ErrNotStarted)
	case err != nil || doc.Child <= 0:
		return 0, nil
	}
	if err := group.Add(doc.Child); err != nil {
		return doc.Child, err
	}
	if disk := b.Config().Limits.Disk; disk > 0 {
		most := unix.Rlimit{Cur: uint64(disk), Max: uint64(disk)}
		if err := unix.Prlimit(doc.Child, unix.RLIMIT_FSIZE, &most, nil); err != nil {
			return doc.Child, fmt.Errorf("limit the size of files: %w", err)
		}
	}
	return doc.Child, nil
}

// open opens a file to be given once. One that has gone from this machine since the sandbox was opened is empty.
func (g gift) open() (*os.File, error) {
	if g.made != "" {
		return local.Memory("bwrap-etc", g.made)
	}
	f, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Open(os.DevNull)
	}
	return f, err
}

// arguments writes bubblewrap's arguments, each ended by a NUL, to an unnamed file.
func (b *instance) arguments(p local.Process) (*os.File, error) {
	list := append(isolation(b.bwrap, b.Config().Network || b.shares()), "--json-status-fd", "4", "--block-fd", "5",
		"--seccomp", "6")
	for _, entry := range p.Env.List() {
		name, value, _ := strings.Cut(entry, "=")
		list = append(list, "--setenv", name, value)
	}
	list = append(list, b.mounts...)
	if !p.AnyProgram {
		list = append(list, b.masks...)
	}
	list = append(list, "--chdir", p.Dir)
	return local.Memory("bwrap-args", strings.Join(list, "\x00")+"\x00")
}

// statusDoc is one document of bubblewrap's status.
type statusDoc struct {
	Child int  `json:"child-pid"`
	Exit  *int `json:"exit-code"`
}

// settle reads the rest of bubblewrap's status after it ended, ends the namespace for certain, and reports whether the
// command was started: an exit code is only said for one that was.
func settle(status *os.File, docs *json.Decoder, first int) (began bool) {
	if first > 0 {
		local.EndNamespace(first)
	}
	_ = status.SetReadDeadline(time.Now().Add(statusWait))
	for {
		var doc statusDoc
		if docs.Decode(&doc) != nil {
			return began
		}
		if doc.Child > 0 {
			local.EndNamespace(doc.Child)
		}
		began = began || doc.Exit != nil
	}
}

// listen puts a listener on the process's stderr and keeps stdout and stderr one where they were.
func listen(p *local.Process) *local.Head {
	h := &local.Head{Most: maxStderr, To: p.Stderr}
	if p.Stdout != nil && local.Same(p.Stdout, p.Stderr) {
		p.Stdout = h
	}
	p.Stderr = h
	return h
}
