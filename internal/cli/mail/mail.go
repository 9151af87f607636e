// Package mail has inspan mail: register addresses, send to them, and see what waits for them.
package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan mail and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mail", Short: "Send mail to agents, and see what waits for them",
		Long: `An address is an agent (project/role/name), a queue (queue/NAME), a list (list/NAME) or a channel (channel/NAME); all reaches every agent.
Mail is stored. An agent is given what waits for it before its next turn, the most urgent first and each message once; an idle one wakes.`,
		Example: "  inspan mail register web/worker/nux --agent coder\n  inspan mail send web/worker/nux \"Is the build green?\" --priority high\n" +
			"  inspan mail who\n  inspan mail list web/worker/nux\n  inspan mail read web/worker/nux msg-k3v9",
		Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(registerCmd(a), sendCmd(a), whoCmd(a), listCmd(a), readCmd(a), ackCmd(a), dndCmd(a),
		memberCmd(a, mailbox.Join, "Let an agent join a list or a channel"),
		memberCmd(a, mailbox.Leave, "Let an agent leave a list or a channel"))
	return cmd
}

// control is a command that publishes one control.
type control struct {
	App     *app.App
	ctl     events.MailControl
	spec    events.AddressSpec
	draft   events.MailDraft
	accepts []string
	data    string
}

func (c *control) by(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.ctl.By, "by", c.App.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func registerCmd(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.MailControl{Action: mailbox.Register}}
	cmd := &cobra.Command{Use: "register ADDRESS", Short: "Register an address: until then mail for it is refused",
		Example: "  inspan mail register web/worker/nux --agent coder\n  inspan mail register list/leads --member web/lead/ada\n" +
			"  inspan mail register queue/builds --accept done=done.schema.json",
		Args: app.Args(1), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.StringVar(&c.spec.Agent, "agent", "", "definition that the agent of the address runs")
	f.StringVar(&c.spec.Session, "session", "", "session that all its runs go on in; one of its own if not given")
	f.StringVar(&c.spec.Interrupts, "interrupts", "",
		"whose mail may end an answer of the agent: people, or all; of no one if not given")
	f.StringArrayVar(&c.spec.Members, "member", nil, "agent of a list, or first subscriber of a channel; may be repeated")
	f.StringArrayVar(&c.accepts, "accept", nil,
		"KIND=FILE: takes typed messages of this kind, with the JSON Schema of their data; may be repeated")
	return c.by(cmd)
}

func sendCmd(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.MailControl{Action: mailbox.Send}}
	cmd := &cobra.Command{Use: "send ADDRESS TEXT", Short: "Send a message: it waits until its agent is given it",
		Example: "  inspan mail send web/worker/nux \"Is the build green?\"\n  inspan mail send list/leads \"The release is out.\" --subject Release\n" +
			"  inspan mail send web/worker/nux \"Stop: the disk is full.\" --priority urgent --force",
		Args: app.Args(2), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.StringVar(&c.draft.Subject, "subject", "", "one line")
	f.StringVar(&c.draft.Priority, "priority", "", "urgent, high, normal (default) or low")
	f.BoolVar(&c.draft.Force, "force", false, "with --priority urgent: also to an agent that is not to be disturbed")
	f.BoolVar(&c.draft.Interrupt, "interrupt", false,
		"with --priority urgent: end the answer that the agent is giving; refused where it was not registered for that")
	f.StringVar(&c.draft.Thread, "thread", "", "thread that it belongs to")
	f.StringVar(&c.draft.ReplyTo, "reply-to", "", "id of the message that it answers")
	f.StringVar(&c.draft.Kind, "kind", "", "kind of a typed message")
	f.StringVar(&c.data, "data", "", "data of a typed message, as JSON")
	f.StringVar(&c.draft.Expires, "expires", "", "how long it may wait, such as 2h (default 168h)")
	f.StringVar(&c.draft.ID, "id", "", "id; the same message sent twice is one")
	return c.by(cmd)
}

func ackCmd(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.MailControl{Action: mailbox.Ack}}
	cmd := &cobra.Command{Use: "ack ADDRESS ID...",
		Short:   "Take messages out of a mailbox that no agent needs to see any more",
		Example: "  inspan mail ack web/worker/nux msg-k3v9", Args: app.ArgsBetween(2, events.MaxMailbox),
		RunE: a.Connected(c.run)}
	cmd.Flags().StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of the address")
	return c.by(cmd)
}

func dndCmd(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.MailControl{Action: mailbox.DND}}
	return c.by(&cobra.Command{Use: "dnd ADDRESS on|off",
		Short:   "Do not disturb an agent: only urgent mail with force gets through",
		Example: "  inspan mail dnd web/worker/nux on", Args: app.Args(2), RunE: a.Connected(c.run)})
}

func memberCmd(a *app.App, action, title string) *cobra.Command {
	c := &control{App: a, ctl: events.MailControl{Action: action}}
	return c.by(&cobra.Command{Use: action + " ADDRESS AGENT", Short: title,
		Example: "  inspan mail " + action + " channel/news web/worker/nux",
		Args:    app.Args(2), RunE: a.Connected(c.run)})
}

// fill completes a control with the arguments.
func (c *control) fill(args []string) error {
	switch c.ctl.Action {
	case mailbox.Register:
		for _, a := range c.accepts {
			kind, file, ok := strings.Cut(a, "=")
			if !ok {
				return fmt.Errorf("--accept %.80q: want KIND=FILE", a)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !json.Valid(b) {
				return fmt.Errorf("%s is no JSON", file)
			}
			if c.spec.Accepts == nil {
				c.spec.Accepts = map[string]json.RawMessage{}
			}
			c.spec.Accepts[kind] = b
		}
		c.ctl.Spec = &c.spec
	case mailbox.Send:
		c.draft.Body = args[1]
		if c.data != "" {
			if c.draft.Data = json.RawMessage(c.data); !json.Valid(c.draft.Data) {
				return errors.New("--data is no JSON")
			}
		}
		c.ctl.Mail = &c.draft
	case mailbox.Ack:
		c.ctl.IDs = args[1:]
	case mailbox.DND:
		on := args[1] == "on"
		if !on && args[1] != "off" {
			return fmt.Errorf("%.40q: want on or off", args[1])
		}
		c.ctl.On = &on
	default:
		c.ctl.Member = args[1]
	}
	return nil
}

func (c *control) run(ctx context.Context, cl *client.Client, args []string) error {
	form, _, err := events.ParseAddress(args[0])
	if err == nil {
		err = c.fill(args)
	}
	if err == nil {
		err = errors.Join(c.ctl.Check(), mailbox.Check(form, c.ctl))
	}
	if err != nil {
		return app.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	m, err := client.NewMail(cl).Control(ctx, args[0], c.ctl)
	if err != nil {
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(m)
	}
	switch c.ctl.Action {
	case mailbox.Register:
		fmt.Fprintf(c.App.Out, "Registered %s. Send to it: inspan mail send %s TEXT\n", m.Address, m.Address)
	case mailbox.Send:
		fmt.Fprintf(c.App.Out, "Sent to %s. See what waits there: inspan mail list %s\n", m.Address, m.Address)
	default:
		fmt.Fprintf(c.App.Out, "Done: %s.\n", m.Address)
	}
	return nil
}

// whoCommand is inspan mail who.
type whoCommand struct {
	App   *app.App
	watch bool
}

func whoCmd(a *app.App) *cobra.Command {
	c := &whoCommand{App: a}
	cmd := &cobra.Command{Use: "who", Short: "List the addresses, with what each agent does now",
		Example: "  inspan mail who\n  inspan mail who -o name",
		Args:    app.Args(0), RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *whoCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"ADDRESS", "STATUS", "WAITING", "AGENT", "RUN"},
			Empty: "No addresses. Register one with: inspan mail register ADDRESS --agent NAME"}
		all, err := client.NewMail(c).List(ctx)
		for _, m := range all {
			status, agent, run := "-", "-", "-"
			switch h := m.Holder; {
			case h != nil:
				status, run = "working", h.Run
			case m.Form == events.AgentAddress:
				status = "idle"
			case len(m.Members) > 0:
				status = fmt.Sprintf("%d members", len(m.Members))
			}
			if m.Spec.Agent != "" {
				agent = m.Spec.Agent
			}
			if m.Quiet {
				status += ", not to be disturbed"
			}
			l.Add(m.Address, m, m.Address, status, fmt.Sprint(len(m.Pending)), agent, run)
		}
		return l, err
	})
}

// listCommand is inspan mail list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list ADDRESS", Aliases: []string{"ls"},
		Short:   "List the messages of a mailbox: those that wait, and the last ones that left it",
		Example: "  inspan mail list web/worker/nux", Args: app.Args(1)}
	cmd.RunE = a.Connected(c.run)
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, args []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"MESSAGE", "STATE", "PRIORITY", "FROM", "SUBJECT"}, Empty: "No mail."}
		m, err := get(ctx, c, args[0])
		if err != nil {
			return l, err
		}
		for _, p := range m.Pending {
			l.Add(p.ID, p, p.ID, "pending", p.Priority, p.From, view.Clip(p.Subject, 80))
		}
		for _, p := range m.Claimed {
			l.Add(p.ID, p, p.ID, "claimed by "+p.By, p.Priority, p.From, view.Clip(p.Subject, 80))
		}
		for i := len(m.Done) - 1; i >= 0; i-- {
			d := m.Done[i]
			l.Add(d.ID, d, d.ID, d.State, "-", d.From, "-")
		}
		return l, nil
	})
}

// Get returns an address; the error names the nearest one of those that are meant where it is not registered, and else
// the command that lists them.
func Get(ctx context.Context, c *client.Client, address string, list string,
	meant func(events.Mailbox) bool) (events.Mailbox, error) {
	m, err := client.NewMail(c).Get(ctx, address)
	if !errors.Is(err, client.ErrNotFound) {
		return m, err
	}
	all, listed := client.NewMail(c).List(ctx)
	if listed != nil {
		return m, err
	}
	var known []string
	for _, o := range all {
		if meant(o) {
			known = append(known, o.Address)
		}
	}
	return m, fmt.Errorf("%w; %s", err, didyoumean.Hint(address, known, list))
}

// get is Get of any address.
func get(ctx context.Context, c *client.Client, address string) (events.Mailbox, error) {
	return Get(ctx, c, address, "inspan mail who lists the addresses", func(events.Mailbox) bool { return true })
}

// readCommand is inspan mail read.
type readCommand struct{ App *app.App }

func readCmd(a *app.App) *cobra.Command {
	c := &readCommand{a}
	return &cobra.Command{Use: "read ADDRESS ID", Short: "Show a message that waits; its agent is given it all the same",
		Example: "  inspan mail read web/worker/nux msg-k3v9", Args: app.Args(2), RunE: a.Connected(c.run)}
}

func (a *readCommand) run(ctx context.Context, c *client.Client, args []string) error {
	m, err := get(ctx, c, args[0])
	if err != nil {
		return err
	}
	for _, p := range m.Pending {
		if p.ID != args[1] {
			continue
		}
		if a.App.JSON {
			return a.App.PrintJSON(p)
		}
		a.App.Pairs([][2]string{{"from", p.From}, {"to", p.To}, {"priority", p.Priority}, {"thread", p.Thread},
			{"in reply to", p.ReplyTo},
			{"subject", view.Clip(p.Subject, events.MaxMailSubject)}, {"kind", p.Kind},
			{"sent", p.SentAt.In(a.App.Zone()).Format("2006-01-02 15:04:05 MST")},
			{"waits until", p.ExpiresAt.In(a.App.Zone()).Format("2006-01-02 15:04:05 MST")}})
		fmt.Fprintln(a.App.Out)
		for line := range strings.SplitSeq(view.Clip(p.Body, events.MaxMailBody), "\n") {
			fmt.Fprintln(a.App.Out, "  "+strings.TrimRight(line, "\r"))
		}
		if len(p.Data) > 0 {
			fmt.Fprintln(a.App.Out, "\n  "+view.Clip(string(p.Data), events.MaxMailData))
		}
		return nil
	}
	for _, d := range m.Done {
		if d.ID == args[1] {
			if a.App.JSON {
				return a.App.PrintJSON(d)
			}
			fmt.Fprintf(a.App.Out, "Message %s is %s %s\n", d.ID, d.State, d.Run)
			return nil
		}
	}
	return fmt.Errorf("no message %.64q in the mailbox of %s; inspan mail list %s shows what there is", args[1],
		m.Address, m.Address)
}
