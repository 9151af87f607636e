// Package repl has inspan repl: a conversation with an agent in a session.
package repl

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

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/gateprompt"
	"github.com/inspan/inspan/internal/cli/lineedit"
	"github.com/inspan/inspan/internal/cli/notices"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// replCommand is inspan repl.
type replCommand struct {
	App    *app.App
	flags  dispatch.RunFlags
	others func(*app.App) []*cobra.Command
}

// Command makes inspan repl.
//
// others makes commands of the program that the conversation has, too, for the App that they are given.
func Command(a *app.App, others func(*app.App) []*cobra.Command) *cobra.Command {
	c := &replCommand{App: a, others: others}
	cmd := &cobra.Command{
		Use: "repl AGENT", Aliases: []string{"chat"}, Short: "Talk to an agent in a session, day after day",
		Long: `Each line is a task for the agent. It works in the session's directory and knows the conversation so far, of this
process or another one, today or last week: the conversation is in the station, not in this program.

What the model says is shown as it comes, its Markdown as headings, lists, code and links where colour is shown, each tool call
with its outcome in one line. A gate is asked about at once.
Ctrl+C while the agent works stops the task and keeps the session; at an empty prompt it leaves. A line that ends with \
goes on on the next one, and what is pasted is one input. Lines that begin with / are commands: /help lists them.

In the working tree of a git repository a new session works on a copy of it, as inspan run does, and each input goes on in that copy.
What it made is the branch inspan/SESSION: "inspan merge SESSION" brings it, "inspan diff SESSION" shows it. --empty begins with nothing.

Where no station listens at --server, one is started in this process, and its log is kept in --store. Over a pipe every line
is an input and the answers are plain text.`,
		Example: `  inspan repl fixer --session parser
  inspan repl fixer --autonomy 1
  echo "what does this repository do?" | inspan repl reader`,
		Args: app.Args(1),
		RunE: c.run,
	}
	fl := cmd.Flags()
	fl.StringVar(&c.flags.Session, "session", "", "session to go on with or to begin; a new one if not given")
	fl.StringVar(&c.flags.Model, "model", a.Lookup("MODEL", ""), "other model, provider/name (MODEL)")
	fl.IntVar(&c.flags.Autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&c.flags.MaxCalls, "max-tool-calls", 0, "budget of tool calls for each input")
	fl.IntVar(&c.flags.MaxSteps, "max-steps", 0, "most model turns for each input; the agent's, else 50, if not given")
	fl.StringVar(&c.flags.Timeout, "timeout", "", "time limit of each input, for example 30m")
	fl.BoolVarP(&c.flags.Yes, "yes", "y", false, "approve every gate")
	fl.BoolVar(&c.flags.Own, "ephemeral", false, "do not look for a station, start one in this process")
	fl.StringVar(&c.flags.Store, "store", "", "folder of a station started in this process; .inspan if not given")
	c.flags.RepoFlag(cmd, "directory of this machine whose repository the session works on a copy of")
	c.flags.Add(a, cmd)
	c.flags.Flags(a, cmd)
	return cmd
}

func (a *replCommand) run(cmd *cobra.Command, args []string) error {
	return converse(cmd.Context(), a.App, a.flags, args[0], a.others)
}

// repl is a conversation with an agent in a session: each input is a run of its own that goes on where the one before
// ended.
type repl struct {
	app   *app.App
	c     *client.Client
	flags dispatch.RunFlags
	agent events.Agent
	input *lineedit.Reader
	// breaks receives each Ctrl+C.
	breaks <-chan os.Signal
	// last is the state of the last run at its end.
	last run.State
	// place has a task work where its session does; placed is the last one that it was asked for.
	place  func(ctx context.Context, task *events.Task) (*dispatch.Visit, error)
	placed events.Task
	// others makes the commands of the program that a conversation has too.
	others func(*app.App) []*cobra.Command
	// own are the person's commands and the project's; files can be named in an input, below root; printed is the
	// output of a command, which goes with the next input, and before the input before.
	own     []command
	files   files
	root    string
	printed *attachment
	before  string
	// interrupted is what the model had written of the answer that a person stopped: it goes with the next input. spent
	// is what the inputs of this program cost.
	interrupted *attachment
	spent       events.MicroUSD
	// person is called where an input's run needs one, or took long.
	person *notices.Person
}

// Signals returns a channel of each Ctrl+C until stop is called.
func Signals() (breaks <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

func converse(ctx context.Context, a *app.App, f dispatch.RunFlags, agent string,
	others func(*app.App) []*cobra.Command) (err error) {
	if a.JSON {
		return app.Usage("repl is for people; programs use: inspan run %s TASK --session S --json", agent)
	}
	f = f.Of(a)
	if _, err := f.Task(agent, a.In); err != nil {
		return err
	}
	if f.Session == "" {
		f.Session = "repl-" + time.Now().Format("0102-150405")
	}
	if err := events.CheckID("session", f.Session); err != nil {
		return err
	}
	// A Ctrl+C is for the task under way, not for the program; SIGTERM ends it.
	ctx, cancel := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer cancel()
	breaks, stop := a.Signals()
	defer stop()
	f.Store = cmp.Or(f.Store, a.Folder)
	copied, err := f.FindCopy(ctx, a)
	if err != nil {
		return err
	}
	defer copied.Close()
	if err := f.SoundInPlace(a, copied); err != nil {
		return err
	}
	h, err := dispatch.ReachHost(ctx, a, f)
	if err != nil {
		return err
	}
	r := &repl{app: a, c: h.C, flags: f, breaks: breaks, others: others, person: notices.At(a)}
	defer r.person.Close()
	if copied != nil {
		r.root, r.files.list = copied.Root(), copied.Files
	}
	r.place = func(ctx context.Context, task *events.Task) (*dispatch.Visit, error) {
		if f.InPlace() {
			return h.Enter(ctx, a, copied, task)
		}
		return nil, h.Place(ctx, a, copied, f, task)
	}
	defer func() { err = errors.Join(err, dispatch.LeaveHost(a, h, r.last)) }()
	if r.agent, err = r.findAgent(ctx, agent); err != nil {
		return err
	}
	earlier, err := lineedit.OpenHistory(lineedit.HistoryFile())
	if err != nil {
		fmt.Fprintf(a.Err, "inspan: %v; they are not kept this time\n", err)
	}
	r.input = lineedit.NewReader(a.Keys, a.Term, earlier)
	r.input.Complete, r.input.Breaks, r.input.Notices = r.complete(ctx), breaks, a.Notices
	if err := r.loadOwn(); err != nil {
		fmt.Fprintf(a.Err, "inspan: %s\n", terminal.Sanitize(err.Error()))
	}
	if err := r.banner(ctx); err != nil {
		return err
	}
	return errors.Join(r.talk(ctx), earlier.Err)
}

// findAgent looks the agent up, so that a wrong name is reported before anything is typed.
func (r *repl) findAgent(ctx context.Context, name string) (events.Agent, error) {
	wait, cancel := context.WithTimeout(ctx, r.app.Wait)
	defer cancel()
	all, err := r.c.Agents(wait)
	if errors.Is(err, client.ErrDenied) {
		return events.Agent{Name: name}, nil // a user who may not look is refused by the station later
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
	return events.Agent{}, app.Exit(app.ExitUnknown, fmt.Errorf("station %s has no agent %q; %s", r.c.Station(), name,
		hint))
}

// prompt before an input.
const inputPrompt = "› "

// talk takes inputs until the person leaves or the input ends.
func (r *repl) talk(ctx context.Context) error {
	for {
		for len(r.app.Notices) > 0 {
			fmt.Fprintln(r.app.Err, <-r.app.Notices)
		}
		prompt := ""
		if r.input.Interactive() {
			fmt.Fprintln(r.app.Out)
			if width, _ := r.app.Term.Size(); r.status(width) != "" {
				fmt.Fprintln(r.app.Out, r.app.Paint().Dim(r.status(width)))
			}
			prompt = inputPrompt
		}
		line, err := r.input.Line(ctx, prompt)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, lineedit.ErrBreak):
			return r.farewell()
		case err != nil:
			return err
		}
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			continue
		case strings.HasPrefix(text, "/"):
			err = r.runCommand(ctx, text)
			if in, ok := errors.AsType[*inputError](err); ok {
				err = r.instead(ctx, in)
			}
		case strings.HasPrefix(text, "!") && len(text) > 1 && r.input.Interactive():
			err = r.shell(ctx, text[1:])
		default:
			err = r.send(ctx, text)
		}
		if errors.Is(err, errLeave) {
			return r.farewell()
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			if !r.c.Connected() {
				err = fmt.Errorf("%s; what you typed comes back with the arrow key: %w", r.awayText(), err)
			}
			fmt.Fprintf(r.app.Err, "inspan: %s\n", terminal.Sanitize(err.Error()))
			if !r.input.Interactive() {
				return app.Exit(app.Code(err), nil) // a script does not go on behind a failure
			}
		}
	}
}

func (r *repl) farewell() error {
	if r.input.Interactive() {
		fmt.Fprintf(r.app.Out, "%s\n", r.app.Paint().Dim("The session stays. Go on with: inspan repl "+r.agent.Name+
			" --session "+r.flags.Session))
	}
	return nil
}

// send sends an input with what goes with it.
func (r *repl) send(ctx context.Context, text string) error {
	r.before = text
	whole, notes := r.attach(ctx, text)
	for _, note := range notes {
		fmt.Fprintln(r.app.Out, r.app.Paint().Dim("  "+view.Clip(note, 200)))
	}
	return r.turn(ctx, whole)
}

// turn lets the agent work on one input.
func (r *repl) turn(ctx context.Context, text string) error {
	task, err := r.flags.Task(r.agent.Name, r.app.In)
	if err != nil {
		return err
	}
	// What is typed is taken as it stands: it has no variables.
	task.Task, task.Stream, task.Attended, task.By = text, true, true, r.app.Me()
	for len(r.breaks) > 0 {
		<-r.breaks // pressed before there was anything to stop
	}
	task.ID = client.NewID()
	var visit *dispatch.Visit
	if r.flags.InPlace() || r.placed.Session != task.Session { // the first input, or one in another session
		if visit, err = r.place(ctx, &task); err != nil {
			return err
		}
		r.placed = events.Task{Session: task.Session, Repo: task.Repo, Git: task.Git}
	}
	task.Repo, task.Git = r.placed.Repo, r.placed.Git
	p := r.app.Paint()
	t := &turnRun{r: r, c: r.c, id: task.ID,
		draw:   runtree.Drawing{Paint: p, Diff: runtree.DiffLines, Rest: "/diff", Tail: map[string]string{}},
		canvas: terminal.Canvas{Screen: r.app.Term}}
	r.person.Acted(time.Now())
	err = t.follow(ctx, task)
	err = errors.Join(err, dispatch.Leave(ctx, r.app, visit, t.state.Status.Ended()))
	if t.state.Sequence > 0 {
		r.last = t.state
		r.spent += t.state.Cost
		r.interrupted = nil
		if t.state.Result != nil && t.state.Result.FinishReason == events.FinishStopped {
			r.interrupted = t.partial
		}
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
	ctx, cancel := context.WithTimeout(ctx, r.app.Wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.c.Sessions().Get(ctx, r.flags.Session)
		if errors.Is(err, client.ErrDenied) {
			return nil // who may not look goes on; the station waits for itself
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			if !r.c.Connected() {
				return nil // the run has ended, which was shown
			}
			return err
		}
		if _, holds := s.Holder(runID); !holds || r.last.Halted() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // the next input is shown whether it has to wait
		}
	}
}

// ended says how an input's run ended.
func (r *repl) ended(t *turnRun) error {
	p, res := t.draw, t.state.Result
	if t.state.Halted() {
		return nil
	}
	took := view.Span(time.Duration(res.DurationMS) * time.Millisecond)
	sums := strings.Join([]string{view.Plural(res.TotalSteps, "step"), view.Plural(res.ToolCallCount, "tool call"),
		view.Count(res.TotalTokens) + " tokens", took}, " · ")
	if res.Success {
		fmt.Fprintln(r.app.Out, p.Green("✓ ")+p.Dim(sums))
		return nil
	}
	fmt.Fprintln(r.app.Out, p.Red("✗ ")+view.Clip(cmp.Or(res.Error, res.FinishReason), 400)+p.Dim(" · "+sums))
	if !r.input.Interactive() {
		return app.Exit(app.ExitFailed, nil)
	}
	return nil
}

// gate asks about one, at a terminal or over a pipe.
func (r *repl) gate(ctx context.Context, q *gateprompt.Prompt) (gateprompt.Answer, error) {
	if r.flags.Yes {
		return gateprompt.Answer{Yes: true}, nil
	}
	r.input.Discard(ctx)
	for {
		line, err := r.input.Answer(ctx, r.app.Paint().Bold(q.Text()))
		if errors.Is(err, io.EOF) {
			fmt.Fprintf(r.app.Err, "The run waits for a person: inspan gates\n")
			return gateprompt.Answer{Leave: true}, nil
		}
		if err != nil {
			return gateprompt.Answer{}, err
		}
		lines, a, done := q.Take(line)
		for _, l := range lines {
			fmt.Fprintln(r.app.Out, l)
		}
		if done {
			return a, nil
		}
	}
}
