package colony

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// alertsCmd makes inspan agents alerts.
func alertsCmd(a *app.App) *cobra.Command {
	c, none := &steerCommand{App: a, ctl: events.MailControl{Action: mailbox.Routes}}, false
	cmd := &cobra.Command{Use: "alerts [SEVERITY=ADDRESS...]",
		Short: "Show or set where alerts about agents go, by severity",
		Long: `Each alert about an agent, and each time that its severity rises, is sent as mail to the addresses of its severity, once to each. The
address that an agent was registered with (--escalate) gets them as well. What is given takes the place of all that was set before.`,
		Example: "  inspan agents alerts\n  inspan agents alerts high=list/leads critical=list/leads critical=web/lead/ada\n  inspan agents alerts --none",
		Args:    app.ArgsBetween(0, 4*events.MaxAlertTargets),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			if len(args) == 0 && !none {
				all, err := client.NewMail(cl).Get(ctx, events.Everyone)
				if err != nil && !errors.Is(err, client.ErrNotFound) {
					return err
				}
				return printRoutes(a, all.Life.Routes)
			}
			routes, err := routesOf(args, none)
			if err == nil {
				c.ctl.Routes = &routes
				err = errors.Join(c.ctl.Check(), mailbox.Check(events.EveryAddress, c.ctl))
			}
			if err != nil {
				return app.Usage("%w", err)
			}
			ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
			defer cancel()
			all, err := client.NewMail(cl).Control(ctx, events.Everyone, c.ctl)
			if err != nil {
				return err
			}
			return printRoutes(a, all.Life.Routes)
		})}
	cmd.Flags().BoolVar(&none, "none", false, "alerts go to no address but those that agents name")
	return c.by(cmd)
}

// routesOf reads SEVERITY=ADDRESS.
func routesOf(args []string, none bool) (r events.AlertRoutes, err error) {
	if none && len(args) > 0 {
		return r, errors.New("--none goes with no targets")
	}
	for _, a := range args {
		severity, to, ok := strings.Cut(a, "=")
		if !ok {
			return r, fmt.Errorf("%.80q: want SEVERITY=ADDRESS, such as high=list/leads", a)
		}
		if r.Targets == nil {
			r.Targets = map[events.Severity][]string{}
		}
		r.Targets[events.Severity(severity)] = append(r.Targets[events.Severity(severity)], to)
	}
	return r, nil
}

func printRoutes(a *app.App, r *events.AlertRoutes) error {
	if r == nil {
		r = &events.AlertRoutes{}
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	var rows [][]string
	for _, severity := range events.Severities() {
		for _, to := range r.Targets[severity] {
			rows = append(rows, []string{string(severity), to})
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.Out, "Alerts go to no address but those that agents name. Set some with: inspan agents alerts high=list/leads")
		return nil
	}
	a.Table([]string{"SEVERITY", "TO"}, rows)
	return nil
}
