package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const bashSchema = `{"type":"object","additionalProperties":false,"required":["command"],"properties":{
"command":{"type":"string","minLength":1,"maxLength":65536,"description":"shell text"},
"timeout_ms":{"type":"integer","minimum":1,"maximum":14400000,"description":"time limit in milliseconds: 120000 if absent, at most 600000; with run_in_background 14400000 if absent and at most"},
"run_in_background":{"type":"boolean","description":"return a handle at once and keep the command running; read its output with bash_output, end it with kill_shell"}}}`

// BashTimeout is the time limit of a call of bash that asks for none: a build or a test run fits. MaxBashTimeout bounds
// what a call may ask for.
const (
	BashTimeout    = 2 * time.Minute
	MaxBashTimeout = 10 * time.Minute
)

type bashArgs struct {
	Command    string
	TimeoutMS  int64 `json:"timeout_ms"`
	Background bool  `json:"run_in_background"`
}

type bash struct{ builtin[bashArgs] }

var (
	_ tool.Timed      = bash{}
	_ tool.Continuing = bash{}
)

// Continues implements tool.Continuing: shells of a step that has commands in the background are where those are.
func (bash) Continues(json.RawMessage) (handle string, ok bool) { return "", true }

// TimeoutFor implements tool.Timed.
func (bash) TimeoutFor(input json.RawMessage) time.Duration {
	a, err := decode[bashArgs](input)
	if err != nil || a.Background {
		return tool.DefaultTimeout
	}
	if a.TimeoutMS <= 0 {
		return BashTimeout
	}
	return time.Duration(min(a.TimeoutMS, MaxBashTimeout.Milliseconds())) * time.Millisecond
}

func runBash(ctx context.Context, a bashArgs, env tool.Env) (tool.Result, error) {
	if strings.ContainsRune(a.Command, 0) {
		return tool.Result{}, tool.Fail(tool.Invalid, "send the command without the NUL byte",
			errors.New("the command contains a NUL byte"))
	}
	if a.Background {
		return startJob(ctx, a, env)
	}
	if a.TimeoutMS > MaxBashTimeout.Milliseconds() {
		return tool.Result{}, tool.Fail(tool.Invalid, "set run_in_background for commands that take longer",
			fmt.Errorf("timeout_ms is at most %d without run_in_background", MaxBashTimeout.Milliseconds()))
	}
	return inDir(ctx, env, a.Command)
}

// command runs a program for a tool and shows its output, standard error marked as such, and how it ended (TOOL-16).
func command(ctx context.Context, env tool.Env, argv, environ []string) (tool.Result, error) {
	stderr := &capture{env: env, name: "stderr"}
	return execute(ctx, env, sandbox.Cmd{Args: argv, AnyProgram: true, Env: environ, Stderr: stderr}, stderr)
}

// killed is the exit code by which a shell or a sandbox reports that what it ran was killed.
const killed = 128 + 9

// execute runs a program whose standard error ends in stderr.
func execute(ctx context.Context, env tool.Env, cmd sandbox.Cmd, stderr *capture) (tool.Result, error) {
	stdout := &capture{env: env, name: "stdout"}
	cmd.Stdout = stdout
	exit, err := env.Sandbox.Exec(ctx, cmd)
	if t, ok := cmd.Stderr.(*trailer); ok {
		t.flush()
	}
	switch {
	case ctx.Err() != nil && (err != nil || exit.Signal != "" || exit.Code == killed): // else it had finished by then
		return tool.Result{}, ctx.Err()
	case errors.Is(err, sandbox.ErrOutside):
		return tool.Result{}, tool.Fail(tool.Denied, "", err)
	case errors.Is(err, sandbox.ErrLost):
		return tool.Result{}, tool.Fail(tool.Unknown, "check what the command did before you run it again",
			fmt.Errorf("run %s: %w", cmd.Args[0], err))
	case err != nil:
		return tool.Result{}, tool.Fail(tool.Permanent, "inspan doctor lists what this machine can run",
			fmt.Errorf("run %s: %w", cmd.Args[0], err))
	}
	var b strings.Builder
	b.WriteString(stdout.text())
	if errs := stderr.text(); errs != "" {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString("[stderr]\n" + errs)
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	switch {
	case exit.Signal != "":
		fmt.Fprintf(&b, "[ended by signal %s]", exit.Signal)
	case exit.Code != 0 || b.Len() == 0:
		fmt.Fprintf(&b, "[exit status %d]", exit.Code)
	}
	r := tool.Show(env, b.String())
	r.Failed, r.ExitCode = exit.Code != 0 || exit.Signal != "", &exit.Code
	return r, nil
}

// capture keeps the beginning and the end of a stream and passes all of it on as it comes.
type capture struct {
	env  tool.Env
	name string
	mu   sync.Mutex
	// head is the first half of what is kept, tail the last; total counts all. Guarded by mu.
	head, tail []byte
	total      int
}

// keep is the most bytes of each half.
const keep = tool.MaxFull / 2

func (c *capture) Write(p []byte) (int, error) {
	c.env.Progress(c.name, p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += len(p)
	n := min(len(p), keep-len(c.head))
	c.head = append(c.head, p[:n]...)
	c.tail = append(c.tail, p[n:]...)
	if len(c.tail) > 2*keep {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keep:]...)
	}
	return len(p), nil
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.tail
	if len(tail) > keep {
		tail = tail[len(tail)-keep:]
	}
	if lost := c.total - len(c.head) - len(tail); lost > 0 {
		return fmt.Sprintf("%s\n... %d bytes omitted here: the output exceeds the limit of what is stored ...\n%s", c.head,
			lost, tail)
	}
	return string(c.head) + string(tail)
}
