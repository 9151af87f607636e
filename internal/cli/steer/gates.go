// Package steer has the commands that decide and steer: gates, approve, reject, pause, resume, stop, autonomy, revise,
// fork.
package steer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// gatesCommand is inspan gates.
type gatesCommand struct {
	*app.App
}

// Gates makes inspan gates.
func Gates(a *app.App) *cobra.Command {
	c := &gatesCommand{App: a}
	return &cobra.Command{
		Use: "gates", Aliases: []string{"approvals"}, Short: "List the gates that wait for a person, the oldest first",
		Example: "  inspan gates\n  inspan gates --json", Args: app.Args(0),
		RunE: a.Connected(c.run),
	}
}

func (a *gatesCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	gates, err := c.Gates().List(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(gates)
	}
	if len(gates) == 0 {
		fmt.Fprintln(a.Out, "No gate waits.")
		return nil
	}
	var rows [][]string
	for _, w := range gates {
		at := w.Gate.StepID
		if w.Gate.CallID != "" {
			at += " " + w.Gate.CallID
		}
		rows = append(rows, []string{w.Run.HarnessID + "/" + w.Gate.ID, w.Run.AgentName, at, app.Age(w.Gate.CreatedAt),
			fmt.Sprintf("%d/%d", w.Run.StepsCompleted, w.Run.StepsTotal), votesOf(w.Gate), runtree.Expiry(w.Gate.ExpiresAt,
				time.Now()), view.Clip(w.Gate.Description, 80)})
	}
	a.Table([]string{"RUN/GATE", "AGENT", "BEFORE", ">WAITS", ">STEPS", ">VOTES", "EXPIRES", "WHAT"}, rows)
	fmt.Fprintf(a.Out, "\n%s\n", a.Paint().Dim("Answer with: inspan approve GATE   or   inspan reject GATE --reason \"...\""))
	return nil
}

// votesOf is how many approvals a gate has of those that it needs.
func votesOf(g *run.Gate) string {
	if g.Approvers < 2 {
		return "0/1"
	}
	most := 0
	for _, v := range g.Votes {
		most = max(most, g.VotesFor(v.Action))
	}
	return fmt.Sprintf("%d/%d", most, g.Approvers)
}

// findGate finds the gate that GATE, RUN/GATE or RUN names; a RUN alone must have one gate that waits.
func findGate(ctx context.Context, c *client.Client, arg string) (runID, gate string, err error) {
	if r, g, ok := strings.Cut(arg, "/"); ok {
		r, err = app.ResolveRun(ctx, c, r)
		return r, g, err
	}
	gates, err := c.Gates().List(ctx)
	if err != nil {
		return "", "", err
	}
	named, err := app.ResolveRun(ctx, c, arg)
	if err != nil {
		return "", "", err
	}
	var byGate, byRun []string
	waiting := ""
	for _, w := range gates {
		if w.Gate.ID == arg {
			byGate = append(byGate, w.Run.HarnessID)
		}
	}
	if s, err := c.State(ctx, named); err == nil { // the log has a gate before the index has it
		for _, g := range s.Gates {
			if g.Status == run.GatePending {
				waiting, byRun = g.ID, append(byRun, fmt.Sprintf("  %s/%s  %s", named, g.ID, view.Clip(g.Description, 100)))
			}
		}
	}
	switch {
	case len(byGate) == 1:
		return byGate[0], arg, nil
	case len(byGate) > 1:
		return "", "", app.Usage("gate %q waits in several runs; name it as one of %s", arg,
			strings.Join(byGate, "/"+arg+", ")+"/"+arg)
	case len(byRun) == 1:
		return named, waiting, nil
	case len(byRun) > 1:
		return "", "", app.Usage("run %s has %d gates that wait; name one of them:\n%s", named, len(byRun),
			strings.Join(byRun, "\n"))
	}
	return "", "", fmt.Errorf("gate %q: %w among those that wait; inspan gates lists them, RUN/GATE names one of any run",
		arg, client.ErrNotFound)
}
