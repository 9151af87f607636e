package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// table prints aligned columns.
func (a *app) table(head string, rows func(add func(cells ...any))) {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		text := make([]string, len(cells))
		for i, c := range cells {
			text[i] = fmt.Sprint(c)
		}
		fmt.Fprintln(w, strings.Join(text, "\t"))
	})
	_ = w.Flush() // the writer's own error shows elsewhere
}

func age(t time.Time) string { return view.Span(max(0, time.Since(t))) }

func duration(i run.Info) string {
	if i.CompletedAt != nil {
		return view.Span(i.CompletedAt.Sub(i.CreatedAt))
	}
	return age(i.CreatedAt)
}

func status(i run.Info) string {
	if i.Held != "" {
		return "held"
	}
	if len(i.Gates) > 0 && i.Status == events.Running {
		return "waiting"
	}
	return string(i.Status)
}

func (a *app) runsCmd() *cobra.Command {
	var only string
	var limit int
	cmd := &cobra.Command{
		Use: "runs", Aliases: []string{"ls"}, Short: "List the runs of the station, the newest first",
		Example: "  inspan runs\n  inspan runs --status running --json",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 0 {
				return &exit{exitUsage, fmt.Errorf("--limit %d: want 0 or more", limit)}
			}
			all, err := c.Runs(ctx)
			if err != nil {
				return err
			}
			infos := make([]run.Info, 0, len(all))
			for _, i := range all {
				if only == "" || only == status(i) || only == string(i.Status) {
					infos = append(infos, i)
				}
			}
			infos = infos[:min(len(infos), limit)]
			if a.json {
				return a.printJSON(infos)
			}
			if len(infos) == 0 {
				fmt.Fprintln(a.out, `No runs. Start one with: inspan run AGENT "TASK"`)
				return nil
			}
			a.table("ID\tAGENT\tSTATUS\tSTEPS\tTURNS\tCALLS\tTOKENS\tDURATION\tTASK", func(add func(...any)) {
				for _, i := range infos {
					add(i.HarnessID, i.AgentName, status(i), fmt.Sprintf("%d/%d", i.StepsCompleted, i.StepsTotal), i.Turns, i.ToolCallCount,
						i.InputTokens+i.OutputTokens, duration(i), view.Clip(i.Task, 40))
				}
			})
			return nil
		}),
	}
	cmd.Flags().StringVar(&only, "status", "", "only runs that are created, running, waiting, paused, completed or failed")
	cmd.Flags().IntVar(&limit, "limit", 50, "most runs to list")
	return cmd
}

func (a *app) inspectCmd() *cobra.Command {
	return &cobra.Command{
		Use: "inspect RUN", Short: "Show where a run stands: plan, turns, calls, gates, cost",
		Example: "  inspan inspect run-abc\n  inspan inspect run-abc --json | jq .plan",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.State(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			a.inspect(s)
			return nil
		}),
	}
}

func (a *app) inspect(s run.State) {
	p := a.paint()
	i := run.InfoOf(s)
	sandbox := "-"
	fmt.Fprintf(a.out, "Run        %s (%s)\nAgent      %s, model %s\nTask       %s\n", p.bold(s.HarnessID), status(i), s.AgentName, s.Agents[s.AgentName].Model, view.Clip(i.Task, 200))
	fmt.Fprintf(a.out, "Steps      %d of %d\nTurns      %d, at most %d a step\nTokens     %d in, %d out\nTool calls %d, %d left\nDuration   %s\nWorkspace  %s\n",
		i.StepsCompleted, i.StepsTotal, i.Turns, s.Options.MaxSteps, i.InputTokens, i.OutputTokens, i.ToolCallCount, i.BudgetLeft, duration(i), s.Created.Workspace)
	if s.Identity.Session != "" {
		fmt.Fprintf(a.out, "Session    %s\n", s.Identity.Session)
	}
	if m := s.Agents[s.AgentName].Sandbox.Mode; m != "" {
		sandbox = m
	}
	fmt.Fprintf(a.out, "Sandbox    %s\nAutonomy   %d\nDurability %s\nWhy        %s\n\n", sandbox, s.Options.Autonomy, s.Created.Durability, view.Why(s, time.Now()))
	t := tree{paint: p, width: 120, whole: true}
	for _, l := range t.lines(s, time.Now()) {
		fmt.Fprintln(a.out, l)
	}
}

func (a *app) logsCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Show what happened in a run, a line for each fact",
		Example: "  inspan logs run-abc --follow\n  inspan logs run-abc --json",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			items := c.Facts(ctx, args[0])
			if follow {
				items = c.Watch(ctx, args[0])
			}
			n := 0
			for item, err := range items {
				if err != nil {
					return stopped(ctx, err)
				}
				n++
				a.line(item)
			}
			if n == 0 {
				return fmt.Errorf("run %q: %w", args[0], client.ErrNotFound)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as facts come, until the run ends")
	return cmd
}

// line prints one fact, as it is stored or in words.
func (a *app) line(item client.Item) {
	if a.json {
		fmt.Fprintf(a.out, "%s\n", item.Bytes)
		return
	}
	fmt.Fprintln(a.out, view.Line(item.Fact, item.Payload))
}

// stopped is no error where a person ended the command.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) exportCmd() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Print the whole data of a run",
		Example: "  inspan export run-abc --format jsonl > run.jsonl\n  inspan export run-abc --format json | jq .state.status",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			var facts []json.RawMessage
			var s run.State
			for item, err := range c.Facts(ctx, args[0]) {
				if err != nil {
					return err
				}
				facts, s = append(facts, item.Bytes), item.State
			}
			if len(facts) == 0 {
				return fmt.Errorf("run %q: %w", args[0], client.ErrNotFound)
			}
			switch format {
			case "jsonl":
				for _, f := range facts {
					fmt.Fprintf(a.out, "%s\n", f)
				}
				return nil
			case "json":
				return a.printJSON(map[string]any{"state": s, "facts": facts})
			}
			return &exit{exitUsage, fmt.Errorf("--format %q: want jsonl (the facts as stored) or json (state and facts)", format)}
		}),
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl (the facts as stored) or json (state and facts)")
	return cmd
}

func (a *app) whyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "why RUN", Short: "Say in one line what a run waits for",
		Example: "  inspan why run-abc",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.State(ctx, args[0])
			if err != nil {
				return err
			}
			why := view.Why(s, time.Now())
			if a.json {
				return a.printJSON(map[string]string{"run": args[0], "status": string(s.Status), "why": why})
			}
			fmt.Fprintln(a.out, why)
			return nil
		}),
	}
}

func (a *app) agentsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "agents", Short: "List the agents registered on the station",
		Example: "  inspan agents",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			agents, err := c.Agents(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(agents)
			}
			a.table("NAME\tMODEL\tTOOLS\tDESCRIPTION", func(add func(...any)) {
				for _, g := range agents {
					add(g.Name, g.Model, strings.Join(g.Tools, ","), view.Clip(g.Description, 60))
				}
			})
			return nil
		}),
	}
}

func (a *app) deadCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "dead", Short: "Look at input that the station refused", Example: "  inspan dead list\n  inspan dead show 3",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List refused input, the oldest first", Example: "  inspan dead list --json", Args: cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			letters, err := c.Dead(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(letters)
			}
			a.table("NO\tAGE\tBY\tCODE\tSUBJECT\tREASON", func(add func(...any)) {
				for _, l := range letters {
					add(l.Seq, age(l.Letter.Time), l.By, l.Letter.Code, l.Letter.Subject, view.Clip(l.Letter.Reason, 80))
				}
			})
			return nil
		}),
	}, &cobra.Command{
		Use: "show NO", Short: "Show one refused message whole", Example: "  inspan dead show 3", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			letters, err := c.Dead(ctx)
			if err != nil {
				return err
			}
			for _, l := range letters {
				if fmt.Sprint(l.Seq) == args[0] {
					return a.printJSON(l)
				}
			}
			return fmt.Errorf("dead letter %s: %w", args[0], client.ErrNotFound)
		}),
	})
	return cmd
}
