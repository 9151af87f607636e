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
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// grantsCommand is inspan grants.
type grantsCommand struct {
	App      *app.App
	decision client.Decision
	keyFile  string
}

// Grants makes inspan grants.
func Grants(a *app.App) *cobra.Command {
	c := &grantsCommand{App: a}
	cmd := &cobra.Command{
		Use: "grants", Short: "List what people approved for later calls, too, and take it back",
		Long: `A grant is given at a gate: inspan approve GATE --always run|session, or a at the prompt. It allows what the gate showed,
for calls that the same rule asks about, until its end. What a rule denies stays denied.`,
		Example: "  inspan grants\n  inspan grants --json\n  inspan grants revoke run-k3v9x2m1qa/g-1a2b3c4d5e6f",
		Args:    app.Args(0),
		RunE:    a.Connected(c.list),
	}
	revoke := &cobra.Command{
		Use: "revoke RUN/GATE|GATE", Short: "Take a grant back: from now on the rule asks again",
		Example: "  inspan grants revoke run-k3v9x2m1qa/g-1a2b3c4d5e6f --reason \"...\"", Args: app.Args(1),
		RunE: a.Connected(c.revoke),
	}
	f := revoke.Flags()
	f.StringVar(&c.decision.Reason, "reason", "", "why; recorded with the answer")
	f.StringVar(&c.decision.By, "by", a.Me(), "who takes it back (INSPAN_APPROVER, USER)")
	f.StringVar(&c.keyFile, "sign", a.Lookup("INSPAN_SIGN_KEY", ""),
		"file of the key to sign the answer with; inspan keygen makes one (INSPAN_SIGN_KEY)")
	cmd.AddCommand(revoke)
	return cmd
}

func (a *grantsCommand) list(ctx context.Context, c *client.Client, _ []string) error {
	grants, err := c.Grants().List(ctx)
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"GRANT", "SCOPE", "BY", "ENDS", "RULE", "ALLOWS"}, Empty: "No grant holds.",
		Note: "\n" + a.App.Paint().Dim("Take one back with: inspan grants revoke GRANT")}
	for _, g := range grants {
		where := "run"
		if g.Scope == events.GrantSession {
			where = "session " + g.Session
		}
		name := g.Run + "/" + g.ID
		l.Add(name, g, name, where, view.Clip(g.By, 40), runtree.Expiry(g.Until, time.Now()), view.Clip(g.Rule, 40),
			view.Clip(g.Tool+" "+g.Pattern, 200))
	}
	return a.App.Print(l)
}

func (a *grantsCommand) revoke(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	if a.keyFile != "" {
		key, err := approval.LoadKey(a.keyFile)
		if err != nil {
			return app.Usage("--sign: %w", err)
		}
		a.decision.Sign = &key
	}
	d, err := a.find(ctx, c, args[0])
	if err != nil {
		return err
	}
	if err := c.Grants().Revoke(ctx, d); err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]string{"run_id": d.Run, "grant_id": d.Gate, "status": "revoked"})
	}
	fmt.Fprintf(a.App.Out, "Grant %s/%s is revoked.\n", d.Run, d.Gate)
	return nil
}

// find completes the decision with the grant that RUN/GATE or GATE names.
func (a *grantsCommand) find(ctx context.Context, c *client.Client, arg string) (d client.Decision, err error) {
	d = a.decision
	if runID, id, ok := strings.Cut(arg, "/"); ok {
		d.Gate = id
		d.Run, err = app.ResolveRun(ctx, c, runID)
		return d, err
	}
	all, err := c.Grants().List(ctx)
	if err != nil {
		return d, err
	}
	for _, g := range all {
		if g.ID == arg {
			d.Run, d.Gate = g.Run, g.ID
			return d, nil
		}
	}
	return d, fmt.Errorf("grant %q: %w among those that hold; inspan grants lists them", arg, client.ErrNotFound)
}
