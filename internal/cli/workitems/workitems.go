// Package workitems has inspan work and inspan sling: keep work items and give them to agents.
package workitems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan work and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "work", Short: "Keep work items, and give each to one agent",
		Long: `A work item says what there is to do. It has at most one holder: of several who assign it at once one wins, and the others are
refused. Its run shows the item in the first prompt; where it completes, the item is closed, where it fails, the item is free again.`,
		Example: "  inspan work add \"Fix the login\" --text \"It fails with an empty password.\" --acceptance \"go test ./login passes\"\n" +
			"  gh issue list --json number,title,body,labels,url,state | inspan work add --from -\n  inspan work list\n" +
			"  inspan sling fix-the-login-k3v9 fixer\n  inspan work show fix-the-login-k3v9\n  inspan work close fix-the-login-k3v9 --reason \"done by hand\"",
		Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), listCmd(a), showCmd(a), recordCmd(a), assignCmd(a),
		steerCmd(a, work.Unassign, "Clear the binding of an item: it is free again"),
		noteCmd(a), steerCmd(a, work.Close, "Close an item that is done, or not wanted any more"))
	return cmd
}

// steerCommand is inspan work unassign, note and close.
type steerCommand struct {
	App  *app.App
	ctl  events.WorkControl
	stop bool
}

func steerCmd(a *app.App, action, title string) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.WorkControl{Action: action}}
	cmd := &cobra.Command{Use: action + " ITEM", Short: title,
		Example: "  inspan work " + action + " fix-the-login-k3v9 --reason \"not now\"",
		Args:    app.Args(1), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of the item")
	f.StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	f.BoolVar(&c.stop, "stop", false, "stop the run that works on the item first: its end frees the item")
	return cmd
}

func noteCmd(a *app.App) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.WorkControl{Action: work.Note}}
	cmd := &cobra.Command{Use: "note ITEM TEXT", Short: "Note something at an item",
		Example: "  inspan work note fix-the-login-k3v9 \"half of it is done\"",
		Args:    app.Args(2), RunE: a.Connected(c.run)}
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who notes it (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *steerCommand) run(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	if a.ctl.Action == work.Note {
		a.ctl.Note = args[1]
	}
	items := client.NewWorkItems(c)
	w, freed, err := a.stopped(ctx, c, args[0])
	if err == nil && !(freed && a.ctl.Action == work.Unassign) {
		w, err = items.Control(ctx, args[0], a.ctl)
	}
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(w)
	}
	switch a.ctl.Action {
	case work.Unassign:
		fmt.Fprintf(a.App.Out, "Work item %s is free. Give it to an agent: inspan sling %s AGENT\n", w.ID, w.ID)
	case work.Close:
		fmt.Fprintf(a.App.Out, "Work item %s is closed.\n", w.ID)
	case work.Note:
		fmt.Fprintf(a.App.Out, "Noted at work item %s.\n", w.ID)
	}
	return nil
}

// stopped stops the run that works on an item, where that was asked for, and waits until its end has freed the item.
func (a *steerCommand) stopped(ctx context.Context, c *client.Client,
	id string) (w events.WorkItem, freed bool, err error) {
	if !a.stop {
		return w, false, nil
	}
	items := client.NewWorkItems(c)
	if w, err = items.Get(ctx, id); err != nil || w.Binding == nil || !w.Binding.Started {
		return w, false, err
	}
	b := w.Binding
	if _, err = c.Control(ctx, b.Run,
		events.Control{Action: "stop", By: a.ctl.By,
			Reason: cmp.Or(a.ctl.Reason, "work item "+id+": "+a.ctl.Action)}); err != nil {
		return w, false, err
	}
	w, err = items.Ended(ctx, id, b.Epoch)
	return w, w.Status == events.WorkIsOpen, err
}

// listCommand is inspan work list.
type listCommand struct {
	App              *app.App
	watch, all, free bool
	agent, label     string
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"},
		Short:   "List the work items that are not closed, with who holds each",
		Example: "  inspan work list\n  inspan work list --agent fixer\n  inspan work list --free -o name",
		Args:    app.Args(0), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.BoolVarP(&c.all, "all", "a", false, "closed ones, too")
	f.BoolVar(&c.free, "free", false, "only those that no one holds")
	f.StringVar(&c.agent, "agent", "", "only those that this agent holds: its current work")
	f.StringVar(&c.label, "label", "", "only those with this label")
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"ITEM", "STATUS", "AGENT", "RUN", "TITLE"}, Empty: `No work items. Make one with: inspan work add "TITLE"`}
		all, err := client.NewWorkItems(c).List(ctx)
		for _, w := range all {
			agent, run := "-", "-"
			if b := w.Binding; b != nil {
				if agent = b.Holder(); b.Run != "" && b.Dispatched {
					run = b.Run
				}
			} else if w.Last != nil && w.Last.Run != "" {
				run = w.Last.Run
			}
			switch {
			case w.Status == events.WorkIsClosed && !a.all, a.free && w.Status != events.WorkIsOpen, a.agent != "" &&
				a.agent != agent,
				a.label != "" && !slices.Contains(w.Spec.Labels, a.label):
				continue
			}
			l.Add(w.ID, w, w.ID, status(a.App, w), agent, run, view.Clip(w.Spec.Title, 80))
		}
		return l, err
	})
}

// status is what a list shows of an item.
func status(a *app.App, w events.WorkItem) string {
	switch d := w.Delivery; {
	case d != nil && w.Binding != nil && d.Epoch == w.Binding.Epoch:
		return a.Paint().Yellow("delivery: " + string(d.Phase))
	case w.Binding != nil && w.Binding.Started:
		return a.Paint().Yellow("running")
	case w.Status == events.WorkIsBound:
		return a.Paint().Yellow("bound")
	case w.Status == events.WorkIsClosed:
		return a.Paint().Dim("closed")
	case w.Last != nil && w.Last.Code != events.WorkUnassigned:
		return "open " + a.Paint().Red("("+w.Last.Code+")")
	}
	return string(w.Status)
}

// showCommand is inspan work show.
type showCommand struct{ App *app.App }

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{a}
	return &cobra.Command{Use: "show ITEM",
		Short:   "Show one work item: what there is to do, who holds it and what happened to it",
		Example: "  inspan work show fix-the-login-k3v9\n  inspan work show fix-the-login-k3v9 --json | jq -r '.history[].line'", Args: app.Args(1), RunE: a.Connected(c.run)}
}

// shown is a work item as programs read it.
type shown struct {
	events.WorkItem
	History []client.WorkEvent `json:"history"`
}

func (a *showCommand) run(ctx context.Context, c *client.Client, args []string) error {
	items := client.NewWorkItems(c)
	w, err := items.Get(ctx, args[0])
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan work list lists those of the station", err)
	}
	var all []client.WorkEvent
	if err == nil {
		all, err = items.History(ctx, args[0])
	}
	switch {
	case err != nil:
		return err
	case a.App.JSON:
		return a.App.PrintJSON(shown{w, all})
	}
	s := w.Spec
	p := a.App.Paint()
	fmt.Fprintf(a.App.Out, "%s  %s  %s\n", p.Bold(w.ID), status(a.App, w), view.Clip(s.Title, events.MaxWorkTitle))
	rows := [][2]string{{"labels", strings.Join(s.Labels, ", ")}, {"source", view.Clip(s.Source, 200)}, {"by", w.By},
		{"items", strings.Join(s.Items, ", ")}, {"convoys", strings.Join(w.Convoys, ", ")}}
	if b := w.Binding; b != nil {
		rows = append(rows, [2]string{"agent", b.Holder()})
		if b.Dispatched {
			rows = append(rows, [2]string{"run", b.Run})
		}
		if b.Formula != nil {
			rows = append(rows, [2]string{"formula", b.Formula.Name})
		}
		if !b.Started {
			rows = append(rows, [2]string{"free again", b.ExpiresAt.In(a.App.Zone()).Format("2006-01-02 15:04:05 MST")})
		}
	}
	a.App.Pairs(append(rows, deliveryRows(w)...))
	for _, part := range [][2]string{{"", s.Text}, {"Done when:", s.Acceptance}} {
		if part[1] == "" {
			continue
		}
		fmt.Fprintln(a.App.Out)
		if part[0] != "" {
			fmt.Fprintln(a.App.Out, p.Dim(part[0]))
		}
		for line := range strings.SplitSeq(view.Clip(part[1], events.MaxWorkText), "\n") {
			fmt.Fprintln(a.App.Out, "  "+strings.TrimRight(line, "\r"))
		}
	}
	fmt.Fprintln(a.App.Out)
	for _, e := range all {
		fmt.Fprintf(a.App.Out, "%s  %s\n", p.Dim(e.At.In(a.App.Zone()).Format("2006-01-02 15:04:05")), view.Clip(e.Line, 300))
	}
	return nil
}
