package steer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// answerCommand is inspan approve and inspan reject.
type answerCommand struct {
	App      *app.App
	word     string
	decision client.Decision
	keyFile  string
	edit     editing
	always   string
}

// Answer makes inspan approve and inspan reject.
func Answer(a *app.App, word string) *cobra.Command {
	c := &answerCommand{App: a, word: word}
	title := map[string]string{"approve": "Approve a gate: what stands behind it goes on",
		"reject": "Reject a gate: the run is paused with the reason"}[c.word]
	cmd := &cobra.Command{
		Use: c.word + " GATE|RUN[/GATE]", Short: title,
		Example: fmt.Sprintf("  inspan %s last\n  inspan %s g-1a2b3c4d5e6f\n  inspan %s run-k3v9x2m1qa/g-1a2b3c4d5e6f --reason \"...\"\n  inspan %s g-1a2b3c4d5e6f --sign anna.key", c.word, c.word, c.word, c.word),
		Args:    app.Args(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if c.keyFile == "" {
				return nil
			}
			key, err := approval.LoadKey(c.keyFile)
			if err != nil {
				return app.Usage("--sign: %w", err)
			}
			c.decision.Sign = &key
			if !cmd.Flags().Changed("by") {
				c.decision.By = "" // the key says who answers
			}
			return nil
		},
		RunE: a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.decision.Reason, "reason", "", "why; recorded with the answer")
	cmd.Flags().StringVar(&c.decision.DeputyFor, "deputy-for", "",
		"who is away and named you as deputy (inspan away): your answer counts as theirs; your own name is --by")
	cmd.Flags().StringVar(&c.decision.By, "by", a.Me(),
		"who answers; part of the subject, which permissions can bind to a user (INSPAN_APPROVER, USER)")
	cmd.Flags().StringVar(&c.keyFile, "sign", a.Lookup("INSPAN_SIGN_KEY", ""),
		"file of the key to sign the answer with; inspan keygen makes one (INSPAN_SIGN_KEY)")
	if c.word == "approve" {
		c.edit.flags(cmd)
		cmd.Flags().StringVar(&c.always, "always", "",
			"approve later calls, too, that are like this one: of the run or of its session")
		cmd.Flags().StringVar(&c.decision.Pattern, "pattern", "",
			`with --always: commands that begin so, such as "go test *"; the very action if not given`)
		cmd.Flags().DurationVar(&c.decision.For, "for", 0, "with --always: how long at most; 24h if not given")
		cmd.Example += "\n  inspan approve g-1a2b3c4d5e6f --always session --for 8h"
	}
	cmd.Flags().StringVar(&c.decision.Hash, "hash", "",
		"proposal_hash you saw; the answer is refused if another proposal waits")
	return cmd
}

func (a *answerCommand) run(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	var err error
	if a.decision.Run, a.decision.Gate, err = findGate(ctx, c, args[0]); err != nil {
		return err
	}
	if a.decision.Edit, err = a.edit.input(ctx, a.App, c, a.decision.Run, a.decision.Gate); err != nil {
		return err
	}
	a.decision.Always = events.GrantScope(a.always)
	if a.always == "" && (a.decision.Pattern != "" || a.decision.For != 0) {
		return app.Usage("--pattern and --for go with --always")
	}
	answer := c.Gates().Approve
	if a.word == "reject" {
		answer = c.Gates().Reject
	}
	s, err := answer(ctx, a.decision)
	if err != nil {
		return err
	}
	g := s.Gate(a.decision.Gate)
	if g.Status == run.GatePending {
		return printRun(a.App, s, fmt.Sprintf("Gate %s has %d of %d approvals and waits for more people.", g.ID,
			g.VotesFor(g.Votes[len(g.Votes)-1].Action), g.Approvers))
	}
	if d := g.Grant; d != nil && a.decision.Always != "" && !a.App.JSON {
		fmt.Fprintf(a.App.Out, "From now on allowed in the %s, until %s: %s %s\n%s\n", d.Scope,
			d.Until.In(a.App.Zone()).Format("2006-01-02 15:04"), view.Clip(d.Tool, 60), view.Clip(d.Pattern, events.MaxPattern),
			a.App.Paint().Dim("Take it back: inspan grants revoke "+d.Run+"/"+d.ID))
	}
	return printRun(a.App, s, fmt.Sprintf("Gate %s is %s by %s, after %s.", g.ID, g.Status, view.Clip(g.By, 80),
		view.Since(g.CreatedAt, *g.ResolvedAt)))
}
