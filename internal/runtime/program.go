package runtime

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/tail"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of what a program may print.
const (
	// MaxLine is the longest message, in bytes.
	MaxLine = 4 << 20
	// MaxPrinted is what one program may print in all, in bytes.
	MaxPrinted = 64 << 20
	// maxErrors is how much of the end of its standard error is kept.
	maxErrors = 1 << 10
)

// How long a program has to end: after its input was closed, and after SIGTERM.
const (
	endWait  = 2 * time.Second
	termWait = 3 * time.Second
)

// Program is a program that speaks in lines of JSON.
type Program struct {
	lines *bufio.Reader
	out   *io.PipeReader
	errs  *tail.Writer

	mu sync.Mutex
	in *io.PipeWriter // guarded by mu, as writers take turns

	process sandbox.Process
	kill    context.CancelFunc
	gone    chan struct{} // closed when exit and err are set
	exit    sandbox.Exit
	err     error
}

// Launch starts a program with further arguments.
func Launch(ctx context.Context, s Spec, args ...string) (*Program, error) {
	env, err := s.Environment()
	if err != nil {
		return nil, err
	}
	cmd := sandbox.Cmd{Args: Command(s.Runtime, s.Sandbox.Mode(), args...), Env: env, AnyProgram: true}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	p := &Program{lines: bufio.NewReaderSize(out, 64<<10), out: out, in: in, errs: tail.New(maxErrors),
		gone: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &limited{to: stdout, left: cmp.Or(s.Most, MaxPrinted)}, p.errs
	// The program outlives the context of a call for a moment: it is asked to stop before it is ended.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	p.kill = kill
	if p.process, err = s.Sandbox.Start(life, cmd); err != nil {
		kill()
		return nil, fmt.Errorf("start %s: %w", s.Runtime.Name, err)
	}
	go func() { // Close waits for it
		p.exit, p.err = p.process.Wait()
		close(p.gone)
		_ = stdout.CloseWithError(io.EOF)
		_ = stdin.CloseWithError(ErrEnded)
	}()
	return p, nil
}

// Environment are the variables of the program, with those of the Spec in the place of those of its runtime.
func (s Spec) Environment() ([]string, error) {
	env, err := Environment(s.Runtime, s.Secrets)
	if err != nil {
		return nil, err
	}
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(s.Env, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	return append(env, s.Env...), nil
}

// Command is what is started of a runtime in a sandbox.
func Command(r events.Runtime, m sandbox.Mode, args ...string) []string {
	all := slices.Clone(r.Command)
	if Isolates(m) {
		all = append(all, r.Autonomous...)
	}
	return append(all, args...)
}

// Environment are the variables of a program, in order.
func Environment(r events.Runtime, secrets map[string]secret.Value) ([]string, error) {
	var env []string
	for name, value := range r.Env {
		if of, ok := strings.CutPrefix(value, "secret:"); ok {
			v, known := secrets[of]
			if !known {
				return nil, tool.Fail(tool.Permanent,
					"put the value into the file "+of+" of the folder that INSPAN_MCP_SECRETS names for the toolrunner",
					fmt.Errorf("runtime %s needs the secret %s, which this toolrunner does not have", r.Name, of))
			}
			value = v.Reveal()
		}
		env = append(env, name+"="+value)
	}
	for _, name := range r.Pass {
		if v, known := secrets[name]; known {
			env = append(env, name+"="+v.Reveal())
		}
	}
	slices.Sort(env)
	return env, nil
}

// Next returns the next line that is not empty. The error says how the program ended where it did.
func (p *Program) Next() ([]byte, error) {
	for {
		line, err := p.line()
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

func (p *Program) line() ([]byte, error) {
	var all []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		if len(all)+len(part) > MaxLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrFlood, MaxLine)
		}
		all = append(all, part...)
		switch {
		case err == nil:
			return []byte(strings.TrimSpace(string(all))), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(all) > 0:
			return nil, p.explain(fmt.Errorf("%w in the middle of a line", ErrEnded))
		case errors.Is(err, io.EOF):
			return nil, p.explain(ErrEnded)
		default:
			return nil, err
		}
	}
}

// explain adds how a program ended.
func (p *Program) explain(err error) error {
	<-p.gone // its output has ended because it has
	if p.err != nil {
		return fmt.Errorf("%w: %w", err, p.err)
	}
	how := fmt.Sprintf("status %d", p.exit.Code)
	if p.exit.Signal != "" {
		how = "signal " + p.exit.Signal
	}
	errs, _ := p.errs.End()
	if said := strings.TrimSpace(strings.ToValidUTF8(string(errs), "")); said != "" {
		how += " and printed: " + tool.Visible(said)
	}
	return fmt.Errorf("%w: %s", err, how)
}

// Send writes a document as one line.
func (p *Program) Send(doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return p.Write(append(b, '\n'))
}

// Tell is Send that does not outlast ctx: a program that reads nothing holds no one up.
func (p *Program) Tell(ctx context.Context, doc any) error {
	sent := make(chan error, 1) // whoever sends does not wait
	go func() { sent <- p.Send(doc) }()
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write writes bytes as they are.
func (p *Program) Write(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(b); err != nil {
		return fmt.Errorf("write to the program: %w", err)
	}
	return nil
}

// CloseInput tells the program that nothing more comes.
func (p *Program) CloseInput() { _ = p.in.Close() }

// Close ends the program: it is given time after its input has ended, then signalled, then killed. What it prints
// meanwhile is dropped.
func (p *Program) Close() {
	_ = p.out.CloseWithError(errors.New("the conversation is over"))
	p.CloseInput()
	if !p.ends(endWait) {
		_ = p.process.Signal(syscall.SIGTERM)
		p.ends(termWait)
	}
	p.kill()
	<-p.gone
}

// ends reports whether the program ends within a time.
func (p *Program) ends(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.gone:
		return true
	case <-t.C:
		return false
	}
}

// limited passes on a number of bytes and then breaks.
type limited struct {
	to   *io.PipeWriter
	left int
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		err := fmt.Errorf("%w in all", ErrFlood)
		_ = l.to.CloseWithError(err)
		return 0, err
	}
	return l.to.Write(b)
}
