package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// inspectCommand is inspan inspect.
type inspectCommand struct {
	App    *app.App
	point  string
	result bool
}

// Inspect makes inspan inspect.
func Inspect(a *app.App) *cobra.Command {
	c := &inspectCommand{App: a}
	cmd := &cobra.Command{
		Use: "inspect RUN", Short: "Show where a run stands, or stood: plan, turns, calls, gates, cost",
		Long:    "Shows a run as its events have it. With --at, only the events up to that one count: what was known then, and what the run\nwaited for. inspan logs RUN shows the events with their sequences, inspan checkpoints RUN the checkpoints.",
		Example: "  inspan inspect run-k3v9x2m1qa\n  inspan inspect run-k3v9x2m1qa --at 12\n  inspan inspect run-k3v9x2m1qa --at step-build\n  inspan inspect run-k3v9x2m1qa --json | jq .plan\n  inspan inspect run-k3v9x2m1qa --result --json | jq .structured",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.point, "at", "",
		"show the run as it was after the event of this sequence, or at this checkpoint; 0 is the last event")
	cmd.Flags().BoolVar(&c.result, "result", false,
		"of a run that has ended, show its output alone; with --json its whole result with structured output, checks, cost and artifacts")
	return cmd
}

func (a *inspectCommand) run(ctx context.Context, c *client.Client, args []string) error {
	at, err := Sequence(ctx, a.App, c, args[0], a.point)
	if err != nil {
		return err
	}
	var s run.State
	var t view.Tree
	sandboxes := map[string]bool{}
	now := time.Now().In(a.App.Zone())
	for item, err := range c.Events(ctx, args[0], 0) {
		if err != nil {
			return err
		}
		s = item.State
		t.Apply(item.Event, item.Payload)
		if d, ok := item.Payload.(*events.CallFinishedData); ok && d.Sandbox != "" {
			sandboxes[d.Sandbox] = true
		}
		if at > 0 && s.Sequence == at {
			now = item.Event.Time.In(a.App.Zone())
			break
		}
	}
	switch {
	case s.Sequence == 0:
		return app.NoRun(args[0])
	case s.Sequence < at:
		return NoSuchSequence(args[0], at, s.Sequence)
	case a.result:
		return a.final(s)
	case a.App.JSON:
		return a.App.PrintJSON(s)
	}
	if at > 0 {
		fmt.Fprintf(a.App.Out, "%s\n\n",
			a.App.Paint().Dim(fmt.Sprintf("As it was after event %d, %s. Go on from there with: inspan fork %s --at %d", at,
				now.In(a.App.Zone()).Format("2006-01-02 15:04:05"), args[0], at)))
	}
	retry := ""
	if s.Status == events.Failed {
		if retry, err = retriedAs(ctx, c, s); err != nil {
			return err
		}
	}
	printRun(a.App, s, &t, sandboxes, now, retry)
	return nil
}

// final prints what whoever asked for the run is given.
func (a *inspectCommand) final(s run.State) error {
	f := run.FinalOf(s)
	if f == nil {
		return fmt.Errorf("run %s has not ended: it is %s. Wait for its end: inspan watch %s", s.HarnessID, s.Status,
			s.HarnessID)
	}
	if a.App.JSON {
		return a.App.PrintJSON(f)
	}
	if f.Output != "" {
		fmt.Fprintln(a.App.Out, terminal.Sanitize(f.Output))
	}
	return nil
}

// formulaLine names what the plan was made from, with the beginning of its digest.
func formulaLine(f *events.Formula) string {
	if f == nil {
		return ""
	}
	return view.Clip(f.Name, 80) + ", digest " + view.Clip(f.Digest, 12)
}

func printRun(a *app.App, s run.State, t *view.Tree, sandboxes map[string]bool, now time.Time, retry string) {
	p, i, agent := a.Paint(), run.InfoOf(s), s.Agents[s.AgentName]
	var used []string
	for name := range sandboxes {
		used = append(used, name)
	}
	slices.Sort(used)
	sandbox := strings.Join(used, ", ")
	if sandbox == "" {
		sandbox = cmp.Or(agent.Sandbox.Mode, "auto") + ", not used yet"
	}
	limit := "no time limit"
	if s.Options.TimeoutMS > 0 {
		limit = "at most " + view.Span(time.Duration(s.Options.TimeoutMS)*time.Millisecond)
	}
	a.Pairs([][2]string{
		{"Run", p.Bold(s.HarnessID) + "  " + p.State(runtree.StatusOf(i))},
		{"Agent", s.AgentName + "  " + p.Dim(agent.Model)},
		{"Task", view.Clip(s.Created.Task, 300)},
		{"Formula", formulaLine(s.Created.Formula)},
		{"Steps", fmt.Sprintf("%d of %d, %s (at most %d a step)", i.StepsCompleted, i.StepsTotal,
			view.Plural(i.Turns, "turn"), s.Options.MaxSteps)},
		{"Tool calls", fmt.Sprintf("%d, %d of %d left", i.ToolCallCount, i.BudgetLeft, s.Options.MaxToolCalls)},
		{"Tokens", fmt.Sprintf("%s in (%s cached), %s out", view.Count(s.Tokens.Input), view.Count(s.Tokens.Cached),
			view.Count(s.Tokens.Output))},
		{"Cost", budgetLine(s)},
		{"Child runs", childrenLine(s)},
		{"Duration", duration(i) + p.Dim(", "+limit+", created "+s.CreatedAt.In(a.Zone()).Format("2006-01-02 15:04:05"))},
		{"Forked from", forkedFrom(s)},
		{"Retried as", retry},
		{"Session", s.Identity.Session},
		{"Workspace", s.Created.Workspace},
		{"Git", gitLine(s)},
		{"Checks", view.Verified(s.Result)},
		{"Sandbox", sandbox},
		{"Autonomy", fmt.Sprint(s.Options.Autonomy)},
		{"Checkpoints", checkpoints(s)},
		{"Log", logLine(s)},
		{"Waits for", waitLine(s, now)},
	})
	fmt.Fprintln(a.Out)
	width, _ := a.Term.Size()
	d := runtree.Drawing{Paint: p, Width: width, Whole: true, Diff: runtree.DiffLines, Zone: a.Zone()}
	for _, l := range d.Lines(t, now) {
		fmt.Fprintln(a.Out, l)
	}
	if s.Result != nil && s.Result.Output != "" {
		fmt.Fprintf(a.Out, "\n%s\n%s\n", p.Dim("Output"), terminal.Sanitize(s.Result.Output))
	}
}

// logLine says how long the log of a run is, how safe, and where the events are that are not here.
func logLine(s run.State) string {
	text := fmt.Sprintf("%s, durability %s", view.Plural(int(s.Sequence), "event"), //nolint:gosec // far below the limit
		cmp.Or(s.Created.Durability, "unknown"))
	if p := s.Pruned; p != nil && p.Forgotten {
		text += fmt.Sprintf("; events 1 to %d were deleted on request", p.Covered)
	} else if p != nil {
		text += fmt.Sprintf("; events 1 to %d are in the backup of %s, manifest %.12s", p.Covered,
			p.At.UTC().Format(time.RFC3339), p.Backup)
	}
	return text
}

// gitLine is where a run works in git, or what became of that, "" where it does not.
func gitLine(s run.State) string {
	if s.Result != nil {
		return view.Delivery(s.Result.Delivery)
	}
	return view.Work(s)
}

// budgetLine is what a run cost and may still use, "" where neither is known.
func budgetLine(s run.State) string {
	var parts []string
	used := budget.Used(s)
	if text := runtree.CostText(s.Cost); text != "" {
		parts = append(parts, text)
	}
	if s.Lost.Requests > 0 {
		parts = append(parts, fmt.Sprintf("%s of unknown usage: at most %s tokens, %s", view.Plural(s.Lost.Requests,
			"request"), view.Count(int(s.Lost.Tokens)), s.Lost.Cost))
	}
	if m := s.Options.MaxCost; m > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s left", max(0, m-used.Cost), m))
	}
	if m := s.Options.MaxTokens; m > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s tokens left", view.Count(int(max(0, m-used.Tokens))), view.Count(int(m))))
	}
	return strings.Join(parts, ", ")
}

// childrenLine is what the child runs of a run used, "" where it had none.
func childrenLine(s run.State) string {
	if len(s.SubAgentIDs) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d spawned", len(s.SubAgentIDs))
	if living := len(s.Living()); living > 0 {
		text += fmt.Sprintf(", %d of them at work", living)
	}
	if b := s.Below(); b.Runs > 0 {
		text += fmt.Sprintf("; %s below used %s", view.Plural(b.Runs, "ended run"), runtree.UseText(b))
	}
	return text + "; inspan tree " + s.HarnessID
}

func checkpoints(s run.State) string {
	if s.LastCheckpointAt == nil {
		return "none yet"
	}
	return fmt.Sprintf("%d, the last %s ago; inspan checkpoints %s lists them", s.CheckpointCount,
		app.Age(*s.LastCheckpointAt), s.HarnessID)
}

func waitLine(s run.State, now time.Time) string {
	if s.Status.Ended() {
		return ""
	}
	return view.Why(s, now)
}

// forkedFrom is where a run was forked, "" where it was not.
func forkedFrom(s run.State) string {
	if s.Created == nil || s.Created.ForkOf == nil {
		return ""
	}
	return fmt.Sprintf("%s after event %d", s.Created.ForkOf.Run, s.Created.ForkOf.Sequence)
}

// retriedAs is the run that goes on with a failed one and where it stands, "" where there is none.
func retriedAs(ctx context.Context, c *client.Client, s run.State) (string, error) {
	next, err := c.State(ctx, client.RetryOf(s.HarnessID))
	switch {
	case errors.Is(err, client.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case next.Created.ForkOf == nil || next.Created.ForkOf.Run != s.HarnessID:
		return "", nil
	}
	return fmt.Sprintf("%s after event %d, %s", next.HarnessID, next.Created.ForkOf.Sequence,
		runtree.StatusOf(run.InfoOf(next))), nil
}
