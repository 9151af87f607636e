// Package runs has the commands that look at runs: runs, inspect, logs, watch, why, cost, checkpoints, branches.
package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// listCommand is inspan runs.
type listCommand struct {
	*app.App
	only, agent string
	selection   client.Of
	limit       int
}

// List makes inspan runs.
func List(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "runs", Aliases: []string{"ls"}, Short: "List the runs of the station, the newest first",
		Example: "  inspan runs\n  inspan runs --status waiting\n  inspan runs --session demo\n  inspan runs --agent fixer --json | jq '.[].harnessId'",
		Args:    app.Args(0),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.only, "status", "", "only runs that are "+strings.Join(runtree.Statuses, ", "))
	selectionFlags(cmd, &c.selection)
	cmd.Flags().StringVar(&c.agent, "agent", "", "only runs of this agent")
	cmd.Flags().IntVar(&c.limit, "limit", 50, "most runs to list")
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	if a.only != "" && !slices.Contains(runtree.Statuses, a.only) {
		return app.Usage("--status %q: want one of %s", a.only, strings.Join(runtree.Statuses, ", "))
	}
	if a.limit < 0 {
		return app.Usage("--limit %d: want 0 or more", a.limit)
	}
	all, err := c.Runs().Find(ctx, a.selection)
	if err != nil {
		return err
	}
	infos := make([]run.Info, 0, len(all))
	for _, i := range all {
		// A run that waits is running too, one that was stopped has failed.
		if runtree.Is(i, a.only) && (a.agent == "" || a.agent == i.AgentName) {
			infos = append(infos, i)
		}
	}
	hidden := max(0, len(infos)-a.limit)
	infos = infos[:len(infos)-hidden]
	if a.JSON {
		return a.PrintJSON(infos)
	}
	listRuns(a.App, infos, hidden)
	return nil
}

func duration(i run.Info) string {
	if i.CompletedAt != nil {
		return view.Since(i.CreatedAt, *i.CompletedAt)
	}
	return app.Age(i.CreatedAt)
}

func listRuns(a *app.App, infos []run.Info, hidden int) {
	if len(infos) == 0 {
		fmt.Fprintln(a.Out, `No runs. Start one with: inspan run AGENT "TASK"`)
		return
	}
	p := a.Paint()
	var rows [][]string
	for _, i := range infos {
		rows = append(rows, []string{i.HarnessID, i.AgentName, p.State(runtree.StatusOf(i)),
			fmt.Sprintf("%d/%d", i.StepsCompleted, i.StepsTotal), fmt.Sprint(i.Turns),
			fmt.Sprint(i.ToolCallCount), view.Count(i.InputTokens + i.OutputTokens), cmp.Or(runtree.CostText(i.Cost+i.Lost.Cost),
				"-"), duration(i), app.Age(i.CreatedAt), p.Dim(view.Clip(i.Task, 60))})
	}
	a.Table([]string{"ID", "AGENT", "STATUS", ">STEPS", ">TURNS", ">CALLS", ">TOKENS", ">COST", ">DURATION", ">AGE",
		"TASK"}, rows)
	if hidden > 0 {
		fmt.Fprintf(a.Out, "%s\n", p.Dim(fmt.Sprintf("and %s; --limit shows more", view.Plural(hidden, "older run"))))
	}
}

// selectionFlags are the flags that say which runs are meant.
func selectionFlags(cmd *cobra.Command, of *client.Of) {
	cmd.Flags().StringVar(&of.Session, "session", "", "runs of this session")
	cmd.Flags().StringVar(&of.WorkflowRun, "workflow-run", "", "runs of this run of a workflow")
}
