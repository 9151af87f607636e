package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func age(t time.Time) string { return view.Since(t, time.Now()) }

func duration(i run.Info) string {
	if i.CompletedAt != nil {
		return view.Since(i.CreatedAt, *i.CompletedAt)
	}
	return age(i.CreatedAt)
}

// The statuses that a list shows: those of a run, and two that say more.
const (
	statusHeld    = "held"
	statusWaiting = "waiting"
)

func statusOf(i run.Info) string {
	switch {
	case i.Held != "":
		return statusHeld
	case len(i.Gates) > 0 && i.Status == events.Running:
		return statusWaiting
	}
	return string(i.Status)
}

var statuses = []string{string(events.Created), string(events.Running), statusWaiting, string(events.Paused), string(events.Completed), string(events.Failed), statusHeld}

func (a *app) runsCmd() *cobra.Command {
	var only, agent string
	var of client.Of
	var limit int
	cmd := &cobra.Command{
		Use: "runs", Aliases: []string{"ls"}, Short: "List the runs of the station, the newest first",
		Example: "  inspan runs\n  inspan runs --status waiting\n  inspan runs --session demo\n  inspan runs --agent fixer --json | jq '.[].harnessId'",
		Args:    args(0),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if only != "" && !slices.Contains(statuses, only) {
				return usage("--status %q: want one of %s", only, strings.Join(statuses, ", "))
			}
			if limit < 0 {
				return usage("--limit %d: want 0 or more", limit)
			}
			all, err := c.Find(ctx, of)
			if err != nil {
				return err
			}
			infos := make([]run.Info, 0, len(all))
			for _, i := range all {
				// A run that waits is running too.
				if (only == "" || only == statusOf(i) || only == string(i.Status)) && (agent == "" || agent == i.AgentName) {
					infos = append(infos, i)
				}
			}
			hidden := max(0, len(infos)-limit)
			infos = infos[:len(infos)-hidden]
			if a.json {
				return a.printJSON(infos)
			}
			a.listRuns(infos, hidden)
			return nil
		}),
	}
	cmd.Flags().StringVar(&only, "status", "", "only runs that are "+strings.Join(statuses, ", "))
	ofFlags(cmd, &of)
	cmd.Flags().StringVar(&agent, "agent", "", "only runs of this agent")
	cmd.Flags().IntVar(&limit, "limit", 50, "most runs to list")
	return cmd
}

func (a *app) listRuns(infos []run.Info, hidden int) {
	if len(infos) == 0 {
		fmt.Fprintln(a.out, `No runs. Start one with: inspan run AGENT "TASK"`)
		return
	}
	p := a.paint()
	var rows [][]string
	for _, i := range infos {
		rows = append(rows, []string{i.HarnessID, i.AgentName, p.state(statusOf(i)), fmt.Sprintf("%d/%d", i.StepsCompleted, i.StepsTotal), fmt.Sprint(i.Turns),
			fmt.Sprint(i.ToolCallCount), view.Count(i.InputTokens + i.OutputTokens), cmp.Or(costText(i.Cost+i.Lost.Cost), "-"), duration(i), age(i.CreatedAt), p.dim(view.Clip(i.Task, 60))})
	}
	a.table([]string{"ID", "AGENT", "STATUS", ">STEPS", ">TURNS", ">CALLS", ">TOKENS", ">COST", ">DURATION", ">AGE", "TASK"}, rows)
	if hidden > 0 {
		fmt.Fprintf(a.out, "%s\n", p.dim(fmt.Sprintf("and %s; --limit shows more", view.Plural(hidden, "older run"))))
	}
}

func noRun(id string) error {
	return &client.NotFoundError{What: "run", ID: id}
}

func (a *app) inspect(s run.State, t *view.Tree, sandboxes map[string]bool, now time.Time) {
	p, i, agent := a.paint(), run.InfoOf(s), s.Agents[s.AgentName]
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
	a.pairs([][2]string{
		{"Run", p.bold(s.HarnessID) + "  " + p.state(statusOf(i))},
		{"Agent", s.AgentName + "  " + p.dim(agent.Model)},
		{"Task", view.Clip(s.Created.Task, 300)},
		{"Steps", fmt.Sprintf("%d of %d, %s (at most %d a step)", i.StepsCompleted, i.StepsTotal, view.Plural(i.Turns, "turn"), s.Options.MaxSteps)},
		{"Tool calls", fmt.Sprintf("%d, %d of %d left", i.ToolCallCount, i.BudgetLeft, s.Options.MaxToolCalls)},
		{"Tokens", fmt.Sprintf("%s in (%s cached), %s out", view.Count(s.Tokens.Input), view.Count(s.Tokens.Cached), view.Count(s.Tokens.Output))},
		{"Cost", budgetLine(s)},
		{"Duration", duration(i) + p.dim(", "+limit+", created "+s.CreatedAt.In(a.zone()).Format("2006-01-02 15:04:05"))},
		{"Forked from", forkedFrom(s)},
		{"Session", s.Identity.Session},
		{"Workspace", s.Created.Workspace},
		{"Git", gitLine(s)},
		{"Sandbox", sandbox},
		{"Autonomy", fmt.Sprint(s.Options.Autonomy)},
		{"Checkpoints", checkpoints(s)},
		{"Log", fmt.Sprintf("%s, durability %s", view.Plural(int(s.Sequence), "fact"), cmp.Or(s.Created.Durability, "unknown"))}, //nolint:gosec // far below the limit
		{"Waits for", waitLine(s, now)},
	})
	fmt.Fprintln(a.out)
	width, _ := a.term.size()
	d := drawing{paint: p, width: width, whole: true, zone: a.zone()}
	for _, l := range d.lines(t, now) {
		fmt.Fprintln(a.out, l)
	}
	if s.Result != nil && s.Result.Output != "" {
		fmt.Fprintf(a.out, "\n%s\n%s\n", p.dim("Output"), harmless(s.Result.Output))
	}
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
	if text := costText(s.Cost); text != "" {
		parts = append(parts, text)
	}
	if s.Lost.Requests > 0 {
		parts = append(parts, fmt.Sprintf("%s nobody knows of: at most %s tokens, %s", view.Plural(s.Lost.Requests, "request"), view.Count(int(s.Lost.Tokens)), s.Lost.Cost))
	}
	if m := s.Options.MaxCost; m > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s left", max(0, m-used.Cost), m))
	}
	if m := s.Options.MaxTokens; m > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s tokens left", view.Count(int(max(0, m-used.Tokens))), view.Count(int(m))))
	}
	return strings.Join(parts, ", ")
}

func checkpoints(s run.State) string {
	if s.LastCheckpointAt == nil {
		return "none yet"
	}
	return fmt.Sprintf("%d, the last %s ago; inspan checkpoints %s lists them", s.CheckpointCount, age(*s.LastCheckpointAt), s.HarnessID)
}

func waitLine(s run.State, now time.Time) string {
	if s.Status.Ended() {
		return ""
	}
	return view.Why(s, now)
}

func (a *app) logsCmd() *cobra.Command {
	var follow bool
	var from uint64
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Show what happened in a run, a line for each fact",
		Example: "  inspan logs run-k3v9x2m1qa --follow\n  inspan logs run-k3v9x2m1qa --from 40 --json",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := c.State(ctx, args[0]); err != nil {
				return err
			}
			items := c.Facts(ctx, args[0], from)
			if follow {
				items = c.Watch(ctx, args[0], from)
			}
			for item, err := range items {
				if ctx.Err() != nil {
					return nil // a person has seen enough
				}
				if err != nil {
					return err
				}
				a.line(item)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as facts come, until the run ends")
	cmd.Flags().Uint64Var(&from, "from", 1, "first fact to show, by its sequence in the run")
	return cmd
}

// line prints one fact, as its JSON or in words. Its very bytes are what inspan export prints.
func (a *app) line(item client.Item) {
	if a.json {
		fmt.Fprintf(a.out, "%s\n", events.Plain(item.Bytes))
		return
	}
	text, p := view.Line(item.Fact, item.Payload, a.zone()), a.paint()
	switch item.Payload.Kind() {
	case events.GateOpened, events.RunPaused:
		text = p.yellow(text)
	case events.RunCompleted:
		text = p.green(text)
	case events.RunFailed, events.StepFailed, events.CallFailed:
		text = p.red(text)
	default:
	}
	fmt.Fprintln(a.out, text)
}

func (a *app) exportCmd() *cobra.Command {
	var format, anchor, bundle string
	var move, fork bool
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Print the whole data of a run",
		Long:    "Prints the facts of a run, byte for byte as they are stored (jsonl: each line's SHA-256 is the prevhash of the next),\nits state and facts as one document (json), or its result with the whole conversation, also what it began with (messages).\nWith --bundle, writes all that another station needs to go on with it; an open run needs --move or --fork with it.",
		Example: "  inspan export run-k3v9x2m1qa > run.jsonl\n  inspan export run-k3v9x2m1qa --anchor run.anchor > run.jsonl\n  inspan export run-k3v9x2m1qa --bundle run.bundle --move\n  inspan export run-k3v9x2m1qa --format json | jq .state.status\n  inspan export run-k3v9x2m1qa --format messages | jq -r '.conversation.messages[].content'",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if format == "messages" && bundle == "" && anchor == "" {
				return a.exportTalk(ctx, c, args[0])
			}
			if format != "jsonl" && format != "json" {
				return usage("--format %q: want jsonl (the facts as stored), json (state and facts) or messages (the conversation), which goes without --bundle and --anchor", format)
			}
			if (move || fork) && bundle == "" || move && fork {
				return usage("--move and --fork go with --bundle FILE, one of them")
			}
			if bundle != "" {
				leave := map[bool]operator.Leave{true: operator.LeaveMoved}[move]
				if fork {
					leave = operator.LeaveForked
				}
				return a.bundle(ctx, c, args[0], bundle, leave)
			}
			facts, s := []json.RawMessage{}, run.State{}
			for item, err := range c.Facts(ctx, args[0], 0) {
				if err != nil {
					return err
				}
				facts, s = append(facts, item.Bytes), item.State
			}
			if len(facts) == 0 {
				return noRun(args[0])
			}
			if anchor != "" {
				if err := exportAnchor(ctx, c, args[0], anchor); err != nil {
					return err
				}
			}
			if format == "json" {
				return a.printJSON(map[string]any{"state": s, "facts": facts})
			}
			for _, f := range facts {
				if _, err := fmt.Fprintf(a.out, "%s\n", f); err != nil {
					return fmt.Errorf("write the export: %w", err)
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&bundle, "bundle", "", "file to write the run with its objects and agents to, for inspan import")
	cmd.Flags().BoolVar(&move, "move", false, "with --bundle: end an open run here, so that it goes on only where it is imported")
	cmd.Flags().BoolVar(&fork, "fork", false, "with --bundle: an open run goes on here too")
	cmd.Flags().StringVar(&anchor, "anchor", "", "file to write the run's signed head to, for inspan audit --anchor")
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl (the facts as stored), json (state and facts) or messages (the result and the whole conversation)")
	return cmd
}

func (a *app) whyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "why RUN", Short: "Say in one line what a run waits for, and for how long",
		Example: "  inspan why run-k3v9x2m1qa\n  inspan why run-k3v9x2m1qa --json | jq '.waits[].on'",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.State(ctx, args[0])
			if err != nil {
				return err
			}
			now := time.Now()
			waits := view.Waits(s, now)
			missing := absent(ctx, c, waits)
			if a.json {
				return a.printJSON(map[string]any{"run": args[0], "status": s.Status, "why": view.Why(s, now), "waits": waits, "roles_absent": missing})
			}
			line := view.Why(s, now)
			for _, role := range missing {
				line += fmt.Sprintf(" | no %s is running: start one, or see inspan doctor", role)
			}
			fmt.Fprintln(a.out, line)
			return nil
		}),
	}
}

// absent lists the roles that a run waits for and of which no instance answers.
func absent(ctx context.Context, c *client.Client, waits []view.Wait) []string {
	missing := []string{}
	h, err := c.Health(ctx)
	if err != nil {
		return missing // who may not ask is told no less than before
	}
	for _, w := range waits {
		isRole := slices.Contains(events.Services(), events.Service(w.On))
		if isRole && h.Services[w.On] == 0 && !slices.Contains(missing, w.On) {
			missing = append(missing, w.On)
		}
	}
	return missing
}
