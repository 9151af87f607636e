// Package budgets has inspan budget: what projects, users and the station may spend in a month, and how many runs may
// work at a time.
package budgets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// command is what the commands below inspan budget share.
type command struct {
	App           *app.App
	project, user string
	station       bool
	usd           string
	tokens        int64
	runs          int
	by, reason    string
}

// Command makes inspan budget.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "budget", Aliases: []string{"budgets"},
		Example: "  inspan budget set --project web --usd 200\n  inspan budget set --user ada --tokens 5000000\n  inspan budget list",
		Short:   "Show and set what projects, users and the station may spend in a month",
		Long: `A budget limits the money and the tokens of a calendar month (UTC), and the runs that work at a time, of a project, a user or
the whole station. What a run may use is reserved before a model is asked, so runs cannot overspend together. A run that meets a budget
is paused, not failed: it goes on when the budget is raised, when other runs return what they did not need, or when the month begins.`,
	}
	cmd.AddCommand(set(a), list(a), show(a), remove(a))
	return cmd
}

func (c *command) scope(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.project, "project", "", "the project, as in inspan run --project")
	cmd.Flags().StringVar(&c.user, "user", "", "the user who asks for the runs")
	cmd.Flags().BoolVar(&c.station, "station", false, "all runs of the station")
}

func (c *command) signed(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.by, "by", c.App.Me(), "who asks for it (INSPAN_APPROVER, USER)")
	cmd.Flags().StringVar(&c.reason, "reason", "", "why; recorded in the log")
}

func set(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "set", Short: "Set the budget of a project, a user or the station",
		Long: `Sets a budget, or changes it: a limit that is left out is no limit any more. It is in force for runs that begin afterwards; a change
is in force for all runs that have that budget. Runs that wait and for which there is room now go on at once.`,
		Example: "  inspan budget set --project web --usd 200\n  inspan budget set --user ada --tokens 5000000 --reason \"trial\"\n" +
			"  inspan budget set --project batch --usd 50 --runs 4",
		Args: app.Args(0), RunE: a.Connected(c.set),
	}
	c.scope(cmd)
	cmd.Flags().StringVar(&c.usd, "usd", "", "most US dollars a month, for example 50 or 2.50")
	cmd.Flags().Int64Var(&c.tokens, "tokens", 0, "most tokens a month, in and out")
	cmd.Flags().IntVar(&c.runs, "runs", 0, "most runs that work at a time; further ones wait, and leave room to other projects")
	c.signed(cmd)
	return cmd
}

func list(a *app.App) *cobra.Command {
	c := &command{App: a}
	return &cobra.Command{
		Use: "list", Short: "Show all budgets and what is used of them this month",
		Example: "  inspan budget list\n  inspan budget list --json | jq '.budgets[].name'",
		Args:    app.Args(0), RunE: a.Connected(c.list),
	}
}

func show(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "show", Short: "Show one budget, what runs have reserved of it and which wait, and the months before",
		Example: "  inspan budget show --project web\n  inspan budget show --station --json",
		Args:    app.Args(0), RunE: a.Connected(c.show),
	}
	c.scope(cmd)
	return cmd
}

func remove(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "remove", Short: "Remove a budget: its runs have no such limit any more",
		Example: "  inspan budget remove --user ada --reason \"the trial is over\"",
		Args:    app.Args(0), RunE: a.Connected(c.remove),
	}
	c.scope(cmd)
	c.signed(cmd)
	return cmd
}

// whose is the scope of a command, and the project or the user.
func (c *command) whose() (scope, of string, err error) {
	switch {
	case c.project != "" && c.user == "" && !c.station:
		return events.ScopeProject, c.project, nil
	case c.user != "" && c.project == "" && !c.station:
		return events.ScopeUser, c.user, nil
	case c.station && c.project == "" && c.user == "":
		return events.ScopeStation, "", nil
	}
	return "", "", app.Usage("name whose budget it is: one of --project, --user and --station")
}

// control is the control of a command.
func (c *command) control(action string) (ctl events.BudgetControl, name string, err error) {
	ctl = events.BudgetControl{Action: action, By: c.by, Reason: c.reason}
	if ctl.Scope, ctl.Of, err = c.whose(); err != nil {
		return ctl, "", err
	}
	ctl.Tokens, ctl.Runs = c.tokens, c.runs
	if c.usd != "" {
		if ctl.Cost, err = events.ParseUSD(c.usd); err == nil && ctl.Cost == 0 {
			err = errors.New("it is 0: leave it out for no limit")
		}
		if err != nil {
			return ctl, "", app.Usage("--usd: %w", err)
		}
	}
	if name, err = events.BudgetName(ctl.Scope, ctl.Of); err == nil {
		err = ctl.Check()
	}
	if err != nil {
		return ctl, "", app.Usage("%w", err)
	}
	return ctl, name, nil
}

func (c *command) send(ctx context.Context, cl *client.Client, action string) (events.Budgets, string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	ctl, name, err := c.control(action)
	if err != nil {
		return events.Budgets{}, "", err
	}
	b, err := client.NewBudgets(cl).Control(ctx, ctl)
	return b, name, err
}

func (c *command) set(ctx context.Context, cl *client.Client, _ []string) error {
	b, name, err := c.send(ctx, cl, events.SetAction)
	if err != nil {
		return err
	}
	is, _ := b.Find(name)
	if c.App.JSON {
		return c.App.PrintJSON(is)
	}
	fmt.Fprintf(c.App.Out, "Budget %s is set: %s.\n", terminal.Sanitize(name), is.BudgetLimits)
	return nil
}

func (c *command) remove(ctx context.Context, cl *client.Client, _ []string) error {
	_, name, err := c.send(ctx, cl, events.RemoveAction)
	if err != nil {
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(map[string]string{"removed": name})
	}
	fmt.Fprintf(c.App.Out, "Budget %s is removed: runs that waited for it go on.\n", terminal.Sanitize(name))
	return nil
}

// Standing is how a budget stands in the month of a time.
type Standing struct {
	events.Budget
	Month string `json:"month"`
	// Reserved is what runs that live have reserved of it.
	Reserved events.BudgetUse `json:"reserved"`
	Working  int              `json:"working"`
	Waiting  int              `json:"waiting"`
	ResetsAt time.Time        `json:"resets_at"`
	// Runs have reserved of it, or wait.
	Runs []events.BudgetHold `json:"holds,omitempty"`
}

// Standings are how all budgets stand.
func Standings(b events.Budgets, now time.Time) []Standing {
	b = b.In(events.MonthOf(now))
	all := []Standing{}
	for _, o := range b.Budgets {
		s := Standing{Budget: o, Month: b.Month, ResetsAt: events.NextMonth(now)}
		s.Reserved, s.Working, s.Waiting = b.Held(o.Name)
		for _, h := range b.Holds {
			if slices.Contains(h.Budgets, o.Name) {
				s.Runs = append(s.Runs, h)
			}
		}
		all = append(all, s)
	}
	return all
}

// Line says in one line how a budget stands, for people.
func (s Standing) Line() string {
	var parts []string
	spent := s.Used.Plus(s.Reserved)
	if s.Cost > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s used or reserved", spent.Cost, s.Cost))
	}
	if s.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens used or reserved", spent.Tokens, s.Tokens))
	}
	if s.BudgetLimits.Runs > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d runs at work", s.Working, s.BudgetLimits.Runs))
	}
	if s.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", s.Waiting))
	}
	return "budget " + terminal.Sanitize(s.Name) + ": " + strings.Join(parts, ", ")
}

func (c *command) list(ctx context.Context, cl *client.Client, _ []string) error {
	b, err := client.NewBudgets(cl).Get(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	all := Standings(b, now)
	if c.App.JSON {
		return c.App.PrintJSON(map[string]any{"budgets": all})
	}
	if len(all) == 0 {
		fmt.Fprintln(c.App.Out, "No budget is set: inspan budget set --project NAME --usd 50")
		return nil
	}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{terminal.Sanitize(s.Name), orNone(s.Cost > 0, s.Used.Cost.String()+" of "+s.Cost.String()),
			orNone(s.Tokens > 0, fmt.Sprintf("%d of %d", s.Used.Tokens, s.Tokens)), reservedText(s),
			orNone(s.BudgetLimits.Runs > 0, fmt.Sprintf("%d of %d", s.Working, s.BudgetLimits.Runs)), fmt.Sprint(s.Waiting)})
	}
	c.App.Table([]string{"BUDGET", "MONEY", "TOKENS", "RESERVED", "RUNS AT WORK", "WAITING"}, rows)
	fmt.Fprintf(c.App.Out, "\n%s, until %s\n", events.MonthOf(now), events.NextMonth(now).In(c.App.Zone()).Format(time.RFC3339))
	return nil
}

func reservedText(s Standing) string {
	switch {
	case s.Cost > 0 && s.Tokens > 0:
		return fmt.Sprintf("%s, %d tokens", s.Reserved.Cost, s.Reserved.Tokens)
	case s.Cost > 0:
		return s.Reserved.Cost.String()
	case s.Tokens > 0:
		return fmt.Sprintf("%d tokens", s.Reserved.Tokens)
	}
	return "-"
}

func orNone(is bool, text string) string {
	if is {
		return text
	}
	return "-"
}

func (c *command) show(ctx context.Context, cl *client.Client, _ []string) error {
	scope, of, err := c.whose()
	if err != nil {
		return err
	}
	name, err := events.BudgetName(scope, of)
	if err != nil {
		return app.Usage("%w", err)
	}
	b, err := client.NewBudgets(cl).Get(ctx)
	if err != nil {
		return err
	}
	all := Standings(b, time.Now())
	i := slices.IndexFunc(all, func(s Standing) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no budget %s (inspan budget list shows those that are set): %w", name, client.ErrNotFound)
	}
	s := all[i]
	if c.App.JSON {
		return c.App.PrintJSON(s)
	}
	fmt.Fprintf(c.App.Out, "%s\nLimits:   %s\nSet:      %s by %s %s\nUsed:     %s by runs that have ended\nReserved: %s\nResets:   %s\n",
		s.Line(), s.BudgetLimits, s.Since.In(c.App.Zone()).Format(time.RFC3339), terminal.Sanitize(s.By),
		terminal.Sanitize(s.Reason), s.Used, s.Reserved, s.ResetsAt.In(c.App.Zone()).Format(time.RFC3339))
	var rows [][]string
	for _, h := range s.Runs {
		stands := "works"
		if h.Waiting != nil {
			stands = "waits for " + h.Waiting.By + ": " + h.Waiting.Reason
		}
		rows = append(rows, []string{h.Run, h.Reserved.String(), terminal.Sanitize(stands)})
	}
	if len(rows) > 0 {
		fmt.Fprintln(c.App.Out)
		c.App.Table([]string{"RUN", "RESERVED", ""}, rows)
	}
	rows = nil
	for _, m := range s.Past {
		rows = append(rows, []string{m.Month, m.Cost.String(), fmt.Sprint(m.Tokens)})
	}
	if len(rows) > 0 {
		fmt.Fprintln(c.App.Out)
		c.App.Table([]string{"MONTH", "MONEY", "TOKENS"}, rows)
	}
	return nil
}
