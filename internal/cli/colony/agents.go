// Package colony has the commands about named agents: inspan agents list, show, start and so on, inspan colony and
// inspan seance. A named agent has an address, project/role/name; what it runs is a definition, which inspan agents
// lists.
package colony

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/mail"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Groups of the commands, as those of the program.
const (
	look   = "look"
	decide = "decide"
)

// Extend adds the commands about named agents to inspan agents.
func Extend(a *app.App, cmd *cobra.Command) *cobra.Command {
	cmd.AddGroup(&cobra.Group{ID: look, Title: "Look at named agents:"}, &cobra.Group{ID: decide,
		Title: "Steer named agents:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	add(look, listCmd(a), showCmd(a), watchCmd(a), rolesCmd(a))
	add(decide, registerCmd(a), dispatchCmd(a), startCmd(a), injectCmd(a),
		steerCmd(a, mailbox.Stop, "Stop an agent: its run ends, and nothing wakes it until a start"),
		steerCmd(a, mailbox.Handoff,
			"End the run of an agent; its next run goes on with an empty conversation and the account of this one"),
		steerCmd(a, mailbox.Restart, "End the run of an agent; its next run goes on in the same conversation"),
		alertsCmd(a),
		steerCmd(a, mailbox.Seen, "Say that you look at the alert of an agent: it is not raised further"))
	return cmd
}

// listCommand is inspan agents list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the named agents with what each does now",
		Example: "  inspan agents list\n  inspan agents list -o name\n  inspan agents list --watch", Args: app.Args(0),
		RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"AGENT", "STATE", ">EPOCH", ">MAIL", "DEFINITION", "RUN", "+ALERT"},
			Empty: "No named agents. Register one with: inspan agents register PROJECT/ROLE/NAME --agent DEFINITION"}
		all, err := agents(ctx, c)
		for _, m := range all {
			run, alert := "-", "-"
			if m.Holder != nil {
				run = m.Holder.Run
			}
			if m.Life.Alert != nil {
				alert = m.Life.Alert.Signal + " " + string(m.Life.Alert.Severity)
			}
			l.Add(m.Address, m, m.Address, paint(a.App.Paint(), mailbox.StateOf(m)), fmt.Sprint(m.Epoch),
				fmt.Sprint(len(m.Pending)), m.Spec.Agent, run, alert)
		}
		return l, err
	})
}

// agents are the addresses that are agents.
func agents(ctx context.Context, c *client.Client) (some []events.Mailbox, err error) {
	all, err := client.NewMail(c).List(ctx)
	for _, m := range all {
		if isAgent(m) {
			some = append(some, m)
		}
	}
	return some, err
}

// paint colours the state of an agent.
func paint(p terminal.Paint, state string) string {
	switch state {
	case mailbox.IsWorking, mailbox.IsStarting, mailbox.IsHanding:
		return p.Cyan(state)
	case mailbox.IsStuck, mailbox.IsDied:
		return p.Red(state)
	case mailbox.IsStopped, mailbox.IsStopping:
		return p.Yellow(state)
	}
	return state
}

// get returns a named agent; the error names the nearest one where there is none.
func get(ctx context.Context, c *client.Client, address string) (events.Mailbox, error) {
	if form, _, err := events.ParseAddress(address); err != nil || form != events.AgentAddress {
		return events.Mailbox{}, app.Usage("%.80q is not the address of an agent: want PROJECT/ROLE/NAME, each 1 to 20 of a-z 0-9 and -", address)
	}
	return mail.Get(ctx, c, address, "inspan agents list lists the agents", isAgent)
}

func isAgent(m events.Mailbox) bool { return m.Form == events.AgentAddress }

// showCommand is inspan agents show.
type showCommand struct{ App *app.App }

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{a}
	return &cobra.Command{Use: "show AGENT",
		Short:   "Show a named agent: its state, its run, its mail, its last runs and what its next run is given",
		Example: "  inspan agents show web/worker/nux", Args: app.Args(1), RunE: a.Connected(c.run)}
}

func (a *showCommand) run(ctx context.Context, c *client.Client, args []string) error {
	m, err := get(ctx, c, args[0])
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(m)
	}
	now, when := time.Now(), func(t time.Time) string { return t.In(a.App.Zone()).Format("2006-01-02 15:04:05 MST") }
	pairs := [][2]string{{"agent", m.Address}, {"state", paint(a.App.Paint(), mailbox.StateOf(m))}, {"definition",
		m.Spec.Agent},
		{"epoch", fmt.Sprint(m.Epoch)}, {"mail", view.Plural(len(m.Pending), "message") + " waiting"}}
	if h := m.Holder; h != nil {
		pairs = append(pairs, [2]string{"run", fmt.Sprintf("%s, since %s", h.Run, view.Since(h.Since, now))})
	}
	if m.Life.Asked != nil {
		pairs = append(pairs, [2]string{"asked", fmt.Sprintf("%s, by %s", m.Life.Asked.Order, view.Clip(m.Life.Asked.By,
			80))})
	}
	if m.Holder == nil && !m.NotBefore.IsZero() && m.NotBefore.After(now) {
		pairs = append(pairs, [2]string{"woken again", when(m.NotBefore)})
	}
	if al := m.Life.Alert; al != nil {
		text := fmt.Sprintf("%s, %s, since %s: %s", al.Signal, al.Severity, view.Since(al.Since, now), view.Clip(al.Text,
			200))
		if al.SeenBy != "" {
			text += "; seen by " + view.Clip(al.SeenBy, 80)
		}
		pairs = append(pairs, [2]string{"alert", a.App.Paint().Red(text)})
		for _, n := range al.Sent {
			text := "to " + n.To
			if n.Code != "" {
				text = fmt.Sprintf("%s does not take it (%s)", n.To, n.Code)
			}
			pairs = append(pairs, [2]string{"alert sent", text})
		}
	}
	if r := m.Life.Role; r != nil {
		pairs = append(pairs, [2]string{"role",
			r.Name + ", as it was when the agent was last woken; inspan agents roles " + r.Name + " explains it"})
	}
	if boxes, err := client.NewMail(c).List(ctx); err == nil {
		if text := waitsFor(m, quotas(boxes)); text != "" {
			pairs = append(pairs, [2]string{"waits", strings.TrimPrefix(text, "waits: ")})
		}
	}
	if m.Spec.Respawn {
		pairs = append(pairs, [2]string{"respawn", "goes on by itself after a failure"})
	}
	a.App.Pairs(pairs)
	if ac := m.Life.Account; ac != nil {
		fmt.Fprintf(a.App.Out, "\nAccount of epoch %d (%s), given to the next run:\n", ac.Epoch, ac.Cause)
		for line := range strings.SplitSeq(view.Clip(ac.Summary, events.MaxSummary), "\n") {
			fmt.Fprintln(a.App.Out, "  "+strings.TrimRight(line, "\r"))
		}
	}
	if len(m.Life.Past) > 0 {
		fmt.Fprintln(a.App.Out)
		var rows [][]string
		for i := len(m.Life.Past) - 1; i >= 0; i-- {
			p := m.Life.Past[i]
			rows = append(rows, []string{fmt.Sprint(p.Epoch), p.Run, p.Code, when(p.At)})
		}
		a.App.Table([]string{">EPOCH", "RUN", "ENDED", "AT"}, rows)
	}
	return nil
}

// watchCommand is inspan agents watch.
type watchCommand struct{ App *app.App }

func watchCmd(a *app.App) *cobra.Command {
	c := &watchCommand{a}
	return &cobra.Command{Use: "watch AGENT", Short: "Watch the run of an agent, with the text of its model as it comes",
		Example: "  inspan agents watch web/worker/nux", Args: app.Args(1), RunE: a.Connected(c.run)}
}

func (a *watchCommand) run(ctx context.Context, c *client.Client, args []string) error {
	m, err := get(ctx, c, args[0])
	if err != nil {
		return err
	}
	if m.Holder == nil || !m.Holder.Started {
		return fmt.Errorf("no run is the agent %s now, it is %s: %w; inspan agents show %s lists its last runs", m.Address,
			mailbox.StateOf(m), client.ErrNotFound, m.Address)
	}
	a.App.Stream = true
	_, err = follow.Run(ctx, a.App, c, m.Holder.Run, follow.Gates{})
	return err
}
