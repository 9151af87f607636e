// Package away has inspan away: who answers gates in the place of somebody who is away.
package away

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

type command struct {
	App                   *app.App
	by, to, until, reason string
	end                   bool
}

// Command makes inspan away.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "away", Short: "Name who answers gates in your place while you are away, or list who does",
		Long: `Names a deputy: until the time given, their answer to a gate counts as yours where they say so (inspan approve --deputy-for). Who
gave it stands in the log. You need a name of your own at the station: a key (inspan user add) or a token of its identity provider.
A deputy cannot pass that on, counts once with you, and cannot approve what either of you asked for where a gate needs several
approvers. Without flags it lists who answers for whom.`,
		Example: "  inspan away --to bob --until 2026-12-24T08:00:00Z --reason holidays\n  inspan away --to bob --until 72h\n  inspan away --end\n  inspan away\n  inspan approve GATE --by bob --deputy-for ann",
		Args:    app.Args(0), RunE: a.Connected(c.run),
	}
	f := cmd.Flags()
	f.StringVar(&c.by, "by", a.Me(), "who is away: your own name at the station (INSPAN_APPROVER, USER)")
	f.StringVar(&c.to, "to", "", "who answers in your place")
	f.StringVar(&c.until, "until", "", "when that ends: a time such as 2026-12-24T08:00:00Z, or how long, such as 72h")
	f.StringVar(&c.reason, "reason", "", "why; recorded in the log")
	f.BoolVar(&c.end, "end", false, "you are back")
	return cmd
}

func (c *command) run(ctx context.Context, cl *client.Client, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	ds := client.NewDeputies(cl)
	switch {
	case c.end && (c.to != "" || c.until != ""):
		return app.Usage("--end says that you are back: leave --to and --until out")
	case c.end:
		return c.change(ctx, ds, events.DeputyControl{Action: events.BackAction, Reason: c.reason},
			c.by+" is back: no one answers in your place.")
	case c.to == "" && c.until == "":
		return c.list(ctx, ds)
	case c.to == "" || c.until == "":
		return app.Usage("--to and --until go together: who answers in your place, and until when")
	}
	until, err := time.Parse(time.RFC3339, c.until)
	if err != nil {
		d, long := time.ParseDuration(c.until)
		if long != nil {
			return app.Usage("--until %q is neither a time such as 2026-12-24T08:00:00Z nor a length such as 72h", c.until)
		}
		until = time.Now().Add(d)
	}
	return c.change(ctx, ds, events.DeputyControl{Action: events.AwayAction, To: c.to, Until: until.UTC(),
		Reason: c.reason}, fmt.Sprintf("%s answers gates in the place of %s until %s. They add: --deputy-for %s", c.to, c.by,
		until.Local().Format(time.DateTime), c.by))
}

func (c *command) change(ctx context.Context, ds client.Deputies, ctl events.DeputyControl, done string) error {
	if err := ctl.Check(); err != nil {
		return app.Usage("%w", err)
	}
	all, err := ds.Control(ctx, c.by, ctl)
	if err != nil {
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(all.Of(c.by))
	}
	fmt.Fprintln(c.App.Out, done)
	return nil
}

func (c *command) list(ctx context.Context, ds client.Deputies) error {
	all, err := ds.Get(ctx)
	if err != nil {
		return err
	}
	holds := []events.Deputy{}
	for _, d := range all.Deputies {
		if d.Holds(time.Now()) {
			holds = append(holds, d)
		}
	}
	if c.App.JSON {
		return c.App.PrintJSON(holds)
	}
	for _, d := range holds {
		fmt.Fprintf(c.App.Out, "%s answers for %s until %s  %s\n", d.To, d.For, d.Until.Local().Format(time.DateTime),
			terminal.Sanitize(d.Reason))
	}
	if len(holds) == 0 {
		fmt.Fprintln(c.App.Out, "No one answers in the place of somebody else.")
	}
	return nil
}
