package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) gatesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "gates", Aliases: []string{"approvals"}, Short: "List the gates that wait for a person, the oldest first",
		Example: "  inspan gates\n  inspan gates --json", Args: args(0),
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
			var rows [][]string
			for _, w := range gates {
				at := w.Gate.StepID
				if w.Gate.CallID != "" {
					at += " " + w.Gate.CallID
				}
				rows = append(rows, []string{w.Run.HarnessID + "/" + w.Gate.ID, w.Run.AgentName, at, age(w.Gate.CreatedAt),
					fmt.Sprintf("%d/%d", w.Run.StepsCompleted, w.Run.StepsTotal), votesOf(w.Gate), expiry(w.Gate.ExpiresAt, time.Now()), view.Clip(w.Gate.Description, 80)})
			}
			a.table([]string{"RUN/GATE", "AGENT", "BEFORE", ">WAITS", ">STEPS", ">VOTES", "EXPIRES", "WHAT"}, rows)
			fmt.Fprintf(a.out, "\n%s\n", a.paint().dim("Answer with: inspan approve GATE   or   inspan reject GATE --reason \"...\""))
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
	var found []string
	for _, w := range gates {
		if w.Gate.ID == arg {
			found = append(found, w.Run.HarnessID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], arg, nil
	case 0:
		return "", "", fmt.Errorf("gate %q: %w among those that wait; inspan gates lists them, RUN/GATE names one of any run", arg, client.ErrNotFound)
	}
	return "", "", usage("gate %q waits in several runs; name it as one of %s", arg, strings.Join(found, "/"+arg+", ")+"/"+arg)
}

func (a *app) answerCmd(word string) *cobra.Command {
	var d client.Decision
	var keyFile string
	var edit editing
	title := map[string]string{"approve": "Approve a gate: what stands behind it goes on", "reject": "Reject a gate: the run is paused with the reason"}[word]
	cmd := &cobra.Command{
		Use: word + " GATE|RUN/GATE", Short: title,
		Example: fmt.Sprintf("  inspan %s g-1a2b3c4d5e6f\n  inspan %s run-k3v9x2m1qa/g-1a2b3c4d5e6f --reason \"...\"\n  inspan %s g-1a2b3c4d5e6f --sign anna.key", word, word, word),
		Args:    args(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if keyFile == "" {
				return nil
			}
			key, err := approval.LoadKey(keyFile)
			if err != nil {
				return usage("--sign: %w", err)
			}
			d.Sign = &key
			if !cmd.Flags().Changed("by") {
				d.By = "" // the key says who answers
			}
			return nil
		},
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, a.wait)
			defer cancel()
			var err error
			if d.Run, d.Gate, err = findGate(ctx, c, args[0]); err != nil {
				return err
			}
			if d.Edit, err = edit.input(ctx, a, c, d.Run, d.Gate); err != nil {
				return err
			}
			answer := c.Approve
			if word == "reject" {
				answer = c.Reject
			}
			s, err := answer(ctx, d)
			if err != nil {
				return err
			}
			g := s.Gate(d.Gate)
			if g.Status == run.GatePending {
				return a.where(s, fmt.Sprintf("Gate %s has %d of %d approvals and waits for more people.", g.ID, g.VotesFor(g.Votes[len(g.Votes)-1].Action), g.Approvers))
			}
			return a.where(s, fmt.Sprintf("Gate %s is %s by %s, after %s.", g.ID, g.Status, view.Clip(g.By, 80), view.Since(g.CreatedAt, *g.ResolvedAt)))
		}),
	}
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why; recorded with the answer")
	cmd.Flags().StringVar(&d.By, "by", a.me(), "who answers; part of the subject, which permissions can bind to a user (INSPAN_APPROVER, USER)")
	cmd.Flags().StringVar(&keyFile, "sign", a.set("INSPAN_SIGN_KEY", ""), "file of the key to sign the answer with; inspan keygen makes one (INSPAN_SIGN_KEY)")
	if word == "approve" {
		edit.flags(cmd)
	}
	cmd.Flags().StringVar(&d.Hash, "hash", "", "proposal_hash you saw; the answer is refused if another proposal waits")
	return cmd
}

// where prints what was done, and where the run stands now.
func (a *app) where(s run.State, done string) error {
	i := run.InfoOf(s)
	if a.json {
		return a.printJSON(i)
	}
	fmt.Fprintf(a.out, "%s Run %s is %s.\n", done, s.HarnessID, a.paint().state(statusOf(i)))
	if view.Replannable(s) {
		fmt.Fprintf(a.out, "%s\n", a.paint().dim(fmt.Sprintf("Go on as planned: inspan resume %s   or replace what has not begun: inspan revise %s --plan FILE --resume", s.HarnessID, s.HarnessID)))
	}
	return nil
}

func (a *app) controlCmd(action string) *cobra.Command {
	var reason, by string
	title := map[string]string{"pause": "Pause a run: nothing new is permitted until it resumes", "resume": "Let a paused run go on",
		"stop": "Stop a run for good, and the work it has under way"}[action]
	cmd := &cobra.Command{
		Use: action + " RUN", Short: title, Example: fmt.Sprintf("  inspan %s run-k3v9x2m1qa", action), Args: args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.control(ctx, c, args[0], events.Control{Action: action, By: by, Reason: reason})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; recorded in the run")
	cmd.Flags().StringVar(&by, "by", a.me(), "who asks; recorded in the run (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *app) control(ctx context.Context, c *client.Client, runID string, ctl events.Control) error {
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	s, err := c.Control(ctx, runID, ctl)
	if err != nil {
		return err
	}
	done := map[string]string{"pause": "Paused.", "resume": "Resumed.", "stop": "Stopped."}[ctl.Action]
	if ctl.Action == "autonomy" {
		done = fmt.Sprintf("Autonomy is %d for steps not yet started.", s.Options.Autonomy)
	}
	return a.where(s, done)
}

func (a *app) autonomyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "autonomy RUN LEVEL", Short: "Change the autonomy level for steps not yet started",
		Long:    "Levels 1 and 2 ask a person before every step, 3 before critical ones, 4 and 5 never.",
		Example: "  inspan autonomy run-k3v9x2m1qa 4", Args: args(2),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			level, err := strconv.Atoi(args[1])
			if err != nil || level < 1 || level > 5 {
				return usage("level %q: want 1 to 5", args[1])
			}
			return a.control(ctx, c, args[0], events.Control{Action: "autonomy", Level: level, By: a.me()})
		}),
	}
}
