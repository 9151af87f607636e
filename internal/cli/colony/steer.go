package colony

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// steerCommand publishes one control of an agent.
type steerCommand struct {
	App *app.App
	ctl events.MailControl
}

func (c *steerCommand) by(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.ctl.By, "by", c.App.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func steerCmd(a *app.App, action, title string) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.MailControl{Action: action}}
	cmd := &cobra.Command{Use: action + " AGENT", Short: title, Example: "  inspan agents " + action + " web/worker/nux",
		Args: app.Args(1),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			m, err := c.publish(ctx, cl, args[0])
			if err == nil {
				err = c.print(m)
			}
			return err
		})}
	cmd.Flags().StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of the agent")
	if action == mailbox.Handoff {
		cmd.Flags().StringVar(&c.ctl.Summary, "summary", "", "where the work stands; its last words if not given")
		cmd.Example += " --summary \"the parser is done, the tests are left\""
	}
	return c.by(cmd)
}

// publish has the station carry out the control.
func (c *steerCommand) publish(ctx context.Context, cl *client.Client, address string) (events.Mailbox, error) {
	form, _, err := events.ParseAddress(address)
	if err == nil && form != events.AgentAddress {
		err = fmt.Errorf("%.80q is not the address of an agent: want PROJECT/ROLE/NAME", address)
	}
	if err == nil {
		err = errors.Join(c.ctl.Check(), mailbox.Check(form, c.ctl))
	}
	if err != nil {
		return events.Mailbox{}, app.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	return client.NewMail(cl).Control(ctx, address, c.ctl)
}

func (c *steerCommand) print(m events.Mailbox) error {
	if c.App.JSON {
		return c.App.PrintJSON(m)
	}
	fmt.Fprintf(c.App.Out, "%s is %s. See it: inspan agents show %s\n", m.Address, mailbox.StateOf(m), m.Address)
	return nil
}

func registerCmd(a *app.App) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.MailControl{Action: mailbox.Register}}
	spec := &events.AddressSpec{}
	c.ctl.Spec = spec
	var names []string
	cmd := &cobra.Command{Use: "register AGENT",
		Short: "Register a named agent: its address and definition do not change from then on",
		Long: `Registers PROJECT/ROLE/NAME. With --names AGENT is PROJECT/ROLE, and the agent gets the first of the names that is free: of several who
register at once each gets another one.`,
		Example: "  inspan agents register web/worker/nux --agent coder\n  inspan agents register web/lead/ada --agent planner --respawn --escalate web/lead/eve\n" +
			"  inspan agents register web/worker --names nux,ada,eve --agent coder", Args: app.Args(1),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			m, err := c.named(ctx, cl, args[0], names)
			if err != nil || c.App.JSON {
				return errors.Join(err, printed(c, m, err))
			}
			fmt.Fprintf(c.App.Out, "Registered %s. Give it work: inspan agents start %s TEXT\n", m.Address, m.Address)
			return nil
		})}
	f := cmd.Flags()
	f.StringSliceVar(&names, "names", nil, "pool of names, the first that is free is taken; AGENT is then PROJECT/ROLE")
	f.StringVar(&spec.Agent, "agent", "", "definition that the agent runs")
	f.StringVar(&spec.Session, "session", "", "session that all its runs go on in; one of its own if not given")
	f.StringVar(&spec.Escalate, "escalate", "", "address that alerts about the agent are sent to, as mail")
	f.BoolVar(&spec.Respawn, "respawn", false,
		"a critical agent: its next run goes on where one failed, without waiting for mail")
	return c.by(cmd)
}

// named registers an agent, with the first name of a pool that is free. The station decides which is.
func (c *steerCommand) named(ctx context.Context, cl *client.Client, at string, names []string) (m events.Mailbox,
	err error) {
	if len(names) == 0 {
		return c.publish(ctx, cl, at)
	}
	for _, name := range names {
		m, err = c.publish(ctx, cl, at+"/"+name)
		if no, ok := errors.AsType[*client.RefusedError](err); !ok || no.Code != mailbox.Exists {
			return m, err
		}
	}
	return m, fmt.Errorf("each name of the pool is taken: %w", err)
}

// printed prints an agent as JSON where there is no error.
func printed(c *steerCommand, m events.Mailbox, err error) error {
	if err != nil {
		return nil
	}
	return c.App.PrintJSON(m)
}

func startCmd(a *app.App) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.MailControl{Action: mailbox.Start}}
	cmd := &cobra.Command{Use: "start AGENT [TEXT]",
		Short:   "Start an agent: let it go on after a stop, or give it TEXT to do, as a message that wakes it",
		Example: "  inspan agents start web/worker/nux\n  inspan agents start web/worker/nux \"Write the report.\"",
		Args:    app.ArgsBetween(1, 2),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			m, err := get(ctx, cl, args[0])
			if err == nil && (m.Life.Stopped || m.Fails > 0 || len(args) == 1) {
				m, err = c.publish(ctx, cl, args[0])
			}
			if err == nil && len(args) == 2 {
				m, err = c.message(events.MailDraft{Body: args[1]}).publish(ctx, cl, args[0])
			}
			if err == nil {
				err = c.print(m)
			}
			return err
		})}
	return c.by(cmd)
}

func injectCmd(a *app.App) *cobra.Command {
	c := &steerCommand{App: a}
	cmd := &cobra.Command{Use: "inject AGENT TEXT",
		Short:   "Give an agent a text before its next turn, as an urgent message; an idle agent wakes",
		Example: "  inspan agents inject web/worker/nux \"Use the other branch.\"", Args: app.Args(2),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			m, err := c.message(events.MailDraft{Body: args[1], Priority: "urgent"}).publish(ctx, cl, args[0])
			if err == nil {
				err = c.print(m)
			}
			return err
		})}
	return c.by(cmd)
}

// message is the control that sends a draft.
func (c *steerCommand) message(d events.MailDraft) *steerCommand {
	return &steerCommand{App: c.App, ctl: events.MailControl{Action: mailbox.Send, Mail: &d, By: c.ctl.By}}
}
