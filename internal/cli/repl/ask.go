package repl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// program carries out a command of the program over the connection of the conversation, and returns what it prints.
func (r *repl) program(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	a := *r.app
	a.Printer.Out, a.Printer.Term = &out, terminal.Screen{Out: &out}
	a.Shared, a.JSON = r.c, false
	for _, cmd := range r.others(&a) {
		if cmd.Name() != args[0] {
			continue
		}
		cmd.SetArgs(args[1:])
		cmd.SetOut(&out)
		cmd.SetErr(r.app.Err)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(ctx)
		return out.String(), err
	}
	return "", fmt.Errorf("this program has no command %q", args[0])
}

// printOf shows what a command of the program prints.
func printOf(ctx context.Context, r *repl, args ...string) error {
	out, err := r.program(ctx, args...)
	for line := range strings.Lines(out) {
		fmt.Fprintln(r.app.Out, "  "+strings.TrimRight(line, "\n"))
	}
	return err
}

// worked is an error where no input was sent yet.
func worked(r *repl) error {
	if r.last.Sequence == 0 {
		return app.Usage("nothing was sent yet in this conversation: type an input first")
	}
	return nil
}

// onAgents lists the agents of the station, the one of the conversation marked.
func onAgents(ctx context.Context, r *repl, _ string) error {
	agents, err := r.c.Agents(ctx)
	if err != nil {
		return err
	}
	longest := 0
	for _, g := range agents {
		longest = max(longest, len(g.Name))
	}
	width, _ := r.app.Term.Size()
	p := r.app.Paint()
	for _, g := range agents {
		mark := " "
		if g.Name == r.agent.Name {
			mark = p.Green("*")
		}
		about := terminal.Sanitize(cmp.Or(g.Description, g.Model))
		fmt.Fprintln(r.app.Out, terminal.Fit(fmt.Sprintf("%s %-*s  %s", mark, longest, g.Name, p.Dim(about)), width))
	}
	fmt.Fprintln(r.app.Out, "  "+p.Dim("talk to another one: inspan repl AGENT"))
	return nil
}

func onSessions(ctx context.Context, r *repl, _ string) error {
	out, err := r.program(ctx, "session", "list")
	width, _ := r.app.Term.Size()
	for line := range strings.Lines(out) {
		fmt.Fprintln(r.app.Out, terminal.Fit("  "+strings.TrimRight(line, "\n"), width))
	}
	return err
}

func onMerge(ctx context.Context, r *repl, _ string) error {
	if r.flags.InPlace() {
		return app.Usage("the session works in your files: there is nothing to merge; /undo takes the last input back")
	}
	return changed(ctx, r, func() error { return printOf(ctx, r, "merge", r.flags.Session, "--squash") })
}

// onUndo takes the last input back where the session works in the directory itself, else what was merged.
func onUndo(ctx context.Context, r *repl, _ string) error {
	what := r.flags.Session
	if r.flags.InPlace() {
		last, err := dispatch.LastInPlace(r.flags.Session)
		if err != nil {
			return err
		}
		what = last
	}
	return changed(ctx, r, func() error { return printOf(ctx, r, "undo", what) })
}

// changed does something with the changes of the session, where it has begun.
func changed(ctx context.Context, r *repl, do func() error) error {
	_, err := r.c.Sessions().Get(ctx, r.flags.Session)
	if errors.Is(err, client.ErrNotFound) {
		fmt.Fprintln(r.app.Out, "  the session has changed nothing yet")
		return nil
	}
	if err != nil {
		return err
	}
	return do()
}

func onWhy(ctx context.Context, r *repl, _ string) error {
	if err := worked(r); err != nil {
		return err
	}
	return printOf(ctx, r, "why", r.last.HarnessID)
}

func onDiff(ctx context.Context, r *repl, _ string) error {
	return changed(ctx, r, func() error { return showDiff(ctx, r) })
}

func showDiff(ctx context.Context, r *repl) error {
	out, err := r.program(ctx, "diff", r.flags.Session)
	if err != nil {
		return err
	}
	if strings.TrimSpace(out) == "" {
		fmt.Fprintln(r.app.Out, "  the session has changed nothing")
		return nil
	}
	for _, line := range terminal.Diff(out, r.app.Paint(), 0) {
		fmt.Fprintln(r.app.Out, line)
	}
	return nil
}

func onRetry(_ context.Context, r *repl, _ string) error {
	if r.before == "" {
		return app.Usage("there is no input to send again")
	}
	return &inputError{text: r.before}
}

// onModel shows or sets the model of the next inputs.
func onModel(_ context.Context, r *repl, name string) error {
	if name == "" {
		fmt.Fprintf(r.app.Out, "  %s; another one with: /model PROVIDER/NAME\n",
			cmp.Or(r.flags.Model, r.agent.Model, "not known"))
		return nil
	}
	if provider, of, ok := strings.Cut(name, "/"); !ok || provider == "" || of == "" || strings.ContainsAny(name, " \t") {
		return app.Usage("/model %s: want PROVIDER/NAME, for example anthropic/claude-sonnet-5", name)
	}
	r.flags.Model = name
	fmt.Fprintf(r.app.Out, "  %s from the next input on\n", name)
	return nil
}

// onCost sums up what the inputs of the session used.
func onCost(ctx context.Context, r *repl, _ string) error {
	runs, err := r.c.Runs().Find(ctx, client.Of{Session: r.flags.Session})
	if err != nil {
		return err
	}
	var tokens run.Tokens
	var money events.MicroUSD
	for _, i := range runs {
		tokens.Input, tokens.Output = tokens.Input+i.InputTokens, tokens.Output+i.OutputTokens
		money += i.Cost
	}
	fmt.Fprintf(r.app.Out, "  session %s: %s, %s tokens in, %s out, %s\n", r.flags.Session,
		view.Plural(len(runs), "input"),
		view.Count(tokens.Input), view.Count(tokens.Output), priceText(money))
	if r.last.Sequence > 0 {
		fmt.Fprintf(r.app.Out, "  the last input: %s tokens in, %s out, %s\n", view.Count(r.last.Tokens.Input),
			view.Count(r.last.Tokens.Output), priceText(r.last.Cost))
	}
	return nil
}

func priceText(m events.MicroUSD) string {
	if m == 0 {
		return "no price known"
	}
	return m.String()
}

// window is how much the last request of a run took of the model's context window, 0 of 0 where that is not known.
func window(s run.State) (used, size int) {
	for _, t := range run.Backward(s.Turns()) {
		if s.Harness(t.Step) {
			continue // of a step that the harness takes itself: a checkout, a delivery
		}
		used = t.InputTokens + t.OutputTokens
		st := s.Step(t.Step)
		if st == nil {
			break
		}
		if agent, ok := s.Agent(st.AssignedAgent); ok {
			size = prompt.SettingsOf(s, agent, st).Window
		}
		break
	}
	return used, size
}

// onContext shows how full the window was at the last request, and estimates with what.
func onContext(ctx context.Context, r *repl, _ string) error {
	if err := worked(r); err != nil {
		return err
	}
	used, size := window(r.last)
	of := "of a window that is not limited here"
	if size > 0 {
		of = fmt.Sprintf("of %s, %d %%", view.Count(size), 100*used/size)
	}
	fmt.Fprintf(r.app.Out, "  %s tokens %s (counted by the provider at the last request)\n", view.Count(used), of)
	all, err := r.messages(ctx)
	if err != nil {
		return err
	}
	parts := []struct {
		name   string
		tokens int
	}{{"what you typed and attached", 0}, {"answers", 0}, {"tool calls", 0}, {"results of tools", 0}}
	for _, m := range all {
		switch m.Role {
		case events.RoleUser:
			parts[0].tokens += prompt.Tokens(m.Content)
		case events.RoleAssistant:
			parts[1].tokens += prompt.Tokens(m.Content)
			for _, c := range m.Calls {
				parts[2].tokens += prompt.Tokens(c.Name) + prompt.Tokens(string(c.Input))
			}
		case events.RoleTool:
			for _, res := range m.Results {
				parts[3].tokens += prompt.Tokens(res.Output)
			}
		}
	}
	for _, part := range parts {
		fmt.Fprintf(r.app.Out, "  about %6s  %s\n", view.Count(part.tokens), part.name)
	}
	fmt.Fprintln(r.app.Out, r.app.Paint().Dim("  the rest is the system prompt and the descriptions of the tools"))
	return nil
}

// onPermissions shows what the agent may do without asking, and the grants of the session.
func onPermissions(ctx context.Context, r *repl, _ string) error {
	autonomy := r.last.Options.Autonomy
	if autonomy == 0 {
		autonomy = cmp.Or(r.flags.Autonomy, r.agent.Autonomy, events.DefaultOptions().Autonomy)
	}
	fmt.Fprintf(r.app.Out, "  autonomy %d of 5\n", autonomy)
	for _, g := range r.agent.Guards {
		what := cmp.Or(g.Match.Glob, strings.Join(g.Match.Argv, " "), g.Match.Path, "*")
		fmt.Fprintf(r.app.Out, "  %-7s %s %s\n", g.Action, cmp.Or(view.Clip(g.Tool, 40), "*"),
			r.app.Paint().Dim(view.Clip(what, 80)))
	}
	grants, err := r.c.Grants().List(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		fmt.Fprintf(r.app.Out, "  allowed %s %s\n", view.Clip(g.Tool, 40),
			r.app.Paint().Dim(view.Clip(g.Pattern, 80)+" · inspan grants"))
	}
	return nil
}

// onShow prints the whole result of a call of the last input.
func onShow(ctx context.Context, r *repl, number string) error {
	if err := worked(r); err != nil {
		return err
	}
	calls := run.Slice(r.last.ToolCallHistory)
	if number == "" {
		for i, c := range calls {
			fmt.Fprintf(r.app.Out, "  %3d  %s %s\n", i+1, c.CallName, r.app.Paint().Dim(view.Input(c.Arguments)))
		}
		if len(calls) == 0 {
			fmt.Fprintln(r.app.Out, "  the last input made no calls")
		}
		return nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(calls) {
		return app.Usage("/show %s: want a number from 1 to %d; /show lists the calls", number, len(calls))
	}
	c := calls[n-1]
	text := c.Result
	if c.ResultRef != nil {
		b, err := r.c.Object(ctx, *c.ResultRef)
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
		if err == nil {
			text = string(b)
		}
	}
	fmt.Fprintf(r.app.Out, "  %s %s\n", r.app.Paint().Cyan(view.Clip(c.CallName, 40)), view.Input(c.Arguments))
	for line := range strings.Lines(view.Whole(text)) {
		fmt.Fprintln(r.app.Out, "    "+strings.TrimRight(line, "\n"))
	}
	return nil
}
