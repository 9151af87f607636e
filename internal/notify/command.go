package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// MostCommands is how many commands of a person run at a time.
const MostCommands = 4

// Command runs a command of the person for each notice, without a shell: the notice is JSON on its standard input. What
// it prints is dropped.
type Command struct {
	cfg   CommandConfig
	slots chan struct{} // one for each that may run
	done  sync.WaitGroup
}

// CommandConfig of a Command.
type CommandConfig struct {
	// Args are the program and its arguments.
	Args []string
	// Env is the environment to which INSPAN_NOTICE_KIND, _RUN, _TEXT and _COMMAND are added.
	Env []string
	// Limit is how long one may run before it is ended.
	Limit time.Duration
	// Failed is called with what went wrong, from any goroutine; nil drops it.
	Failed func(error)
}

var _ Sink = (*Command)(nil)

// NewCommand makes one.
func NewCommand(cfg CommandConfig) (*Command, error) {
	if len(cfg.Args) == 0 || cfg.Args[0] == "" {
		return nil, fmt.Errorf("the command of notices has no program")
	}
	if cfg.Limit <= 0 {
		return nil, fmt.Errorf("the time limit of the command of notices is %s, want more than 0", cfg.Limit)
	}
	return &Command{cfg: cfg, slots: make(chan struct{}, MostCommands)}, nil
}

// Send implements Sink: it waits until fewer than MostCommands run.
func (c *Command) Send(ctx context.Context, n Notice) error {
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return ErrBusy
		}
	}
	c.done.Go(func() {
		defer func() { <-c.slots }()
		if err := c.run(n); err != nil && c.cfg.Failed != nil {
			c.cfg.Failed(err)
		}
	})
	return nil
}

// Close implements Sink. It waits for at most the time limit.
func (c *Command) Close() { c.done.Wait() }

// outputWait is how long a command that has ended may keep others waiting by what it left behind.
const outputWait = time.Second

// run runs the command to its end. It is not cut short by the end of whoever sent the notice: a person is to be
// reached.
func (c *Command) run(n Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode a notice: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.cfg.Args[0], c.cfg.Args[1:]...) //nolint:gosec // the person's own command
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(append(text, '\n')), outputWait
	cmd.Env = append(append([]string{}, c.cfg.Env...), "INSPAN_NOTICE_KIND="+string(n.Kind), "INSPAN_NOTICE_RUN="+n.Run,
		"INSPAN_NOTICE_TEXT="+n.Text, "INSPAN_NOTICE_COMMAND="+n.Command)
	alone(cmd)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not end within %s", c.cfg.Limit)
		}
		return fmt.Errorf("run %s for run %s: %w", c.cfg.Args[0], n.Run, err)
	}
	return nil
}

// Without is an environment without some variables, and without those of the same name that name a file.
func Without(env, names []string) []string {
	drop := map[string]bool{}
	for _, n := range names {
		drop[n], drop[n+"_FILE"] = true, true
	}
	var out []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !drop[name] {
			out = append(out, e)
		}
	}
	return out
}
