package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) inspectCmd() *cobra.Command {
	var at uint64
	cmd := &cobra.Command{
		Use: "inspect RUN", Short: "Show where a run stands, or stood: plan, turns, calls, gates, cost",
		Long:    "Shows a run as its facts have it. With --at, only the facts up to that one count: what was known then, and what the run\nwaited for. inspan logs RUN shows the facts with their sequences.",
		Example: "  inspan inspect run-k3v9x2m1qa\n  inspan inspect run-k3v9x2m1qa --at 12\n  inspan inspect run-k3v9x2m1qa --json | jq .plan",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			var s run.State
			var t view.Tree
			sandboxes := map[string]bool{}
			now := time.Now()
			for item, err := range c.Facts(ctx, args[0], 0) {
				if err != nil {
					return err
				}
				s = item.State
				t.Apply(item.Fact, item.Payload)
				if d, ok := item.Payload.(*events.CallFinishedData); ok && d.Sandbox != "" {
					sandboxes[d.Sandbox] = true
				}
				if at > 0 && s.Sequence == at {
					now = item.Fact.Time
					break
				}
			}
			switch {
			case s.Sequence == 0:
				return noRun(args[0])
			case s.Sequence < at:
				return beyond(args[0], at, s.Sequence)
			case a.json:
				return a.printJSON(s)
			}
			if at > 0 {
				fmt.Fprintf(a.out, "%s\n\n", a.paint().dim(fmt.Sprintf("As it was after fact %d, %s. Go on from there with: inspan fork %s --at %d", at, now.In(a.zone()).Format("2006-01-02 15:04:05"), args[0], at)))
			}
			a.inspect(s, &t, sandboxes, now)
			return nil
		}),
	}
	cmd.Flags().Uint64Var(&at, "at", 0, "show the run as it was after the fact of this sequence; 0 is the last one")
	return cmd
}

func beyond(runID string, at, last uint64) error {
	return usage("run %s has %s, --at %d is beyond its end; inspan logs %s shows them", runID, view.Plural(int(last), "fact"), at, runID) //nolint:gosec // far below the limit
}

// forkedFrom tells where a run began, "" where it began anew.
func forkedFrom(s run.State) string {
	if s.Created == nil || s.Created.ForkOf == nil {
		return ""
	}
	return fmt.Sprintf("%s after fact %d", s.Created.ForkOf.Run, s.Created.ForkOf.Sequence)
}

func (a *app) forkCmd() *cobra.Command {
	var f client.Fork
	cmd := &cobra.Command{
		Use: "fork RUN --at SEQ", Short: "Start a new run from where a run stood after one of its facts",
		Long: `Starts a new run that begins with the plan, conversation, results and used budget that RUN had after a fact. RUN itself
goes on, or stays ended, as it is. What was under way there is not taken over: a gate stands again, a call that had not
begun is interrupted, and one that had begun has an unknown outcome, which the agent reads. Files are not part of a log:
the fork works in a new, empty directory and its agent is told so, unless --same-workspace lets it work in that of RUN,
with the files as they are now.`,
		Example: "  inspan fork run-k3v9x2m1qa --at 12\n  inspan fork run-k3v9x2m1qa --at 12 --say \"Use the other library.\"\n  inspan fork run-k3v9x2m1qa --say \"Now write the tests.\" --same-workspace --id run-tests",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, a.wait)
			defer cancel()
			old, err := c.State(ctx, args[0])
			if err != nil {
				return err
			}
			if f.Run = args[0]; f.At > old.Sequence {
				return beyond(f.Run, f.At, old.Sequence)
			}
			if f.At == 0 {
				f.At = old.Sequence
			}
			f.By = a.me()
			id, err := c.Fork(ctx, f)
			if err != nil {
				return err
			}
			s, err := c.State(ctx, id)
			if err != nil {
				return err
			}
			where := "a new, empty workspace"
			if f.SameWorkspace {
				where = "the same workspace, " + s.Created.Workspace
			}
			next := "follow it with inspan logs " + id + " --follow"
			if a.alone { // nobody works on it when this program has ended
				next = "inspan up --local lets it go on"
			}
			return a.where(s, fmt.Sprintf("Forked from %s after fact %d, in %s; %s.", f.Run, f.At, where, next))
		}),
	}
	cmd.Flags().Uint64Var(&f.At, "at", 0, "the last fact of RUN that the fork keeps, by its sequence; 0 is the newest")
	cmd.Flags().StringVar(&f.Say, "say", "", "message to the agent that works there, or worked last; it takes its step up again")
	cmd.Flags().StringVar(&f.ID, "id", "", "id of the new run; the same id never starts two")
	cmd.Flags().BoolVar(&f.SameWorkspace, "same-workspace", false, "work in the directory of RUN; do not let both run at the same time")
	return cmd
}
