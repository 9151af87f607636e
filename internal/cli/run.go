package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/demo"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// runFlags are the flags of inspan run.
type runFlags struct {
	local
	autonomy, maxCalls       int
	model, session, plan, id string
	timeout                  string
	vars                     []string
	yes, detach, ephemeral   bool
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run AGENT TASK", Aliases: []string{"call"}, Short: "Let an agent do a task and watch it",
		Long: `Dispatches a task to the station and shows the run: a live tree on a terminal, JSON lines with --json, else a line
for each fact. Where no station is reachable, one is started in this process for this run alone.

Ctrl+C stops the watching, not the run (unless the station is this process's own).`,
		Example: `  inspan run fixer "make the tests pass" --session demo --agents examples/agents --scripts examples/scripts
  inspan run fixer "..." --autonomy 1 --json | jq .type
  inspan run architect "rewrite the parser" --plan plan.json --yes`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, f, args[0], args[1]) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&f.maxCalls, "max-tool-calls", 0, "budget of tool calls")
	fl.StringVar(&f.model, "model", os.Getenv("MODEL"), "other model for this run, provider/name (MODEL)")
	fl.StringVar(&f.session, "session", "", "work in this session's directory")
	fl.StringVar(&f.plan, "plan", "", "JSON file with {\"steps\":[{\"id\",\"description\",\"needs\",\"critical\"}]}; - reads standard input")
	fl.StringVar(&f.id, "id", "", "id of the task; the same id never starts a second run")
	fl.StringVar(&f.timeout, "timeout", "", "time limit of the run, for example 30m")
	fl.StringArrayVar(&f.vars, "var", nil, "k=v for {{k}} in the agent's prompt; may be repeated")
	fl.BoolVar(&f.yes, "yes", false, "approve every gate")
	fl.BoolVar(&f.detach, "detach", false, "print the run's id and return")
	fl.BoolVar(&f.ephemeral, "ephemeral", false, "do not look for a station, start one for this run")
	fl.StringVar(&f.store, "store", "", "folder of a station started for this run; a temporary one if not given")
	f.flags(cmd)
	return cmd
}

func (f runFlags) task(agent, text string, in io.Reader) (events.Task, error) {
	t := events.Task{ID: f.id, Agent: agent, Task: text, Model: f.model, Session: f.session, Timeout: f.timeout}
	if f.autonomy != 0 {
		t.Autonomy = &f.autonomy
	}
	if f.maxCalls != 0 {
		t.MaxToolCalls = &f.maxCalls
	}
	for _, kv := range f.vars {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return t, &exit{exitUsage, fmt.Errorf("--var %q: want name=value", kv)}
		}
		if t.Variables == nil {
			t.Variables = map[string]string{}
		}
		t.Variables[k] = v
	}
	if f.plan == "" {
		return t, nil
	}
	read := func() ([]byte, error) { return os.ReadFile(f.plan) }
	if f.plan == "-" {
		read = func() ([]byte, error) { return io.ReadAll(in) }
	}
	b, err := read()
	if err != nil {
		return t, &exit{exitUsage, fmt.Errorf("--plan: %w", err)}
	}
	t.Plan = &events.TaskPlan{}
	if err := ce.Strict(b, t.Plan); err != nil {
		return t, &exit{exitUsage, fmt.Errorf("--plan %s: %w", f.plan, err)}
	}
	return t, nil
}

func (a *app) run(cmd *cobra.Command, f runFlags, agent, text string) error {
	ctx := cmd.Context()
	task, err := f.task(agent, text, a.in)
	if err != nil {
		return err
	}
	c, end, err := a.reach(ctx, f)
	if err != nil {
		return err
	}
	defer end()
	begin, cancel := context.WithTimeout(ctx, a.wait)
	id, err := c.Start(begin, task)
	cancel()
	if err != nil {
		return err
	}
	if f.detach {
		fmt.Fprintln(a.out, id)
		return nil
	}
	return a.follow(ctx, c, id, f.yes)
}

// reach connects to the station, or starts one for this run alone.
func (a *app) reach(ctx context.Context, f runFlags) (*client.Client, func(), error) {
	if !f.ephemeral {
		if c, err := a.connect(ctx); err == nil {
			return c, c.Close, nil
		} else if f.detach {
			return nil, nil, err // a run that nobody watches would end with this process
		}
	}
	remove := func() {}
	if f.store == "" {
		dir, err := os.MkdirTemp("", "inspan-run-")
		if err != nil {
			return nil, nil, fmt.Errorf("folder of the station: %w", err)
		}
		f.store, remove = dir, func() { _ = os.RemoveAll(dir) } // it is in the system's place for temporary files
	}
	for _, d := range []struct {
		dst *string
		dir string
	}{{&f.agents, "agents"}, {&f.agents, "examples/agents"}, {&f.scripts, "scripts"}, {&f.scripts, "examples/scripts"}} {
		if info, err := os.Stat(d.dir); *d.dst == "" && err == nil && info.IsDir() {
			*d.dst = d.dir
		}
	}
	fmt.Fprintf(a.err, "No station at %s; this run has one of its own in %s, agents from %q.\n", a.address(), f.store, f.agents)
	st, err := a.start(ctx, f.local, "")
	if err != nil {
		remove()
		return nil, nil, err
	}
	end := func() {
		if err := st.Close(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintf(a.err, "inspan: %v\n", err)
		}
		remove()
	}
	c, err := client.On(st.Conn(), st.Name())
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}

// follow shows a run until it ends or pauses, and turns its end into an exit code.
func (a *app) follow(ctx context.Context, c *client.Client, id string, yes bool) error {
	s := a.show(ctx)
	var last run.State
	var failure error
	for item, err := range c.Watch(ctx, id) {
		if err != nil {
			failure = err
			break
		}
		last = item.State
		s.fact(item)
		if g, ok := item.Payload.(*events.GateOpenedData); ok {
			if failure = a.answer(ctx, c, s, id, g, yes); failure != nil {
				break
			}
		}
		if last.Status == events.Paused {
			break
		}
	}
	s.close()
	if ctx.Err() != nil {
		fmt.Fprintf(a.err, "No longer watching; the run goes on if its station does. See: inspan logs %s --follow\n", id)
		return nil
	}
	if failure != nil {
		return failure
	}
	return a.verdict(last, s.live)
}

// answer answers a gate: yes with --yes, else as the person at the terminal says, else it is left waiting.
func (a *app) answer(ctx context.Context, c *client.Client, s *show, id string, g *events.GateOpenedData, yes bool) error {
	reply := events.Answer{Decision: "approve", ProposalHash: g.ProposalHash}
	if !yes {
		say, reason, ok := s.ask(ctx, g)
		if !ok {
			if !s.live && !a.json {
				fmt.Fprintf(a.out, "The run waits for a person: inspan approve %s/%s\n", id, g.Gate)
			}
			return nil
		}
		if !say {
			reply.Decision, reply.Reason = "reject", reason
		}
	}
	wait, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	_, err := c.Answer(wait, id, g.Gate, env("", "INSPAN_APPROVER", "USER"), reply)
	return err
}

func (a *app) verdict(s run.State, live bool) error {
	switch s.Status {
	case events.Completed:
		if !a.json && s.Result.Output != "" {
			fmt.Fprintf(a.out, "\n%s\n", view.Whole(s.Result.Output))
		}
		return nil
	case events.Paused:
		return &exit{exitPaused, fmt.Errorf("the run is paused: %s; go on with: inspan resume %s", s.PauseReason, s.HarnessID)}
	case events.Failed:
		if live || a.json {
			return &exit{exitFailed, nil} // the tree or the last fact says why
		}
		return &exit{exitFailed, errors.New(s.Result.Error)}
	case events.Created, events.Running:
	}
	return nil
}

func (a *app) demoCmd() *cobra.Command {
	var o demo.Options
	var yes, keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "See an agent repair a real Go module, with a gate before the commit",
		Long: `Starts a station in this process, makes a git repository of the Go module in examples/invoice, whose tests fail, and
lets the agent "fixer" find the cause, mend it, prove it with the real go test, and commit behind a gate. The model is
scripted unless another is named with --model or MODEL and its key is set; everything else is real.`,
		Example: "  inspan demo\n  inspan demo --yes\n  MODEL=anthropic/claude-sonnet-4-20250514 inspan demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Base, err = service.FromEnv(); err != nil {
				return &exit{exitUsage, err}
			}
			if o.Log, err = a.logger(); err != nil {
				return err
			}
			if o.Store, err = os.MkdirTemp("", "inspan-demo-"); err != nil {
				return fmt.Errorf("folder of the demo: %w", err)
			}
			if !keep {
				defer func() { _ = os.RemoveAll(o.Store) }() // it is in the system's place for temporary files
			}
			return a.demo(cmd.Context(), o, yes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Examples, "examples", "examples", "folder of the examples")
	f.StringVar(&o.Model, "model", os.Getenv("MODEL"), "model instead of the scripted one, provider/name (MODEL)")
	f.StringVar(&o.Sandbox, "sandbox", "auto", "auto, bwrap or host")
	f.BoolVar(&yes, "yes", false, "approve the gate without asking")
	f.BoolVar(&keep, "keep", false, "keep the demo's folder")
	return cmd
}

func (a *app) demo(ctx context.Context, o demo.Options, yes bool) error {
	// The tree is drawn between the demo's own words: it begins with the first fact and ends before the report.
	s := &show{app: a}
	begun := false
	o.Out = a.out
	o.See = func(f events.Fact, p events.Payload, after run.State) {
		if !begun {
			s, begun = a.show(ctx), true
		}
		b, err := json.Marshal(f)
		if err != nil {
			return
		}
		s.fact(client.Item{Fact: f, Payload: p, Bytes: b, State: after})
		if after.Status.Ended() || after.Status == events.Paused {
			s.close()
		}
	}
	o.Approve = func(ctx context.Context, g *events.GateOpenedData) (bool, string, error) {
		if yes {
			return true, "", nil
		}
		say, reason, ok := s.ask(ctx, g)
		if !ok {
			return false, "", &exit{exitPaused, errors.New("the demo waits at its gate and nobody is at a terminal: use --yes")}
		}
		return say, reason, nil
	}
	err := demo.Run(ctx, o)
	if errors.Is(err, demo.ErrNotDone) {
		return &exit{exitFailed, err}
	}
	return err
}
