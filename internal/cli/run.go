package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// runFlags are the flags of inspan run.
type runFlags struct {
	local
	pathFlags
	limitFlags
	repoFlags
	model, session, plan, id string
	text, harness            string
	autonomy                 int
	stream                   bool
	vars                     []string
	yes, detach, own         bool
}

// limitFlags are what a run may use.
type limitFlags struct {
	maxCalls, maxSteps int
	timeout, usd       string
	tokens             int64
}

// repoFlags say where a run works, and with whom.
type repoFlags struct {
	repo, ref, branch string
	depth             int
	collaboration     string
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run AGENT [TASK]", Aliases: []string{"call", "sling"}, Short: "Let an agent do a task and watch it",
		Long: `Dispatches a task to the station and shows the run: a live tree on a terminal, with --json the facts as they are
stored, else a line for each fact. At a terminal it asks when a gate opens; --yes approves every gate.

Where no station listens at --server, one is started in this process for this run alone, with the agents and scripts
in ./agents and ./scripts (or examples/agents and examples/scripts) unless told otherwise. Its log is kept under
--store; without that it goes into a temporary folder that is removed when the run has completed. With --local, or where
INSPAN_NATS_ENABLED is false, there is no server at all: the run is kept in a local store, in --store or .inspan, which stays.

{{name}} in the task stands for a value that --var gives; one without a value is an error, and \{{name}} means these signs.
Without --session each run has a workspace of its own, empty at first; runs of one session share theirs.

Ctrl+C ends the watching, not the run, unless the station is this process's own.`,
		Example: `  inspan run fixer "make the tests pass" --session demo
  inspan run fixer "make the tests pass" --autonomy 1 --json | jq -r .type
  inspan run architect "rewrite the parser" --plan plan.json --yes
  inspan run writer "announce {{what}}" --var what="version 2" --detach
  inspan run writer "one line about NATS" --long-running=false
  inspan run fixer "make the tests pass" --repo https://github.com/you/project --branch main --depth 1
  inspan call fixer --task "make the tests pass" --harness-config '{"max_steps":20}'`,
		Args: between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 2 && f.text != "":
				return usage("the task is given twice: as the second argument and with --task")
			case len(args) == 2:
				f.text = args[1]
			case f.text == "":
				return usage("%s: there is no task: %s, or --task \"what to do\"", cmd.CommandPath(), cmd.UseLine())
			}
			for _, name := range []string{"yes", "stream"} {
				if f.detach && a.given(name) {
					return usage("--detach returns before the run has begun, so --%s means nothing: leave one of them out", name)
				}
			}
			return a.run(cmd.Context(), f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.text, "task", "", "the task, in place of the second argument")
	fl.StringVar(&f.repo, "repo", "", "git repository to work in, by https or ssh; the work is pushed to it once a person approved")
	fl.StringVar(&f.ref, "ref", "", "branch, tag, commit or pull/N/head of it; wins over --branch")
	fl.StringVar(&f.branch, "branch", "", "branch of it")
	fl.IntVar(&f.depth, "depth", 0, "how many commits of its history are fetched, 0 for all")
	fl.StringVar(&f.collaboration, "collaboration", "", "how runs share the session: sequential or parallel")
	fl.BoolVar(&f.stream, "stream", false, "print the model's words as they come, in place of the tree; with --json as lines between the facts")
	fl.StringVar(&f.harness, "harness-config", "", "JSON with enabled, max_steps, autonomy, timeout and budget.tool_calls for this run; flags win over it")
	fl.IntVar(&f.autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&f.maxCalls, "max-tool-calls", 0, "budget of tool calls; the agent's, else 100, if not given")
	fl.IntVar(&f.maxSteps, "max-steps", 0, "most model turns of a step; the agent's, else 50, if not given")
	fl.Int64Var(&f.tokens, "budget-tokens", 0, "most tokens, in and out, of all model requests; the agent's, else no limit, if not given")
	fl.StringVar(&f.usd, "budget-usd", "", "most money of all model requests, in US dollars, for example 2.50; the models need prices (INSPAN_PRICES)")
	fl.StringVar(&f.model, "model", a.set("MODEL", ""), "other model for this run, provider/name (MODEL)")
	fl.StringVar(&f.session, "session", "", "go on in this session: its directory and its conversation; inspan session tells of them")
	fl.StringVar(&f.plan, "plan", "", "file with {\"steps\":[{\"id\",\"description\",\"needs\",\"critical\"}]}; - reads standard input")
	fl.StringVar(&f.id, "id", "", "id of the task and the run; the same id never starts a second run")
	fl.StringVar(&f.timeout, "timeout", "", "time limit of the run, for example 30m")
	fl.StringArrayVar(&f.vars, "var", nil, "name=value for {{name}} in the task and the agent's prompt; may be repeated")
	fl.BoolVarP(&f.yes, "yes", "y", false, "approve every gate")
	fl.BoolVarP(&f.detach, "detach", "d", false, "print the run's id and return; same as --follow=false")
	follow := fl.Bool("follow", true, "watch the run until it ends")
	cmd.PreRun = func(*cobra.Command, []string) { f.detach = f.detach || !*follow }
	fl.BoolVar(&f.own, "ephemeral", false, "do not look for a station, start one for this run")
	fl.StringVar(&f.store, "store", "", "folder of a station started for this run; a temporary one if not given")
	f.add(cmd)
	f.flags(a, cmd)
	return cmd
}

func (f runFlags) task(agent string, in io.Reader) (events.Task, error) {
	t := events.Task{ID: f.id, Agent: agent, Model: f.model, Session: f.session}
	if err := f.invocation(&t); err != nil {
		return t, err
	}
	if err := errors.Join(f.place(&t), f.path(&t)); err != nil {
		return t, err
	}
	if f.timeout != "" {
		t.Timeout = f.timeout
	}
	for _, o := range []struct {
		dst **int
		v   int
	}{{&t.Autonomy, f.autonomy}, {&t.MaxToolCalls, f.maxCalls}, {&t.MaxSteps, f.maxSteps}} {
		if o.v != 0 {
			*o.dst = &o.v
		}
	}
	if f.tokens != 0 {
		t.MaxTokens = &f.tokens
	}
	if f.usd != "" {
		if _, err := events.ParseUSD(f.usd); err != nil {
			return t, usage("--budget-usd: %w", err)
		}
		t.MaxUSD = events.USD(strings.TrimPrefix(f.usd, "$"))
	}
	if f.autonomy < 0 || f.autonomy > 5 {
		return t, usage("--autonomy %d: want 1 to 5", f.autonomy)
	}
	for _, kv := range f.vars {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return t, usage("--var %q: want name=value", kv)
		}
		if t.Variables == nil {
			t.Variables = map[string]string{}
		}
		t.Variables[k] = v
	}
	var err error
	if t.Task, err = filled(f.text, t.Variables); err != nil {
		return t, err
	}
	if f.plan == "" {
		return t, nil
	}
	t.Plan, err = readPlan(f.plan, in)
	return t, err
}

// readPlan reads the file of a plan; "-" is standard input.
func readPlan(file string, in io.Reader) (*events.TaskPlan, error) {
	var b []byte
	var err error
	if file == "-" {
		b, err = io.ReadAll(io.LimitReader(in, maxPlan))
	} else {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, usage("--plan: %w", err)
	}
	p := &events.TaskPlan{}
	if err := ce.Strict(b, p); err != nil {
		return nil, usage("--plan %s: %w", file, err)
	}
	return p, nil
}

// maxPlan bounds a plan on standard input, in bytes; a task can not be larger anyway.
const maxPlan = 1 << 20

func (a *app) run(ctx context.Context, f runFlags, agent string) error {
	a.stream = f.stream
	task, err := f.task(agent, a.in)
	task.By = a.me()
	if err != nil {
		return err
	}
	h, err := a.reach(ctx, f)
	if err != nil {
		return err
	}
	last, err := a.dispatch(ctx, h, f, task)
	return errors.Join(err, a.leave(h, last))
}

// dispatch starts the run and, unless it is detached, shows it.
func (a *app) dispatch(ctx context.Context, h host, f runFlags, task events.Task) (run.State, error) {
	a.warnSession(ctx, h.c, task.Session)
	begin, cancel := context.WithTimeout(ctx, a.wait)
	id, err := h.c.Start(begin, task)
	cancel()
	if f.detach {
		return run.State{}, a.detached(id, err)
	}
	if err != nil {
		return run.State{}, err
	}
	last, err := a.follow(ctx, h.c, id, f.yes, h.own != nil)
	a.settled(ctx, h.c, last)
	return last, err
}

// detached prints the id of a run that nobody watches. It is printed too where the task is stored but the station has not
// taken it up yet.
func (a *app) detached(id string, err error) error {
	if _, stored := errors.AsType[*client.SilentError](err); err != nil && !stored {
		return err
	}
	if errors.Is(err, client.ErrDenied) {
		fmt.Fprintf(a.err, "inspan: %v\n", err)
		err = nil // this user may dispatch and no more
	}
	if a.json {
		return errors.Join(a.printJSON(map[string]string{"run": id}), err)
	}
	fmt.Fprintln(a.out, id)
	return err
}

// host is where a run happens: a station somewhere, or one of this process.
type host struct {
	c *client.Client
	// own is the station of this process, or nil; local what it was started with, temp that its folder may go.
	own   *station.Station
	local local
	temp  bool
}

// reach connects to the station, or starts one for this run alone.
func (a *app) reach(ctx context.Context, f runFlags) (host, error) {
	if f.own && a.given("server") {
		return host{}, usage("--ephemeral starts a station for this command, so --server means nothing: leave one of them out")
	}
	if !f.own && !a.alone {
		if a.given("store") && a.locate(ctx, f.store) { // whoever runs there has the store
			a.cmd.Flags().Lookup("store").Changed = false
		}
		c, err := a.connect(ctx)
		if err == nil {
			if err = a.refuseOwn(); err == nil {
				return host{c: c}, nil
			}
			c.Close()
			return host{}, err
		}
		if !errors.Is(err, errNoServer) || f.detach {
			return host{}, err // a run that nobody watches would end with this process
		}
	} else if f.detach {
		return host{}, usage("--detach needs a station that stays: start one with \"inspan up\", or leave --ephemeral and --local out")
	}
	h := host{local: f.local}
	if a.alone && !f.own {
		h.local.store = cmp.Or(f.store, a.folder)
	}
	if h.local.store == "" {
		dir, err := os.MkdirTemp("", "inspan-run-")
		if err != nil {
			return h, fmt.Errorf("folder of the station: %w", err)
		}
		h.local.store, h.temp = dir, true
	}
	h.local.guess()
	a.ownStore = h.local.store
	if !a.alone {
		fmt.Fprintf(a.err, "No station at %s: this run has one of its own in %s, with the agents of %s.\n", a.address(), h.local.store, cmp.Or(h.local.agents, "its store"))
	}
	var err error
	if h.own, err = a.start(ctx, h.local, "", false); err != nil {
		return h, errors.Join(err, h.remove())
	}
	if a.alone {
		h.c = operator.Local(h.own.Local(), nil)
		return h, nil
	}
	if h.c, err = operator.On(h.own.Conn(), h.own.Name()); err != nil {
		return h, errors.Join(err, a.leave(h, run.State{}))
	}
	return h, nil
}

// guess finds agents and scripts where people put them.
func (l *local) guess() {
	for _, g := range []struct {
		dst *string
		dir string
	}{{&l.agents, "agents"}, {&l.agents, filepath.Join("examples", "agents")}, {&l.scripts, "scripts"}, {&l.scripts, filepath.Join("examples", "scripts")}} {
		if info, err := os.Stat(g.dir); *g.dst == "" && err == nil && info.IsDir() {
			*g.dst = g.dir
		}
	}
}

// leave lets go of the host. A station of this process ends; its folder is kept where the run could still go on.
func (a *app) leave(h host, last run.State) error {
	h.c.Close()
	if h.own == nil {
		if last.Sequence > 0 && !last.Status.Ended() && last.Status != events.Paused {
			fmt.Fprintf(a.err, "No longer watching; the run goes on. See: %s\n", a.command("logs", last.HarnessID, "--follow"))
		}
		return nil
	}
	err := h.own.Close(context.Background())
	if last.Status == events.Failed {
		return err // its store stays, so that a person can look at the run
	}
	if last.Sequence == 0 || last.Status.Ended() {
		return errors.Join(err, h.remove())
	}
	flags := ""
	if a.alone {
		flags = " --local"
	}
	for _, f := range [][2]string{{"--agents", h.local.agents}, {"--scripts", h.local.scripts}, {"--workspace", h.local.workspace}} {
		if f[1] != "" {
			flags += " " + f[0] + " " + shellWord(f[1])
		}
	}
	fmt.Fprintf(a.err, "Its station has stopped and the run waits in %s. Go on with: inspan up --store %s%s\n", h.local.store, shellWord(h.local.store), flags)
	if last.Status == events.Paused && !a.alone {
		fmt.Fprintf(a.err, "and, while that runs: %s\n", a.command("resume", last.HarnessID))
	}
	return err
}

func (h host) remove() error {
	if !h.temp {
		return nil
	}
	return os.RemoveAll(h.local.store) // made by this command, in the system's place for temporary files
}
