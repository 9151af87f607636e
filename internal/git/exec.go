package git

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	stderrTail  = 16 << 10 // of the end of what git says
	detailMax   = 1 << 10
	lineMax     = 4 << 10 // of a line of progress
	ulimitBlock = 512     // POSIX: ulimit -f counts blocks of 512 bytes
)

// Progress is how far a transfer is.
type Progress struct {
	// Phase is git's name of it, such as "Receiving objects". Done and Total count objects, or files where the phase is
	// about files.
	Phase       string
	Done, Total int64
}

// call is one git command.
type call struct {
	args []string
	// repo, if set, is the repository that it works in; else git sees none.
	repo *layout
	// gitDir, if set, is a bare repository of our own that it works in, with its configuration.
	gitDir string
	// tree, if set, is a directory in which it makes a repository. private are directories of ours that it writes
	// besides its place.
	tree    string
	private []string
	env     []string
	stdin   io.Reader
	// stdout, if set, takes the output; else it is kept. limit is the most bytes of it, 0 for Limits.Output.
	stdout io.Writer
	limit  int64
	// remote, if set, is whom it talks to.
	remote   *remote
	progress func(Progress)
	// bound limits each file that git writes to Limits.Pack.
	bound bool
	// fine are exit codes that are answers and not errors.
	fine []int
}

// answer is what a command that could be run left.
type answer struct {
	out  string
	code int
}

// run gives the output of a command that must succeed.
func (g *runner) run(ctx context.Context, c call) (string, error) {
	a, err := g.exec(ctx, c)
	return a.out, err
}

// exec runs a command in a private place that is gone when it returns.
func (g *runner) exec(ctx context.Context, c call) (_ answer, err error) {
	op := c.args[0]
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.Limits.Time,
		fmt.Errorf("git %s took longer than %v: %w (raise the limit or reduce the work)", op, g.cfg.Limits.Time, ErrTooLarge))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	p, err := g.newWorkspaceDir(ctx, c)
	if err != nil {
		return answer{}, fmt.Errorf("git %s: %w", op, err)
	}
	defer func() {
		if closed := p.close(); closed != nil {
			err = errors.Join(err, closed)
		}
	}()

	var kept bytes.Buffer
	out := c.stdout
	if out == nil {
		out = &kept
	}
	limit := c.limit
	if limit == 0 {
		limit = g.cfg.Limits.Output
	}
	out = &capped{to: out, left: limit, over: func() {
		stop(fmt.Errorf("git %s printed more than %d bytes: %w (request less or raise the limit)", op, limit, ErrTooLarge))
	}, failed: stop}
	said := &tail{progress: c.progress}
	env, err := (local.Env{}).With(p.env, c.env)
	if err != nil {
		return answer{}, err
	}
	args, bind := g.bounded(c)
	exit, err := g.start(ctx, c, p, local.Process{Path: args[0], Args: args, Env: env, Dir: p.cwd, Stdin: c.stdin,
		Stdout: out, Stderr: said, Marker: rand.Text(), Started: func(pid int) {
			if err := bind(pid); err != nil {
				stop(err)
			}
		}})
	said.end()
	switch cause := context.Cause(ctx); {
	case cause != nil && ctx.Err() != nil:
		return answer{}, fmt.Errorf("git %s: %w", op, cause)
	case err != nil:
		return answer{}, fmt.Errorf("git %s: %w", op, err)
	}
	p.settle()
	a := answer{out: kept.String(), code: exit.Code}
	if exit.Code == 0 || slices.Contains(c.fine, exit.Code) {
		return a, nil
	}
	return a, p.explain(op, exit, said.text(), g.cfg.Limits.Pack)
}

// byShell is the command line of a call for a shell that keeps it within its limits, which its helpers inherit.
func (g *runner) byShell(c call) []string {
	// Where that much may not be asked for, less may.
	script, files := `ulimit -d "$0" 2>/dev/null; `, ""
	if c.bound {
		script, files = script+`ulimit -f "$1" && `, strconv.FormatInt(g.cfg.Limits.Pack/ulimitBlock+1, 10)
	}
	return append([]string{"/bin/sh", "-c", script + `shift && exec "$@"`, strconv.FormatInt(g.cfg.Limits.Memory/1024, 10),
		files, g.program}, c.args...)
}

// explain makes an error of what git said.
func (p *workspaceDir) explain(op string, exit sandbox.Exit, said string, pack int64) error {
	said = p.hide(said)
	e := &Error{Op: op, Exit: exit.Code, Detail: tidy(said)}
	e.Kind, e.Hint = meaning(said)
	if !p.far && (errors.Is(e.Kind, ErrUnreachable) || errors.Is(e.Kind, ErrAuth) || errors.Is(e.Kind, ErrProtocol)) {
		e.Kind, e.Hint = nil, "" // no remote was asked: it is about a file that is cut off
	}
	if exit.Signal == "SIGXFSZ" || strings.Contains(said, "File too large") || strings.Contains(said, "signal 25") {
		e.Kind, e.Hint = ErrTooLarge,
			fmt.Sprintf("a file would have more than %d bytes: fetch less, such as depth 1, or raise the limit",
				pack)
	}
	if p.credErr != nil {
		return fmt.Errorf("%w: %w", e, p.credErr)
	}
	return e
}

// tidy makes one line of what git said: what begins with fatal, error or remote, else its end.
func tidy(said string) string {
	var lines []string
	for l := range strings.SplitSeq(said, "\n") {
		l = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, l))
		if l == "" || strings.HasPrefix(l, "hint:") {
			continue
		}
		lines = append(lines, l)
	}
	text := strings.Join(lines[max(0, len(lines)-6):], "; ")
	if len(text) > detailMax {
		text = "..." + strings.ToValidUTF8(text[len(text)-detailMax+3:], "")
	}
	return text
}

// capped passes on so many bytes and then says that it is over.
type capped struct {
	to     io.Writer
	left   int64
	over   func()
	failed func(error)
}

func (c *capped) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		c.over()
		return 0, ErrTooLarge
	}
	n, err := c.to.Write(p)
	if err != nil {
		c.failed(fmt.Errorf("pass on the output: %w", err))
	}
	return n, err
}

var phase = pattern.New(`^(?:remote: )?([A-Z][A-Za-z ]{0,60}): +\d+% \((\d{1,18})/(\d{1,18})\)`)

// tail keeps the end of what git says, without progress, and passes progress on.
type tail struct {
	progress func(Progress)
	line     []byte
	kept     []byte
}

func (t *tail) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' && b != '\r' {
			if len(t.line) < lineMax {
				t.line = append(t.line, b)
			}
			continue
		}
		t.end()
	}
	return len(p), nil
}

// end is the end of a line.
func (t *tail) end() {
	line := t.line
	t.line = t.line[:0]
	if m := phase.FindSubmatch(line); m != nil {
		if t.progress != nil {
			done, _ := strconv.ParseInt(string(m[2]), 10, 64) // digits only, at most 18
			total, _ := strconv.ParseInt(string(m[3]), 10, 64)
			t.progress(Progress{string(m[1]), done, total})
		}
		return
	}
	t.kept = append(append(t.kept, line...), '\n')
	if len(t.kept) > 2*stderrTail {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-stderrTail:]...)
	}
}

func (t *tail) text() string { return string(t.kept[max(0, len(t.kept)-stderrTail):]) }

// stamp is a time as git's environment takes it.
func stamp(t time.Time) string { return fmt.Sprintf("@%d +0000", t.Unix()) }
