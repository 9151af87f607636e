package workitems

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// recordCommand is inspan work record.
type recordCommand struct {
	App  *app.App
	step string
}

func recordCmd(a *app.App) *cobra.Command {
	c := &recordCommand{App: a}
	cmd := &cobra.Command{Use: "record RUN",
		Short: "Show whose work the steps of a run are: item, workflow, orchestrator, agent, branch",
		Long: `Shows a record for each step of a run: the work item, the run of the workflow and of the orchestrator that it belongs to, the agent
that does it, and the branch. It follows from the events of the run. A step has an item of its own where its formula tracks steps; else it is
the item of the run, or the run itself.`,
		Example: "  inspan work record run-k3v9x2m1qa\n  inspan work record run-k3v9x2m1qa --step build\n" +
			"  inspan work record run-k3v9x2m1qa --json | jq -r '.[].context.git_branch'",
		Args: app.Args(1), RunE: a.Connected(c.run)}
	cmd.Flags().StringVar(&c.step, "step", "", "only the record of this step")
	return cmd
}

func (a *recordCommand) run(ctx context.Context, c *client.Client, args []string) error {
	s, err := c.State(ctx, args[0])
	if err != nil {
		return err
	}
	if s.Sequence == 0 {
		return app.NoRun(args[0])
	}
	items, err := client.NewWorkItems(c).List(ctx)
	if err != nil {
		return err
	}
	of := map[string]string{}
	for _, w := range items {
		if w.Step != nil && w.Step.Run == args[0] {
			of[w.Step.Step] = w.ID
		}
	}
	records := []run.WorkRecord{}
	var steps []string
	for _, r := range run.WorkRecords(s, of) {
		steps = append(steps, r.StepID)
		if a.step == "" || r.StepID == a.step {
			records = append(records, r)
		}
	}
	switch {
	case a.step != "" && len(records) == 0:
		return app.Usage("run %s has no step %.80q: it has %s", args[0], a.step, strings.Join(steps, ", "))
	case a.App.JSON:
		return a.App.PrintJSON(records)
	}
	for i, r := range records {
		if i > 0 {
			fmt.Fprintln(a.App.Out)
		}
		fmt.Fprintf(a.App.Out, "%s  %s\n", a.App.Paint().Bold(view.Clip(r.WorkID, 80)), view.Clip(r.Status, 40))
		a.App.Pairs([][2]string{{"workflow run", r.WorkflowRunID}, {"step", r.StepID}, {"agent", r.AgentID},
			{"definition", r.AgentName}, {"orchestrator", r.OrchestratorRunID},
			{"branch", r.Context[run.WorkContextBranch]}, {"task", view.Clip(strings.Join(strings.Fields(r.Task), " "), 200)}})
	}
	return nil
}
