package workitems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/formulas"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// assignCommand is inspan work assign and inspan sling.
type assignCommand struct {
	App               *app.App
	ctl               events.WorkControl
	d                 events.WorkDispatch
	formula, formulas string
	vars              []string
	deliver           bool
	how               events.WorkDeliver
}

func assignCmd(a *app.App) *cobra.Command {
	c := &assignCommand{App: a, ctl: events.WorkControl{Action: work.Assign}}
	cmd := &cobra.Command{Use: "assign ITEM AGENT", Short: "Bind an item to an agent: no one else gets it",
		Long: `Binds an item to an agent. Where another agent holds it, that is refused and nothing is changed. With --start the run of the agent
begins at once; without it the item is free again after --within unless inspan sling starts it before.

AGENT is a definition, or the address of a named agent (PROJECT/ROLE/NAME): that keeps the item over handoffs until a run of it has
completed, and has one item at a time. role/ROLE/of/PROJECT is an agent of that role that is free.`,
		Example: "  inspan work assign fix-the-login-k3v9 fixer --within 2h\n  inspan work assign fix-the-login-k3v9 fixer --start --formula review",
		Args:    app.Args(2), RunE: a.Connected(c.run)}
	c.define(cmd)
	cmd.Flags().BoolVar(&c.ctl.Start, "start", false, "have the run begin at once, as inspan sling does")
	return cmd
}

// Sling makes inspan sling: inspan work assign --start.
func Sling(a *app.App) *cobra.Command {
	c := &assignCommand{App: a, ctl: events.WorkControl{Action: work.Assign, Start: true}}
	cmd := &cobra.Command{Use: "sling ITEM AGENT", Short: "Give a work item to an agent, which begins at once",
		Long: `Binds a work item to an agent and has its run begin: inspan work assign --start. An item that this agent holds already, and
that was not started, is started. A task without a work item is dispatched with inspan run.`,
		Example: "  inspan sling fix-the-login-k3v9 fixer\n  inspan sling fix-the-login-k3v9 web/worker/nux\n  inspan sling fix-the-login-k3v9 fixer --formula review --var path=login\n" +
			"  inspan watch $(inspan sling fix-the-login-k3v9 fixer --json | jq -r .run)",
		Args: app.Args(2), RunE: a.Connected(c.run)}
	c.define(cmd)
	return cmd
}

// Deliver makes inspan deliver: inspan sling --deliver.
func Deliver(a *app.App) *cobra.Command {
	c := &assignCommand{App: a, ctl: events.WorkControl{Action: work.Assign, Start: true}, deliver: true}
	cmd := &cobra.Command{Use: "deliver ITEM AGENT", Short: "Give a work item to an agent, and deliver what it does",
		Long: `Binds a work item to an agent and has its run begin: inspan sling --deliver. When the run has completed, its work is delivered in
six phases: it is complete, its branch is at the remote, a review is asked for, two notices are sent, the item is closed, and its
binding is released. With --queue the merge queue lands the branch before the item is closed.`,
		Example: "  inspan deliver fix-the-login-k3v9 fixer --queue main\n" +
			"  inspan deliver fix-the-login-k3v9 fixer --repo https://github.com/you/project --oversight web/lead/ada\n" +
			"  inspan work show fix-the-login-k3v9",
		Args: app.Args(2), RunE: a.Connected(c.run)}
	c.define(cmd)
	return cmd
}

func (a *assignCommand) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.deliver, "deliver", a.deliver,
		"deliver the work when the run has completed; --queue, --review, --review-to and --oversight imply it")
	f.StringVar(&a.how.Queue, "queue", "",
		"merge queue that lands the work; it names repository and branch where --repo is not given")
	f.StringVar(&a.how.Review, "review", "", "how a review is asked for: branch (default), github or gitlab")
	f.StringVar(&a.how.ReviewTo, "review-to", "",
		"address that gets the notice for reviewers; that of the queue if not given")
	f.StringVar(&a.how.Maker, "maker", "",
		"address of the agent that makes the work; it is told when that lands or bounces")
	f.StringVar(&a.how.Oversight, "oversight", "",
		"address that gets the notice for oversight; that of the queue if not given")
	f.StringVar(&a.formula, "formula", "", "formula that the run carries out: a name, or the path of a file")
	f.StringVar(&a.formulas, "formulas", "",
		"folder of formulas; formulas of this directory if not given (INSPAN_FORMULAS)")
	f.StringArrayVar(&a.vars, "var", nil, "name=value of a variable; may be repeated")
	f.StringVar(&a.ctl.Within, "within", "",
		"how long the item stays bound without being started, such as 2h (default 15m)")
	f.StringVar(&a.d.Task, "task", "", "more for the agent than the item says")
	f.StringVar(&a.d.Session, "session", "", "session that the run goes on in")
	f.StringVar(&a.d.Model, "model", "", "model in place of the agent's, provider/name")
	f.StringVar(&a.d.Repo, "repo", "", "git repository to work in, by https or ssh")
	f.StringVar(&a.d.Ref, "ref", "", "branch, tag or commit of it")
	f.StringVar(&a.d.Branch, "branch", "", "branch of it")
	f.StringVar(&a.d.Timeout, "timeout", "", "time limit of the run, such as 30m")
	f.IntVar(&a.d.Autonomy, "autonomy", 0, "1 to 5; the agent's if not given")
	f.Int64Var(&a.d.MaxTokens, "budget-tokens", 0, "most tokens of the run")
	f.StringVar(&a.d.MaxUSD, "budget-usd", "", "most money of the run, in US dollars")
	f.StringVar(&a.ctl.By, "by", a.App.Me(), "who asks (INSPAN_APPROVER, USER)")
	f.StringVar(&a.ctl.Reason, "reason", "", "why; recorded in the log of the item")
}

func (a *assignCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if err := a.home(ctx, c); err != nil {
		return err
	}
	ctl, err := a.control(ctx, args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	items := client.NewWorkItems(c)
	w, err := items.Get(ctx, args[0])
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan work list lists those of the station, and inspan run AGENT TASK needs none", err)
	}
	if err != nil {
		return err
	}
	if b := w.Binding; ctl.Start && b != nil && b.Holder() == args[1] && !b.Dispatched {
		ctl = events.WorkControl{Action: work.Start, Agent: args[1], Within: ctl.Within, By: ctl.By, Reason: ctl.Reason}
	}
	started := ctl.Start || ctl.Action == work.Start
	if w, err = items.Control(ctx, args[0], ctl); err != nil {
		return err
	}
	epoch := w.Epoch
	if started {
		if w, err = a.began(ctx, items, w); err != nil {
			return err
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(bound{w, w.RunOf(epoch)})
	}
	switch b := w.Binding; {
	case b == nil && w.Last != nil:
		fmt.Fprintf(a.App.Out, "Agent %s had work item %s: %s. See it: inspan work show %s\n", w.Last.Agent, w.ID, w.Last.Code,
			w.ID)
	case started && !b.Started:
		fmt.Fprintf(a.App.Out, "Agent %s has %s and is at work: it begins once its run has ended. See it: inspan work show %s\n",
			b.Holder(), w.ID, w.ID)
	case started:
		fmt.Fprintf(a.App.Out, "Agent %s works on %s in run %s. Watch it: inspan watch %s\n", b.Holder(), w.ID, b.Run, b.Run)
	default:
		fmt.Fprintf(a.App.Out, "Agent %s holds %s until %s. Have it begin: inspan sling %s %s\n", b.Holder(), w.ID,
			b.ExpiresAt.In(a.App.Zone()).Format("2006-01-02 15:04:05 MST"), w.ID, b.Holder())
	}
	return nil
}

// bound is an item that was bound, with the run of that: a short one has ended before it is shown.
type bound struct {
	events.WorkItem
	Run string `json:"run,omitempty"`
}

// atWork is how long a named agent that may be at work is waited for.
const atWork = 3 * time.Second

// began waits until the run of a binding has its item. That of a named agent at work begins later.
func (a *assignCommand) began(ctx context.Context, items client.WorkItems, w events.WorkItem) (events.WorkItem, error) {
	if w.Binding == nil || w.Binding.Address == "" {
		return items.Began(ctx, w.ID, w.Epoch)
	}
	short, cancel := context.WithTimeout(ctx, atWork)
	defer cancel()
	now, err := items.Began(short, w.ID, w.Epoch)
	if short.Err() != nil && ctx.Err() == nil {
		return items.Get(ctx, w.ID)
	}
	return now, err
}

// control is what the flags describe, checked as far as it can be without a station.
func (a *assignCommand) control(ctx context.Context, agent string) (events.WorkControl, error) {
	ctl, d := a.ctl, a.d
	if d.Agent = agent; strings.Contains(agent, "/") {
		d.Agent, d.Address = "", agent
	}
	vars, err := dispatch.Variables(a.vars)
	if err != nil {
		return ctl, err
	}
	d.Variables = vars
	if a.formula != "" {
		compiled, err := formulas.Accepted(ctx, a.App, a.formulas, a.formula, vars)
		if err != nil {
			return ctl, err
		}
		d.Plan, d.Formula, d.Variables = compiled.Plan, &compiled.Formula, compiled.Variables
		d.Task, d.Session = cmp.Or(d.Task, compiled.Task), cmp.Or(d.Session, compiled.Session)
		if g := compiled.Git; g != nil && d.Repo == "" {
			d.Repo, d.Ref, d.Branch = g.Repo, cmp.Or(d.Ref, g.Ref), cmp.Or(d.Branch, g.Branch)
		}
	}
	if a.deliver || a.how != (events.WorkDeliver{}) {
		d.Deliver = &a.how
	}
	ctl.Dispatch = &d
	if err := errors.Join(ctl.Check(), work.Check(ctl)); err != nil {
		return ctl, app.Usage("%w", err)
	}
	return ctl, nil
}
