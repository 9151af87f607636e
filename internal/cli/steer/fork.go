package steer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runs"
	"github.com/inspan/inspan/pkg/client"
)

// forkCommand is inspan fork.
type forkCommand struct {
	App   *app.App
	flags client.Fork
	point string
}

// Fork makes inspan fork.
func Fork(a *app.App) *cobra.Command {
	c := &forkCommand{App: a}
	cmd := &cobra.Command{
		Use:   "fork RUN --at SEQ|CHECKPOINT",
		Short: "Start a new run from where a run stood after one of its events, or at a checkpoint",
		Long: `Starts a new run that begins with the plan, conversation, results and used budget that RUN had after an event. RUN itself
goes on, or stays ended, as it is. What was under way there is not taken over: a gate stands again, a call that had not
begun is interrupted, and one that had begun has an unknown outcome, which the agent reads. Files are not part of a log:
the fork works in a new, empty directory, which its agent reads, unless --same-workspace lets it work in that of RUN,
with the files as they are now.`,
		Example: "  inspan fork run-k3v9x2m1qa --at 12\n  inspan fork run-k3v9x2m1qa --at step-build\n  inspan fork run-k3v9x2m1qa --at 12 --say \"Use the other library.\"\n  inspan fork run-k3v9x2m1qa --say \"Now write the tests.\" --same-workspace --id run-tests",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.point, "at", "",
		"the last event of RUN that the fork keeps, by its sequence or as a checkpoint; 0 is the newest")
	cmd.Flags().StringVar(&c.flags.Say, "say", "",
		"message to the agent that works there, or worked last; it takes its step up again")
	cmd.Flags().StringVar(&c.flags.ID, "id", "", "id of the new run; the same id never starts two")
	cmd.Flags().BoolVar(&c.flags.SameWorkspace, "same-workspace", false,
		"work in the directory of RUN; do not let both run at the same time")
	return cmd
}

func (a *forkCommand) run(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	old, err := c.State(ctx, args[0])
	if err != nil {
		return err
	}
	if a.flags.At, err = runs.Sequence(ctx, a.App, c, args[0], a.point); err != nil {
		return err
	}
	if a.flags.Run = args[0]; a.flags.At > old.Sequence {
		return runs.NoSuchSequence(a.flags.Run, a.flags.At, old.Sequence)
	}
	if a.flags.At == 0 {
		a.flags.At = old.Sequence
	}
	a.flags.By = a.App.Me()
	id, err := c.Fork(ctx, a.flags)
	if err != nil {
		return err
	}
	s, err := c.State(ctx, id)
	if err != nil {
		return err
	}
	where := "a new, empty workspace"
	if a.flags.SameWorkspace {
		where = "the same workspace, " + s.Created.Workspace
	}
	next := "follow it with inspan logs " + id + " --follow"
	if a.App.Local { // no service works on it when this program has ended
		next = "inspan up --local lets it go on"
	}
	return printRun(a.App, s, fmt.Sprintf("Forked from %s after event %d, in %s; %s.", a.flags.Run, a.flags.At, where,
		next))
}
