package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// endWait is how long a command that is to end may take until its whole container is ended.
	endWait = 15 * time.Second
	// stdinGrace is how long a Read of Stdin that is still blocked is waited for when the command has ended.
	stdinGrace = 100 * time.Millisecond
)

// command is one that runs, as seen from outside.
type command struct {
	line *within.Line
	conn net.Conn
	from *parted
	over chan struct{} // closed when it has ended, or no one knows

	mu      sync.Mutex
	next    int
	waiting map[int]chan within.Answer // each takes one; guarded by mu
}

// errSilent means that the parent of a command in the container did not tell its end.
var errSilent = errors.New("no exit status received")

// run carries out one command. begun, where it is set, is called when it runs.
func (b *instance) run(ctx context.Context, p local.Process, begun func(pid int)) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{}, local.Ended(ctx, p)
	}
	start := time.Now()
	v, c, err := b.attach(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return sandbox.Exit{}, local.Ended(ctx, p)
		}
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", p.Args[0], err)
	}
	defer func() { _ = c.conn.Close() }()
	b.list.Lock()
	b.running[c] = struct{}{}
	b.list.Unlock()
	defer func() {
		b.list.Lock()
		defer b.list.Unlock()
		delete(b.running, c)
	}()
	end, err := c.carry(ctx, p, b.environment(p), begun)
	exit := sandbox.Exit{Code: end.Code, Wall: time.Since(start), User: micros(end.UserUS), System: micros(end.SystemUS),
		MaxRSS:    end.MaxRSS,
		ReadBytes: end.ReadBytes, WriteBytes: end.WriteBytes}
	if end.Signal != 0 {
		exit.Signal = unix.SignalName(unix.Signal(end.Signal))
	}
	if errors.Is(err, errSilent) || end.Left {
		// What it started may live, so its whole container goes.
		if err == nil {
			err = fmt.Errorf("%w: some processes could not be ended", errSilent)
		}
		left := b.drop(ctx, v)
		if ctx.Err() != nil && left == nil {
			return exit, local.Ended(ctx, p)
		}
		if !errors.Is(err, sandbox.ErrNotStarted) {
			err = fmt.Errorf("%w: %w", sandbox.ErrLost, err)
		}
		return exit, errors.Join(fmt.Errorf("exec %q: %w", p.Args[0], err), left)
	}
	switch {
	case err != nil:
		return exit, fmt.Errorf("exec %q: %w", p.Args[0], err)
	case end.Killed:
		return exit, local.Ended(ctx, p)
	}
	return exit, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// attach starts the parent of a command in the container. A container that ended meanwhile is replaced once: nothing of
// the command has begun.
func (b *instance) attach(ctx context.Context) (*vessel, *command, error) {
	c, err := b.b.client()
	if err != nil {
		return nil, nil, err
	}
	for again := true; ; again = false {
		v, err := b.ready(ctx)
		if err != nil {
			return nil, nil, err
		}
		wait, cancel := context.WithTimeout(ctx, engineWait)
		made, err := c.ExecCreate(wait, v.id, client.ExecCreateOptions{AttachStdin: true, AttachStdout: true,
			AttachStderr: true,
			WorkingDir:   "/", Cmd: []string{within.Path, within.Flag, within.RoleExec}})
		if err != nil {
			cancel()
			if again && (errdefs.IsNotFound(err) || errdefs.IsConflict(err)) {
				if err := b.drop(ctx, v); err != nil {
					return nil, nil, err
				}
				continue
			}
			return nil, nil, fmt.Errorf("%w: %w", sandbox.ErrNotStarted, err)
		}
		att, err := c.ExecAttach(wait, made.ID, client.ExecAttachOptions{})
		cancel()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", sandbox.ErrNotStarted, err)
		}
		from := part(att.Reader)
		return v, &command{line: within.NewLine(from, att.Conn), conn: att.Conn, from: from, over: make(chan struct{}),
			waiting: map[int]chan within.Answer{}}, nil
	}
}

// environment is that of the image, with that of the sandbox above it. Programs are looked for where the sandbox says,
// and then where the image does.
func (b *instance) environment(p local.Process) map[string]string {
	env := map[string]string{}
	for _, entry := range b.image.env {
		if name, value, ok := strings.Cut(entry, "="); ok && name != local.MarkerName {
			env[name] = value
		}
	}
	path := env["PATH"]
	for name, value := range p.Env {
		env[name] = value
	}
	for dir := range strings.SplitSeq(path, ":") {
		if dir != "" && !strings.Contains(":"+env["PATH"]+":", ":"+dir+":") {
			env["PATH"] += ":" + dir
		}
	}
	env[local.MarkerName] = p.Marker
	return env
}

// carry tells a command to begin and passes on what it says until it has ended.
func (c *command) carry(ctx context.Context, p local.Process, env map[string]string,
	begun func(pid int)) (end within.End, err error) {
	defer close(c.over)
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = c.conn.SetDeadline(time.Now().Add(endWait)) // an engine that is gone shows in the next read
		_ = c.line.Send(within.FrameKill, nil)
	})
	defer func() {
		if !stop() {
			<-killed
		}
	}()
	one := p.Stdout != nil && local.Same(p.Stdout, p.Stderr)
	if err := c.line.SendJSON(within.FrameOrder, within.Start{Args: p.Args, Env: env, Dir: p.Dir, Stdin: p.Stdin != nil,
		One: one}); err != nil {
		return end, fmt.Errorf("%w: %w", errSilent, err)
	}
	outs := map[within.Kind]io.Writer{within.FrameOut: p.Stdout, within.FrameErr: p.Stderr}
	taken := make(chan struct{}, 1) // one piece of input is on its way at most
	started := false
	for {
		kind, data, err := c.line.Next()
		if err != nil {
			said := clip(c.from.other.Text())
			if !started && said != "" {
				return end, fmt.Errorf("%w: %w: %s", sandbox.ErrNotStarted, errSilent, said)
			}
			return end, fmt.Errorf("%w: the engine, the container or the helper in it ended: %w %s", errSilent, err, said)
		}
		switch kind {
		case within.FrameBegun:
			var b within.Begun
			if err := json.Unmarshal(data, &b); err != nil || b.Fault != "" {
				return end, fmt.Errorf("%w: %s", sandbox.ErrNotStarted, clip(b.Fault))
			}
			if started = true; p.Stdin != nil {
				defer c.input(p.Stdin, taken)()
			}
			if begun != nil {
				begun(b.PID)
			}
		case within.FrameOut, within.FrameErr:
			if w := outs[kind]; w != nil {
				if _, failed := w.Write(data); failed != nil {
					outs[kind] = nil // read on, so that the command does not hang
				}
			}
		case within.FrameTaken:
			select {
			case taken <- struct{}{}:
			default: // it was not asked for
			}
		case within.FrameAnswer:
			c.receive(data)
		case within.FrameEnd:
			if err := json.Unmarshal(data, &end); err != nil {
				return end, fmt.Errorf("%w: %w", errSilent, err)
			}
			return end, nil
		default:
			return end, fmt.Errorf("%w: a frame %q", errSilent, kind)
		}
	}
}

// input passes input on until it or the command ends. The returned function waits for it, but not for a Read that
// blocks.
func (c *command) input(from io.Reader, taken <-chan struct{}) (wait func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, within.Chunk)
		for {
			n, err := from.Read(buf)
			select {
			case <-over:
				return
			default:
			}
			if n > 0 {
				if c.line.Send(within.FrameInput, buf[:n]) != nil {
					return
				}
				select {
				case <-taken:
				case <-over:
					return
				}
			}
			if err != nil { // also one of the reader's own: it does not end the command
				_ = c.line.Send(within.FrameInputEnd, nil)
				return
			}
		}
	}()
	return func() {
		close(over)
		grace := time.NewTimer(stdinGrace)
		defer grace.Stop()
		select {
		case <-done:
		case <-grace.C:
		}
	}
}

// ask asks the parent of a command.
func (c *command) ask(ctx context.Context, q within.Question) (within.Answer, error) {
	answer := make(chan within.Answer, 1)
	c.mu.Lock()
	c.next++
	q.ID = c.next
	c.waiting[q.ID] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, q.ID)
	}()
	if err := c.line.SendJSON(within.FrameQuestion, q); err != nil {
		return within.Answer{}, nil //nolint:nilerr // it has ended, or will be told as lost: nothing of it is found
	}
	select {
	case a := <-answer:
		return a, nil
	case <-c.over:
		select {
		case a := <-answer: // the last it said
			return a, nil
		default:
			return within.Answer{}, nil
		}
	case <-ctx.Done():
		return within.Answer{}, ctx.Err()
	}
}

// hear passes an answer to who waits for it.
func (c *command) receive(data []byte) {
	var a within.Answer
	if json.Unmarshal(data, &a) != nil {
		return // whoever waits does so until the command ends
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.waiting[a.ID]; to != nil {
		select {
		case to <- a:
		default: // answered twice
		}
	}
}
