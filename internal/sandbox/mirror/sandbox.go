package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Box is a sandbox whose commands run on a Remote.
type Sandbox struct {
	*local.Sandbox
	*copied
	mark  string // all marks of the sandbox's commands begin with it
	ended atomic.Bool
	runs  atomic.Int32 // commands that run
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// Refuse returns ErrNotEnforced for what no sandbox on another machine can have: paths of this machine outside of the
// workspace, and a Door. Open of a backend asks it before it makes a machine.
func Refuse(mode sandbox.Mode, cfg sandbox.Config) error {
	var missing []error
	refuse := func(format string, args ...any) {
		missing = append(missing, fmt.Errorf("sandbox mode %s: %w: "+format, append([]any{mode, sandbox.ErrNotEnforced},
			args...)...))
	}
	for _, at := range cfg.ReadOnly {
		refuse("%q cannot be shown read-only on another machine: put it into the template or image", at)
	}
	ws := filepath.Clean(cfg.Workspace)
	for _, at := range cfg.Writable {
		if at = filepath.Clean(at); at != ws && !strings.HasPrefix(at, ws+"/") {
			refuse("%q is outside of the workspace, and only the workspace is sent to another machine", at)
		}
	}
	if cfg.Egress != nil {
		refuse("this toolrunner cannot restrict commands on another machine to allowed hosts: remove allowed_hosts, or use bwrap")
	}
	return errors.Join(missing...)
}

// OpenBox checks a Config, makes the other machine and opens a sandbox on it. create is given a name of the sandbox's
// own that tells whose it is. The machine is ended where the sandbox cannot be opened, and by Destroy.
func OpenSandbox(ctx context.Context, cfg sandbox.Config, mode sandbox.Mode, base string,
	create func(ctx context.Context, name string) (Remote, error)) (*Sandbox, error) {
	inner, err := local.OpenSandbox(cfg, mode, "", "", "")
	if err != nil {
		return nil, err
	}
	b := &Sandbox{Sandbox: inner}
	b.Serve(b.run, func(ctx context.Context, pid int, sig syscall.Signal) error { return b.send(ctx, pid, sig, false) })
	probe, err := inner.Command(sandbox.Cmd{Args: []string{"true"}})
	if err == nil {
		b.mark = probe.Marker[:strings.LastIndex(probe.Marker, ".")+1]
		err = b.attach(ctx, base, create)
	}
	if err != nil {
		// What began must end also where ctx has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperWait)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", cfg.ID, err), inner.Destroy(ctx))
	}
	return b, nil
}

func (b *Sandbox) attach(ctx context.Context, base string, create func(ctx context.Context, name string) (Remote,
	error)) error {
	remote, err := create(ctx, b.Name())
	if err != nil {
		return err
	}
	cfg := b.Config()
	if b.copied, err = newCopied(ctx, cfg.Workspace, cfg.Denied, base, b.Name(), remote); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperWait)
		defer cancel()
		return errors.Join(err, remote.End(ctx))
	}
	return nil
}

// Inside returns the path under which commands see the workspace.
func (b *Sandbox) Inside() string { return b.ws }

// Destroy ends all commands, which brings back what they changed, and then the machine. It may be called again, also
// after an error.
func (b *Sandbox) Destroy(ctx context.Context) error {
	err := b.Sandbox.Destroy(ctx)
	if !b.ended.Load() {
		if eerr := b.remote.End(ctx); eerr != nil {
			return errors.Join(err, fmt.Errorf("destroy sandbox %s: %w", b.ID(), eerr))
		}
		b.ended.Store(true)
	}
	return errors.Join(err, b.root.Close())
}

// run sends the workspace, runs one command, ends what it left and brings back what it changed.
func (b *Sandbox) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{}, because(ctx, p, nil)
	}
	if err := b.push(ctx); err != nil {
		return sandbox.Exit{}, because(ctx, p, fmt.Errorf("exec %q: %w: %w", p.Args[0], sandbox.ErrNotStarted, err))
	}
	args, err := b.command(p)
	if err != nil {
		return sandbox.Exit{}, err
	}
	b.runs.Add(1)
	defer b.runs.Add(-1)
	begin := time.Now()
	s, used, killed, runErr := b.supervised(ctx, p, args, started)
	exit := sandbox.Exit{Code: s.code, Wall: time.Since(begin), User: max(s.user, used.User),
		System: max(s.system, used.System),
		MaxRSS: used.Memory, ReadBytes: used.Read, WriteBytes: used.Written}
	local.Signalled(&exit)
	pid, refusal := s.started()
	if refusal != "" {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %s", p.Args[0], sandbox.ErrNotStarted, strings.ToValidUTF8(refusal,
			"\uFFFD"))
	}
	if pid == 0 && !killed && runErr != nil && !errors.Is(runErr, ErrCut) {
		return sandbox.Exit{}, because(ctx, p, fmt.Errorf("exec %q: %w: %w", p.Args[0], sandbox.ErrNotStarted, runErr))
	}
	over := s.done()
	if over {
		pid = 0 // the number may be another's by now
	}
	if err := b.settle(ctx, p.Marker, pid); err != nil {
		runErr = errors.Join(runErr, fmt.Errorf("exec %q: %w: %w", p.Args[0], ErrBehind, err))
	}
	switch {
	case killed && (!over || exit.Signal == "SIGKILL"): // else it ended by itself just then
		return exit, because(ctx, p, runErr)
	case !over && runErr == nil:
		runErr = fmt.Errorf("exec %q: %w", p.Args[0], ErrCut)
	}
	return exit, runErr
}

// command is the command line of supervise. What of the environment is a path of this machine becomes that of the
// other.
func (b *Sandbox) command(p local.Process) ([]string, error) {
	rel, err := filepath.Rel(b.Workspace(), p.Dir)
	if err != nil {
		return nil, fmt.Errorf("exec %q: %w", p.Args[0], err)
	}
	if strings.Contains(p.Args[0], "=") {
		return nil, fmt.Errorf("exec %q: %w: on another machine the name of a program cannot contain an equals sign",
			p.Args[0], sandbox.ErrNotStarted)
	}
	dir := path.Join(b.ws, filepath.ToSlash(rel))
	for name, change := range map[string][2]string{
		"HOME": {b.Private("home"), b.base + "/home"}, "TMPDIR": {b.Private("tmp"), b.base + "/tmp"},
		"PATH": {local.FixedEnv("", "")["PATH"], b.path}, "PWD": {p.Dir, dir},
	} {
		if p.Env[name] == change[0] {
			p.Env[name] = change[1]
		}
	}
	one := "0"
	if p.Stdout != nil && local.Same(p.Stdout, p.Stderr) {
		one = "1"
	}
	args := []string{one, dir, p.Env["PATH"], p.Args[0], local.MarkerName + "=" + p.Marker}
	return slices.Concat(args, p.Env.List(), p.Args), nil
}

// supervised runs one command until its end was received, or ctx ended and the command was killed.
func (b *Sandbox) supervised(ctx context.Context, p local.Process, args []string, started func(pid int)) (s *speech,
	used Used, killed bool, err error) {
	nonce := rand.Text() + rand.Text()
	streams := 2
	if args[0] == "1" {
		streams = 1
	}
	s = newSpeech(nonce, streams)
	out, errs := &line{speech: s, to: p.Stdout, first: true}, &line{speech: s, to: p.Stderr}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ran := make(chan error, 1) // one result
	go func() {
		ran <- b.remote.Run(inner, Program{Args: slices.Concat([]string{"/bin/sh", "-c", supervise, "inspan", nonce}, args),
			Stdin: p.Stdin, Stdout: out, Stderr: errs, Used: &used})
	}()
	if killed = b.attend(ctx, s, ran, started); killed {
		pid, _ := s.started()
		err = b.kill(ctx, p.Marker, pid)
	}
	// What it said last is on its way; whoever else holds its output is not waited for.
	grace := time.AfterFunc(drainWait, cancel)
	defer grace.Stop()
	select {
	case <-s.over:
		cancel()
		<-ran
	case rerr := <-ran:
		if inner.Err() == nil {
			err = errors.Join(err, rerr)
		}
	}
	out.flush()
	errs.flush()
	return s, used.bounded(), killed, err
}

// attend waits until the end of a command is received, its Run has returned, or ctx has ended: then it reports true.
func (b *Sandbox) attend(ctx context.Context, s *speech, ran chan error, started func(pid int)) (kill bool) {
	say := func() {
		if pid, _ := s.started(); pid > 0 && started != nil {
			started(pid)
		}
	}
	returned := func(err error) bool {
		ran <- err // for who comes next
		return false
	}
	select {
	case <-s.begun:
	case err := <-ran:
		say()
		return returned(err)
	case <-ctx.Done():
		// It may be about to start: that must not be missed.
		grace := time.NewTimer(startWait)
		defer grace.Stop()
		select {
		case <-s.begun:
		case err := <-ran:
			return returned(err)
		case <-grace.C:
		}
		return true
	}
	say()
	select {
	case <-s.over:
		return false
	case err := <-ran:
		return returned(err)
	case <-ctx.Done():
		return true
	}
}

// kill ends all of a command, also after ctx.
func (b *Sandbox) kill(ctx context.Context, mark string, pid int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), helperWait)
	defer cancel()
	_, err := b.helper(ctx, Program{Privileged: true}, clean, mark, fmt.Sprint(pid), b.since)
	return err
}

// settle ends what a command left and brings back what it changed, also after ctx.
func (b *Sandbox) settle(ctx context.Context, mark string, pid int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWait)
	defer cancel()
	for round := 1; ; round++ {
		listing, err := b.helper(ctx, Program{Privileged: true}, after, mark, fmt.Sprint(pid), b.since, b.ws)
		if err != nil {
			return fmt.Errorf("end its remaining processes and list the changed files: %w", err)
		}
		missing, err := b.pull(ctx, listing)
		if err != nil || missing == 0 {
			return err
		}
		if round == pullRounds {
			if b.runs.Load() > 1 {
				return nil // another command writes all the time: what it has written then comes with its own end
			}
			return fmt.Errorf("%d files keep changing, or cannot be read on the other machine", missing)
		}
	}
}

// because adds why a command was ended.
func because(ctx context.Context, p local.Process, err error) error {
	if ctx.Err() == nil {
		return err
	}
	ended := fmt.Errorf("exec %q was ended: %w", p.Args[0], ctx.Err())
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		ended = fmt.Errorf("%w: %w", ended, cause)
	}
	if err != nil {
		ended = fmt.Errorf("%w; %w", ended, err)
	}
	return ended
}
