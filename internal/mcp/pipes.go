package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/tail"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// overPipes starts a server's program inside the sandbox and speaks with it through its standard input and output.
func overPipes(ctx context.Context, s events.MCPServer, secrets map[string]secret.Value,
	sb sandbox.Sandbox) (carrier, error) {
	cmd := sandbox.Cmd{Args: s.Command, AnyProgram: true}
	for name, value := range s.Env {
		v, err := fill(value, secrets)
		if err != nil {
			return carrier{}, err
		}
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	slices.Sort(cmd.Env)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	errs := tail.New(maxErrors)
	said := &bounded{to: out}
	said.left.Store(maxReceived)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, said, errs
	// The program outlives the context of the call: it is informed that the call is cancelled, and may serve another.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &program{errs: errs, out: said, gone: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		exit, err := sb.Exec(life, cmd)
		p.exit, p.err = exit, err
		close(p.gone)
		cause := errors.New("the server has ended")
		_ = out.CloseWithError(cause) // what reads and writes is told why
		_ = in.CloseWithError(cause)
	})
	end := func() {
		_ = fromServer.CloseWithError(errors.New("the session has ended"))
		_ = toServer.Close() // which a server takes as the sign to go
		t := time.NewTimer(closeWait)
		defer t.Stop()
		select {
		case <-p.gone:
		case <-t.C:
		}
		kill()
		running.Wait()
	}
	n := newNotice()
	t := answering{&sdk.IOTransport{Reader: fromServer, Writer: &watched{toServer, n}, MaxLineLength: maxMessage}}
	return carrier{transport: t, cancelled: n, answers: true, lost: p.lost, allow: said.left.Store, end: end,
		explain: p.explain}, nil
}

// watched tells of what was written.
type watched struct {
	io.WriteCloser
	notice *notice
}

func (w *watched) Write(data []byte) (int, error) {
	n, err := w.WriteCloser.Write(data)
	if err == nil {
		w.notice.sent(data)
	}
	return n, err
}

// program is a server's process.
type program struct {
	errs *tail.Writer
	out  *bounded
	gone chan struct{} // closed when exit and err are set
	exit sandbox.Exit
	err  error
}

// lost reports whether the program has ended, or sent too much.
func (p *program) lost(*exchange) bool { return p.out.flooded.Load() || p.over() }

// over reports whether the program has ended.
func (p *program) over() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// explain says how a program ended, where that is why.
func (p *program) explain(_ *exchange, err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok || err == nil {
		return err
	}
	if !p.over() {
		return err
	}
	switch {
	case errors.Is(p.err, exec.ErrNotFound), errors.Is(p.err, fs.ErrPermission), errors.Is(p.err, sandbox.ErrUnavailable),
		errors.Is(p.err, sandbox.ErrNotStarted):
		return tool.Fail(tool.Permanent,
			"an operator must install it, or make it visible in the sandbox with INSPAN_SANDBOX_READ_ONLY",
			fmt.Errorf("start the server: %w", p.err))
	case p.err != nil:
		return fmt.Errorf("%w: %w", err, p.err)
	}
	errs, _ := p.errs.End()
	said := strings.TrimSpace(strings.ToValidUTF8(string(errs), ""))
	if said == "" {
		return fmt.Errorf("%w: it ended with status %d", err, p.exit.Code)
	}
	return fmt.Errorf("%w: it ended with status %d and printed: %s", err, p.exit.Code, tool.Visible(said))
}

// maxErrors is how much of the end of what a program prints to its standard error is kept, in bytes.
const maxErrors = 1 << 10

// bounded passes on a number of bytes and then breaks: whoever reads what it passes on is told why.
type bounded struct {
	to   *io.PipeWriter
	left atomic.Int64
	// flooded says that it broke.
	flooded atomic.Bool
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.left.Add(-int64(len(data))) < 0 || b.flooded.Load() {
		b.flooded.Store(true)
		_ = b.to.CloseWithError(errFlood)
		return 0, errFlood
	}
	return b.to.Write(data)
}
