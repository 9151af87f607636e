package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) gatesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "gates", Short: "List the gates that wait for a person, the oldest first",
		Example: "  inspan gates\n  inspan gates --json",
		Args:    cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			gates, err := c.Gates(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(gates)
			}
			if len(gates) == 0 {
				fmt.Fprintln(a.out, "No gate waits.")
				return nil
			}
			a.table("GATE\tRUN\tSTEP\tWAITS\tPROGRESS\tWHAT", func(add func(...any)) {
				for _, w := range gates {
					add(w.Gate.ID, w.Run.HarnessID, w.Gate.StepID, age(w.Gate.CreatedAt), fmt.Sprintf("%d/%d steps", w.Run.StepsCompleted, w.Run.StepsTotal), view.Clip(w.Gate.Description, 60))
				}
			})
			return nil
		}),
	}
}

// findGate takes GATE or RUN/GATE apart; a bare gate is looked up in the index.
func findGate(ctx context.Context, c *client.Client, arg string) (runID, gate string, err error) {
	if r, g, ok := strings.Cut(arg, "/"); ok {
		return r, g, nil
	}
	gates, err := c.Gates(ctx)
	if err != nil {
		return "", "", err
	}
	for _, w := range gates {
		if w.Gate.ID == arg {
			return w.Run.HarnessID, arg, nil
		}
	}
	return "", "", fmt.Errorf("gate %q does not wait for an answer (%w); inspan gates lists those that do, RUN/GATE names one of any run", arg, client.ErrNotFound)
}

func (a *app) answerCmd(decision string) *cobra.Command {
	var reason, by, hash string
	title := map[string]string{"approve": "Approve a gate: the run goes on", "reject": "Reject a gate: the run is paused with the reason"}[decision]
	cmd := &cobra.Command{
		Use: decision + " GATE|RUN/GATE", Short: title,
		Example: fmt.Sprintf("  inspan gates\n  inspan %s g-1a2b3c4d5e6f\n  inspan %s run-abc/g-1a2b3c4d5e6f --reason \"seen and tested\"", decision, decision),
		Args:    cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, a.wait)
			defer cancel()
			runID, gate, err := findGate(ctx, c, args[0])
			if err != nil {
				return err
			}
			s, err := c.Answer(ctx, runID, gate, by, events.Answer{Decision: decision, Reason: reason, ProposalHash: hash})
			if err != nil {
				return err
			}
			return a.where(s)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; recorded with the answer")
	cmd.Flags().StringVar(&by, "by", env("", "INSPAN_APPROVER", "USER"), "who answers; part of the subject, which permissions can bind to a user")
	cmd.Flags().StringVar(&hash, "hash", "", "proposal_hash you saw; the answer is refused if another proposal waits")
	return cmd
}

// where prints where a run stands now.
func (a *app) where(s run.State) error {
	if a.json {
		return a.printJSON(run.InfoOf(s))
	}
	fmt.Fprintf(a.out, "Run %s is %s.\n", s.HarnessID, status(run.InfoOf(s)))
	return nil
}

func (a *app) controlCmd(action string) *cobra.Command {
	var reason, by string
	title := map[string]string{"pause": "Pause a run: nothing new is permitted until it resumes", "resume": "Let a paused run go on",
		"stop": "Stop a run for good, and the work it has under way"}[action]
	cmd := &cobra.Command{
		Use: action + " RUN", Short: title, Example: fmt.Sprintf("  inspan %s run-abc --reason \"looking at it\"", action),
		Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.control(ctx, c, args[0], events.Control{Action: action, By: by, Reason: reason})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; recorded in the run")
	cmd.Flags().StringVar(&by, "by", env("", "INSPAN_APPROVER", "USER"), "who asks; recorded in the run")
	return cmd
}

func (a *app) control(ctx context.Context, c *client.Client, runID string, ctl events.Control) error {
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	s, err := c.Control(ctx, runID, ctl)
	if err != nil {
		return err
	}
	return a.where(s)
}

func (a *app) autonomyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "autonomy RUN LEVEL", Short: "Change the autonomy level for steps not yet started",
		Long:    "1 and 2 ask a person before every step, 3 before critical ones, 4 and 5 never.",
		Example: "  inspan autonomy run-abc 4", Args: cobra.ExactArgs(2),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			level, err := strconv.Atoi(args[1])
			if err != nil || level < 1 || level > 5 {
				return &exit{exitUsage, fmt.Errorf("level %q: want 1 to 5", args[1])}
			}
			return a.control(ctx, c, args[0], events.Control{Action: "autonomy", Level: level, By: env("", "INSPAN_APPROVER", "USER")})
		}),
	}
}
