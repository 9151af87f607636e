// Package dispatch has the commands that start a run: run and demo. Where no station listens they start one for that
// run alone.
package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/precheck"
	"github.com/inspan/inspan/internal/cli/sessions"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// runCommand is inspan run.
type runCommand struct {
	App    *app.App
	flags  RunFlags
	follow *bool
}

// Run makes inspan run.
func Run(a *app.App) *cobra.Command {
	c := &runCommand{App: a}
	cmd := &cobra.Command{
		Use: "run AGENT [TASK] [-]", Aliases: []string{"call"}, Short: "Let an agent do a task and watch it",
		Long: `Dispatches a task to the station and shows the run: a live tree on a terminal, with --json the events as they are
stored, else a line for each event. At a terminal it asks when a gate opens; --yes approves every gate.

Where no station listens at --server, one is started in this process for this run alone, with the agents and scripts
in ./agents and ./scripts (or examples/agents and examples/scripts) unless flags name others. Its log is kept under
--store; without that it goes into a temporary folder that is removed when the run has completed. With --local, or where
INSPAN_NATS_ENABLED is false, there is no server at all: the run is kept in a local store, in --store or .inspan, which stays.

{{name}} in the task stands for a value that --var gives; one without a value is an error, and \{{name}} means these signs.
Without --session each run has a workspace of its own; runs of one session share theirs. In the working tree of a git
repository the run works on a copy of it: what is committed and what is not, without ignored files and files whose names
say that they hold secrets. So it does in another directory of at most 64 MiB and 5000 files that is not the home folder.
The directory itself is not changed; "inspan merge RUN" brings the result, "inspan diff RUN" shows it. --empty begins with
nothing, --repo names another directory or the address of a repository.

Without a task and a terminal, or where it is -, the task is read from standard input. Behind a task, - adds standard input
to it: text of at most 64 KiB, in which {{name}} stands for itself.

Where a gate opens and there is no terminal to ask at, the command ends with exit code 3 and the commands that answer it;
the run goes on waiting. --wait-gates waits for the answer.

Ctrl+C ends the watching, not the run, unless the station is this process's own.`,
		Example: `  inspan run fixer "make the tests pass" --session demo
  inspan run fixer "make the tests pass" --repo ../other
  inspan run writer "a poem about oxen" --empty
  inspan run fixer "make the tests pass" --autonomy 1 --json | jq -r .type
  inspan run fixer < task.md
  go test ./... 2>&1 | inspan run fixer "make this pass" -
  inspan run fixer "make the tests pass" --accept "go test ./..." --protect "**/*_test.go"
  inspan run architect "rewrite the parser" --plan plan.json --yes
  inspan run coder "make the importer faster" --mode overnight --phase explore=architect --phase "build: make test" --budget-usd 5 --detach
  inspan run writer "announce {{what}}" --var what="version 2" --detach
  inspan run writer "one line about NATS" --long-running=false
  inspan run fixer "make the tests pass" --repo https://github.com/you/project --branch main --depth 1
  inspan call fixer --task "make the tests pass" --harness-config '{"max_steps":20}'`,
		Args: app.ArgsBetween(1, 3),
		RunE: c.run,
	}
	c.define(cmd)
	cmd.Flags().StringVar(&c.flags.text, "task", "", "the task, in place of the second argument")
	cmd.Flags().StringVar(&c.flags.plan, "plan", "",
		"file with {\"steps\":[{\"id\",\"description\",\"needs\",\"critical\"}]}; - reads standard input")
	return cmd
}

// Runner dispatches tasks that other commands make, with the flags of inspan run.
type Runner struct{ c *runCommand }

// NewRunner defines the flags of inspan run on a command, but for the task and the plan.
func NewRunner(a *app.App, cmd *cobra.Command) *Runner {
	c := &runCommand{App: a}
	c.define(cmd)
	return &Runner{c}
}

// Vars are the values of --var.
func (r *Runner) Vars() (map[string]string, error) { return Variables(r.c.flags.vars) }

// Trust reports whether what a directory contributes is accepted for this once.
func (r *Runner) Trust() bool { return r.c.flags.Trust }

// Run dispatches a task and watches it as inspan run does; fill completes the task that the flags describe.
func (r *Runner) Run(ctx context.Context, agent string, fill func(*events.Task)) error {
	if err := r.c.sound(); err != nil {
		return err
	}
	f := r.c.flags.Of(r.c.App)
	f.vars = nil
	task, err := f.Task(agent, r.c.App.In)
	if err != nil {
		return err
	}
	fill(&task)
	return runTask(ctx, r.c.App, f, task)
}

// define defines the flags.
func (c *runCommand) define(cmd *cobra.Command) {
	a, fl := c.App, cmd.Flags()
	fl.StringVar(&c.flags.repo, "repo", "",
		"git repository to work in: by https or ssh, and the work is pushed to it once a person approved; or a directory of this machine, and the run works on a copy of it")
	fl.StringVar(&c.flags.ref, "ref", "", "branch, tag, commit or pull/N/head of it; wins over --branch")
	fl.StringVar(&c.flags.branch, "branch", "", "branch of it")
	fl.IntVar(&c.flags.depth, "depth", 0, "how many commits of its history are fetched, 0 for all")
	fl.StringVar(&c.flags.collaboration, "collaboration", "", "how runs share the session: sequential or parallel")
	fl.BoolVar(&c.flags.stream, "stream", false,
		"print the model's words as they come, in place of the tree; with --json as lines between the events")
	fl.StringVar(&c.flags.harness, "harness-config", "",
		"JSON with enabled, max_steps, autonomy, timeout and budget.tool_calls for this run; flags win over it")
	fl.IntVar(&c.flags.Autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&c.flags.MaxCalls, "max-tool-calls", 0, "budget of tool calls; the agent's, else 100, if not given")
	fl.IntVar(&c.flags.MaxSteps, "max-steps", 0, "most model turns of a step; the agent's, else 50, if not given")
	fl.Int64Var(&c.flags.tokens, "budget-tokens", 0,
		"most tokens, in and out, of all model requests; the agent's, else no limit, if not given")
	fl.StringVar(&c.flags.project, "project", "", "the project that the run belongs to: its budget pays (inspan budget list); that of the directory where it is routed (inspan stations route)")
	fl.StringVar(&c.flags.usd, "budget-usd", "",
		"most money of all model requests, in US dollars, for example 2.50; the models need known prices (inspan cost --prices)")
	fl.StringVar(&c.flags.Model, "model", a.Lookup("MODEL", ""), "other model for this run, provider/name (MODEL)")
	fl.StringVar(&c.flags.Session, "session", "",
		"go on in this session: its directory and its conversation; inspan session lists them")
	fl.StringVar(&c.flags.id, "id", "", "id of the task and the run; the same id never starts a second run")
	fl.StringVar(&c.flags.Timeout, "timeout", "", "time limit of the run, for example 30m")
	fl.StringArrayVar(&c.flags.vars, "var", nil,
		"name=value for {{name}} in the task and the agent's prompt; may be repeated")
	fl.BoolVarP(&c.flags.Yes, "yes", "y", false, "approve every gate")
	fl.BoolVar(&c.flags.waitGates, "wait-gates", false,
		"wait at a gate also where no terminal is there to ask at, until somebody answers it")
	fl.BoolVarP(&c.flags.detach, "detach", "d", false, "print the run's id and return; same as --follow=false")
	c.follow = fl.Bool("follow", true, "watch the run until it ends")
	cmd.PreRun = func(*cobra.Command, []string) { c.flags.detach = c.flags.detach || !*c.follow }
	fl.BoolVar(&c.flags.Own, "ephemeral", false, "do not look for a station, start one for this run")
	fl.StringVar(&c.flags.Store, "store", "", "folder of a station started for this run; a temporary one if not given")
	c.flags.pathFlags.add(cmd)
	c.flags.acceptFlags.add(cmd)
	c.flags.modeFlags.add(cmd)
	c.flags.Add(a, cmd)
	c.flags.Flags(a, cmd)
}

func (a *runCommand) run(cmd *cobra.Command, args []string) error {
	if err := a.text(cmd, args); err != nil {
		return err
	}
	if err := a.sound(); err != nil {
		return err
	}
	a.flags = a.flags.Of(a.App)
	task, err := a.flags.Task(args[0], a.App.In)
	if err != nil {
		return err
	}
	return runTask(cmd.Context(), a.App, a.flags, task)
}

// sound refuses flags that do not go together.
func (a *runCommand) sound() error {
	for _, name := range []string{"yes", "stream", "wait-gates"} {
		if a.flags.detach && a.App.Given(name) {
			return app.Usage("--detach returns before the run has begun, so --%s means nothing: leave one of them out", name)
		}
	}
	return nil
}

// limitFlags are what a run may use.
type limitFlags struct {
	MaxCalls, MaxSteps int
	Timeout, usd       string
	tokens             int64
}

// repoFlags say where a run works, and with whom.
type repoFlags struct {
	repo, ref, branch string
	depth             int
	collaboration     string
}

func runTask(ctx context.Context, a *app.App, f RunFlags, task events.Task) error {
	a.Stream, task.By = f.stream, a.Me()
	if err := precheck.Text(task); err != nil {
		return err
	}
	var err error
	var copied *workcopy.Copy
	if f.long == nil || *f.long || workcopy.IsPath(f.repo) { // the direct path works in no repository
		if copied, err = f.find(ctx, a, f.repo); err != nil {
			return err
		}
	}
	if err := f.SoundInPlace(a, copied); err != nil {
		return err
	}
	if copied != nil {
		defer copied.Close()
		if task.ID == "" {
			task.ID = client.NewID()
		}
		f.keep = task.ID
	}
	h, err := ReachHost(ctx, a, f)
	if err != nil {
		return err
	}
	var last run.State
	if err = precheck.Agents(ctx, h.C, task); err != nil {
		h.temp = h.temp || h.kept // nothing happened in its store
		return errors.Join(err, LeaveHost(a, h, last))
	}
	var visit *workcopy.Visit
	switch {
	case f.inPlace:
		visit, err = h.Enter(ctx, a, copied, &task)
	case copied != nil || task.Repo == "" && task.Session != "":
		err = h.Place(ctx, a, copied, f, &task)
	}
	if err != nil {
		h.temp = h.temp || h.kept // as above
		return errors.Join(err, LeaveHost(a, h, last))
	}
	last, err = dispatch(ctx, a, h, f, task)
	err = errors.Join(err, Leave(ctx, a, visit, last.Status.Ended()))
	return errors.Join(err, LeaveHost(a, h, last))
}

// dispatch starts the run and, unless it is detached, shows it.
func dispatch(ctx context.Context, a *app.App, h host, f RunFlags, task events.Task) (run.State, error) {
	sessions.WarnOfAge(ctx, a, h.C, task.Session)
	if err := precheck.Halted(ctx, a, h.C); err != nil {
		return run.State{}, err
	}
	begin, cancel := context.WithTimeout(ctx, a.Wait)
	id, err := h.C.Start(begin, task)
	cancel()
	if f.detach {
		return run.State{}, detached(a, id, err)
	}
	if err != nil {
		return run.State{}, err
	}
	last, err := follow.Run(ctx, a, h.C, id, follow.Gates{Yes: f.Yes, Alone: h.own != nil, Leave: !f.waitGates})
	sessions.Settle(ctx, a, h.C, last)
	return last, err
}

// detached prints the id of a run that is not watched. It is printed too where the task is stored but the station has
// not taken it up yet.
func detached(a *app.App, id string, err error) error {
	if _, stored := errors.AsType[*client.SilentError](err); err != nil && !stored {
		return err
	}
	if errors.Is(err, client.ErrDenied) {
		fmt.Fprintf(a.Err, "inspan: %v\n", err)
		err = nil // this user may dispatch and no more
	}
	if a.JSON {
		return errors.Join(a.PrintJSON(map[string]string{"run": id}), err)
	}
	fmt.Fprintln(a.Out, id)
	return err
}
