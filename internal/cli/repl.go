package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// repl is a conversation with an agent in a session: each input is a run of its own that goes on where the one before ended.
type repl struct {
	app   *app
	c     *client.Client
	flags runFlags
	agent events.Agent
	input *typist
	// breaks tells of each Ctrl+C.
	breaks <-chan os.Signal
	// last is the state of the last run at its end.
	last run.State
}

func (a *app) replCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "repl AGENT", Aliases: []string{"chat"}, Short: "Talk to an agent in a session, day after day",
		Long: `Each line is a task for the agent. It works in the session's directory and knows what was said before, in this
process or in another one, today or last week: the conversation is in the station, not in this program.

What the model says is shown as it comes, each tool call with its outcome in one line. A gate is asked about at once.
Ctrl+C while the agent works stops the task and keeps the session; at an empty prompt it leaves. A line that ends with \
goes on on the next one, and what is pasted is one input. Lines that begin with / are commands: /help lists them.

Where no station listens at --server, one is started in this process, and its log is kept in --store. Over a pipe every line
is an input and the answers are plain text.`,
		Example: `  inspan repl fixer --session parser
  inspan repl fixer --autonomy 1
  echo "what does this repository do?" | inspan repl reader`,
		Args: args(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.repl(cmd.Context(), f, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.session, "session", "", "session to go on with or to begin; a new one if not given")
	fl.StringVar(&f.model, "model", a.set("MODEL", ""), "other model, provider/name (MODEL)")
	fl.IntVar(&f.autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&f.maxCalls, "max-tool-calls", 0, "budget of tool calls for each input")
	fl.IntVar(&f.maxSteps, "max-steps", 0, "most model turns for each input; the agent's, else 50, if not given")
	fl.StringVar(&f.timeout, "timeout", "", "time limit of each input, for example 30m")
	fl.BoolVarP(&f.yes, "yes", "y", false, "approve every gate")
	fl.BoolVar(&f.own, "ephemeral", false, "do not look for a station, start one in this process")
	fl.StringVar(&f.store, "store", "", "folder of a station started in this process; .inspan if not given")
	f.flags(a, cmd)
	return cmd
}

// signals tells of each Ctrl+C until stop.
func signals() (breaks <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

func (a *app) repl(ctx context.Context, f runFlags, agent string) (err error) {
	if a.json {
		return usage("repl is for people; programs use: inspan run %s TASK --session S --json", agent)
	}
	if _, err := f.task(agent, a.in); err != nil {
		return err
	}
	if f.session == "" {
		f.session = "repl-" + time.Now().Format("0102-150405")
	}
	if err := events.CheckID("session", f.session); err != nil {
		return err
	}
	// A Ctrl+C is for the task under way, not for the program; SIGTERM ends it.
	ctx, cancel := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer cancel()
	breaks, stop := a.signals()
	defer stop()
	f.store = cmp.Or(f.store, a.folder)
	h, err := a.reach(ctx, f)
	if err != nil {
		return err
	}
	r := &repl{app: a, c: h.c, flags: f, breaks: breaks}
	defer func() { err = errors.Join(err, a.leave(h, r.last)) }()
	if r.agent, err = r.find(ctx, agent); err != nil {
		return err
	}
	earlier, err := openPast(pastFile())
	if err != nil {
		fmt.Fprintf(a.err, "inspan: %v; they are not kept this time\n", err)
	}
	r.input = newTypist(a.keys, a.term, earlier)
	r.input.complete, r.input.breaks = complete, breaks
	if err := r.banner(ctx); err != nil {
		return err
	}
	return errors.Join(r.talk(ctx), earlier.err)
}

// find looks the agent up, so that a wrong name is told before anything is typed.
func (r *repl) find(ctx context.Context, name string) (events.Agent, error) {
	wait, cancel := context.WithTimeout(ctx, r.app.wait)
	defer cancel()
	all, err := r.c.Agents(wait)
	if errors.Is(err, client.ErrDenied) {
		return events.Agent{Name: name}, nil // who may not look will be told by the station
	}
	if err != nil {
		return events.Agent{}, err
	}
	var names []string
	for _, a := range all {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	hint := "inspan agents lists them"
	if near := didyoumean.Word(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return events.Agent{}, exitWith(exitUnknown, fmt.Errorf("station %s has no agent %q; %s", r.c.Station(), name, hint))
}

// prompt before an input.
const replPrompt = "› "

// talk takes inputs until the person leaves or the input ends.
func (r *repl) talk(ctx context.Context) error {
	for {
		prompt := ""
		if r.input.live() {
			fmt.Fprintln(r.app.out)
			prompt = replPrompt
		}
		line, err := r.input.Line(ctx, prompt)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errBreak):
			return r.bye()
		case err != nil:
			return err
		}
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			continue
		case strings.HasPrefix(text, "/"):
			err = r.command(ctx, text)
		default:
			err = r.turn(ctx, text)
		}
		if errors.Is(err, errLeave) {
			return r.bye()
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			if !r.c.Connected() {
				err = fmt.Errorf("%s; what you typed comes back with the arrow key: %w", r.away(), err)
			}
			fmt.Fprintf(r.app.err, "inspan: %s\n", harmless(err.Error()))
			if !r.input.live() {
				return exitWith(codeOf(err), nil) // a script does not go on behind a failure
			}
		}
	}
}

func (r *repl) bye() error {
	if r.input.live() {
		fmt.Fprintf(r.app.out, "%s\n", r.app.paint().dim("The session stays. Go on with: inspan repl "+r.agent.Name+" --session "+r.flags.session))
	}
	return nil
}

// turn lets the agent work on one input.
func (r *repl) turn(ctx context.Context, text string) error {
	task, err := r.flags.task(r.agent.Name, r.app.in)
	if err != nil {
		return err
	}
	task.Task, task.Stream, task.By = text, true, r.app.me() // what is typed is taken as it stands: it has no variables
	for len(r.breaks) > 0 {
		<-r.breaks // pressed before there was anything to stop
	}
	task.ID = client.NewID()
	p := r.app.paint()
	t := &replRun{r: r, c: r.c, id: task.ID, draw: drawing{paint: p, tail: map[string]string{}}, canvas: canvas{screen: r.app.term}}
	err = t.follow(ctx, task)
	if t.state.Sequence > 0 {
		r.last = t.state
	}
	if err != nil {
		return err
	}
	if err := r.ended(t); err != nil {
		return err
	}
	if err := r.settle(ctx, t.id); err != nil {
		return err
	}
	if len(r.breaks) > 0 {
		<-r.breaks // pressed when there was nothing to stop any more, unless that was asked for before
		if t.stopping {
			return errLeave
		}
	}
	return nil
}

// settle waits until the station has put what was said into the session, so that the next input finds it.
func (r *repl) settle(ctx context.Context, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, r.app.wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.c.Session(ctx, r.flags.session)
		if errors.Is(err, client.ErrDenied) {
			return nil // who may not look goes on; the station waits for itself
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			if !r.c.Connected() {
				return nil // the run has ended, which was shown
			}
			return err
		}
		if _, holds := s.Holder(runID); !holds || r.last.Status == events.Paused {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // the next input is told if it has to wait
		}
	}
}

// ended says how an input's run ended.
func (r *repl) ended(t *replRun) error {
	p, res := t.draw, t.state.Result
	if t.state.Status == events.Paused {
		return nil
	}
	took := view.Span(time.Duration(res.DurationMS) * time.Millisecond)
	sums := strings.Join([]string{view.Plural(res.TotalSteps, "step"), view.Plural(res.ToolCallCount, "tool call"), view.Count(res.TotalTokens) + " tokens", took}, " · ")
	if res.Success {
		fmt.Fprintln(r.app.out, p.green("✓ ")+p.dim(sums))
		return nil
	}
	fmt.Fprintln(r.app.out, p.red("✗ ")+view.Clip(cmp.Or(res.Error, res.FinishReason), 400)+p.dim(" · "+sums))
	if !r.input.live() {
		return exitWith(exitFailed, nil)
	}
	return nil
}

// gate asks about one, at a terminal or over a pipe.
func (r *repl) gate(ctx context.Context, g *events.GateOpenedData) (verdict, error) {
	if r.flags.yes {
		return verdict{yes: true}, nil
	}
	p := r.app.paint()
	r.input.fresh(ctx)
	for {
		line, err := r.input.Answer(ctx, p.bold(promptYesNo))
		if errors.Is(err, io.EOF) {
			fmt.Fprintf(r.app.err, "The run waits for a person: inspan gates\n")
			return verdict{leave: true}, nil
		}
		if err != nil {
			return verdict{}, err
		}
		switch gateWord(line) {
		case gateYes:
			return verdict{yes: true}, nil
		case gateLeave:
			return verdict{leave: true}, nil
		case gateDetails:
			r.details(g)
		case gateNo:
			why, err := r.input.Answer(ctx, p.bold(promptReason))
			if err != nil && !errors.Is(err, io.EOF) {
				return verdict{}, err
			}
			return verdict{reason: cmp.Or(strings.TrimSpace(why), "rejected at the prompt")}, nil
		}
	}
}

// details prints the exact action that is asked for.
func (r *repl) details(g *events.GateOpenedData) {
	for _, line := range proposal(g) {
		fmt.Fprintln(r.app.out, "    "+line)
	}
}
