package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) inspectCmd() *cobra.Command {
	var point string
	cmd := &cobra.Command{
		Use: "inspect RUN", Short: "Show where a run stands, or stood: plan, turns, calls, gates, cost",
		Long:    "Shows a run as its facts have it. With --at, only the facts up to that one count: what was known then, and what the run\nwaited for. inspan logs RUN shows the facts with their sequences, inspan checkpoints RUN the checkpoints.",
		Example: "  inspan inspect run-k3v9x2m1qa\n  inspan inspect run-k3v9x2m1qa --at 12\n  inspan inspect run-k3v9x2m1qa --at step-build\n  inspan inspect run-k3v9x2m1qa --json | jq .plan",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			at, err := a.point(ctx, c, args[0], point)
			if err != nil {
				return err
			}
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
	cmd.Flags().StringVar(&point, "at", "", "show the run as it was after the fact of this sequence, or at this checkpoint; 0 is the last fact")
	return cmd
}

// point reads --at: the sequence of a fact, or the name of a checkpoint of the run.
func (a *app) point(ctx context.Context, c *client.Client, runID, at string) (uint64, error) {
	if at == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(at, 10, 64); err == nil {
		return n, nil
	}
	all, err := c.Checkpoints(ctx, runID)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		if k.Name == at {
			return k.Sequence, nil
		}
	}
	return 0, usage("run %s has no checkpoint %q, and a fact is named by its number; inspan checkpoints %s lists its checkpoints", runID, at, runID)
}

func (a *app) checkpointsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints RUN", Short: "List the checkpoints of a run: one for each step that ended",
		Long: `Lists the checkpoints of a run. The event with which a step ends is a checkpoint: the log holds the whole state after it.
To look at one: inspan inspect RUN --at NAME. To go on from one: inspan fork RUN --at NAME. A run on the direct path has
none, and neither has one without durable persistence.`,
		Example: "  inspan checkpoints run-k3v9x2m1qa\n  inspan checkpoints run-k3v9x2m1qa --json | jq -r '.[].name'",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, argv []string) error {
			all, err := c.Checkpoints(ctx, argv[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(all)
			}
			if len(all) == 0 {
				fmt.Fprintln(a.out, "The run has no checkpoints.")
				return nil
			}
			var rows [][]string
			for _, k := range all {
				rows = append(rows, []string{fmt.Sprint(k.Number), view.Clip(k.Name, 80), fmt.Sprint(k.Sequence), age(k.At)})
			}
			a.table([]string{">NUMBER", "NAME", ">FACT", ">AGE"}, rows)
			return nil
		}),
	}
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
	var point string
	cmd := &cobra.Command{
		Use: "fork RUN --at SEQ|CHECKPOINT", Short: "Start a new run from where a run stood after one of its facts, or at a checkpoint",
		Long: `Starts a new run that begins with the plan, conversation, results and used budget that RUN had after a fact. RUN itself
goes on, or stays ended, as it is. What was under way there is not taken over: a gate stands again, a call that had not
begun is interrupted, and one that had begun has an unknown outcome, which the agent reads. Files are not part of a log:
the fork works in a new, empty directory and its agent is told so, unless --same-workspace lets it work in that of RUN,
with the files as they are now.`,
		Example: "  inspan fork run-k3v9x2m1qa --at 12\n  inspan fork run-k3v9x2m1qa --at step-build\n  inspan fork run-k3v9x2m1qa --at 12 --say \"Use the other library.\"\n  inspan fork run-k3v9x2m1qa --say \"Now write the tests.\" --same-workspace --id run-tests",
		Args:    args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, a.wait)
			defer cancel()
			old, err := c.State(ctx, args[0])
			if err != nil {
				return err
			}
			if f.At, err = a.point(ctx, c, args[0], point); err != nil {
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
	cmd.Flags().StringVar(&point, "at", "", "the last fact of RUN that the fork keeps, by its sequence or as a checkpoint; 0 is the newest")
	cmd.Flags().StringVar(&f.Say, "say", "", "message to the agent that works there, or worked last; it takes its step up again")
	cmd.Flags().StringVar(&f.ID, "id", "", "id of the new run; the same id never starts two")
	cmd.Flags().BoolVar(&f.SameWorkspace, "same-workspace", false, "work in the directory of RUN; do not let both run at the same time")
	return cmd
}
