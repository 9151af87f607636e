package colony

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// roles are the roles of all definitions, by their names.
func roles(ctx context.Context, c *client.Client) (map[string]events.AgentRole, error) {
	all, err := c.Agents(ctx)
	found := map[string]events.AgentRole{}
	for _, a := range all {
		for _, r := range a.Roles {
			found[r.Name] = r
		}
	}
	return found, err
}

// quotas are the addresses of roles.
func quotas(all []events.Mailbox) map[string]events.RoleQuota {
	found := map[string]events.RoleQuota{}
	for _, m := range all {
		if m.Life.Quota != nil {
			found[m.Address] = *m.Life.Quota
		}
	}
	return found
}

// waitsFor says what an idle agent waits for, where that is its role.
func waitsFor(m events.Mailbox, all map[string]events.RoleQuota) string {
	if m.Holder != nil || len(m.Pending) == 0 && m.Life.Account == nil {
		return ""
	}
	for _, q := range all {
		if slices.Contains(q.Waiting, m.Address) {
			var working []string
			for _, w := range q.Working {
				working = append(working, w.Agent)
			}
			return fmt.Sprintf("waits: %d of %d of its role are at work (%s)", len(working), q.Max, strings.Join(working, ", "))
		}
	}
	return ""
}

// rolesCommand is inspan agents roles.
type rolesCommand struct{ App *app.App }

func rolesCmd(a *app.App) *cobra.Command {
	c := &rolesCommand{a}
	return &cobra.Command{Use: "roles [ROLE]",
		Short: "List the roles of named agents, or explain where each value of one stands",
		Long: `Lists the roles that the files roles/ROLE.toml and PROJECT/ROLE/role.toml of the folder of agents make, with how many of their agents are
at work. With ROLE it shows each value and where it stands: in the file of the project, in that of all projects, or built in.`,
		Example: "  inspan agents roles\n  inspan agents roles web/worker", Args: app.ArgsBetween(0, 1),
		RunE: a.Connected(c.run)}
}

func (a *rolesCommand) run(ctx context.Context, c *client.Client, args []string) error {
	all, err := roles(ctx, c)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		r, ok := all[args[0]]
		if !ok {
			return fmt.Errorf("there is no role %.80q: %w; %s", args[0], client.ErrNotFound,
				didyoumean.Hint(args[0], slices.Sorted(maps.Keys(all)),
					"inspan agents roles lists the roles"))
		}
		return a.explain(r)
	}
	boxes, err := client.NewMail(c).List(ctx)
	if err != nil {
		return err
	}
	of := quotas(boxes)
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"roles": slices.Collect(maps.Values(all)), "quotas": of})
	}
	if len(all) == 0 {
		fmt.Fprintln(a.App.Out, "No roles. A file roles/ROLE.toml or PROJECT/ROLE/role.toml in the folder of agents makes one.")
		return nil
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, q := all[name], of[events.RoleAddressOf(name)]
		work := "any number"
		if r.Max > 0 {
			work = fmt.Sprintf("%d of %d", len(q.Working), r.Max)
		}
		rows = append(rows, []string{name, r.Agent, r.Start, work, fmt.Sprint(len(q.Waiting)),
			cmp.Or(strings.Join(r.Names, ", "), "-")})
	}
	a.App.Table([]string{"ROLE", "DEFINITION", "START", "AT WORK", ">WAITING", "+NAMES"}, rows)
	return nil
}

// explain prints each value of a role with where it stands.
func (a *rolesCommand) explain(r events.AgentRole) error {
	if a.App.JSON {
		return a.App.PrintJSON(r)
	}
	long := func(ms int64) string {
		if ms == 0 {
			return "as the station"
		}
		return (time.Duration(ms) * time.Millisecond).String()
	}
	values := map[string]string{"agent": r.Agent, "prompt_template": r.Prompt, "session.pattern": r.Pattern,
		"session.work_dir": cmp.Or(r.WorkDir, "the workspace"), "session.start_command": r.Start,
		"names":         strings.Join(r.Names, ", "),
		"max_instances": fmt.Sprint(r.Max), "supervisory": fmt.Sprint(r.Supervisory),
		"health.ping_timeout":    long(r.Health.PingMS),
		"health.stuck_threshold": long(r.Health.StuckMS), "health.kill_cooldown": long(r.Health.CooldownMS),
		"health.consecutive_failures": fmt.Sprint(r.Health.CrashLoop())}
	if r.Max == 0 {
		values["max_instances"] = "any number"
	}
	for name, value := range r.Env {
		values["env."+name] = value
	}
	var rows [][]string
	for _, key := range slices.Sorted(maps.Keys(r.From)) {
		rows = append(rows, []string{key, view.Clip(cmp.Or(values[key], "-"), 80), r.From[key]})
	}
	a.App.Table([]string{"KEY", "VALUE", "FROM"}, rows)
	return nil
}

func dispatchCmd(a *app.App) *cobra.Command {
	c := &steerCommand{App: a}
	cmd := &cobra.Command{Use: "dispatch PROJECT/ROLE TEXT",
		Short: "Give work to an agent of a role: a free one, else a new one",
		Long: `Sends TEXT to one agent of the role: to one that is free, else to a new one with a free name of the pool of the role, else with a name
that is made up. Of several who dispatch at once each gets another agent. Agents do the same with the tool mail_send, to
role/ROLE/of/PROJECT.`,
		Example: "  inspan agents dispatch web/worker \"Fix the login.\"\n  inspan agents watch $(inspan agents dispatch web/worker \"Fix it.\" --json | jq -r .address)",
		Args:    app.Args(2),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := events.ParseRole(args[0]); err != nil || !strings.Contains(args[0], "/") {
				return app.Usage("%.80q is no role of a project: want PROJECT/ROLE, each 1 to 20 of a-z 0-9 and -", args[0])
			}
			m, err := c.dispatch(ctx, cl, args[0], args[1])
			if err != nil || c.App.JSON {
				return errors.Join(err, printed(c, m, err))
			}
			fmt.Fprintf(c.App.Out, "%s has the work. See it: inspan agents show %s\n", m.Address, m.Address)
			return nil
		})}
	return c.by(cmd)
}

// dispatch sends a text to a role, and returns the agent that has it.
func (c *steerCommand) dispatch(ctx context.Context, cl *client.Client, role,
	text string) (m events.Mailbox, err error) {
	id := "dispatch-" + strings.ToLower(rand.Text())
	ctl := events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: text}, By: c.ctl.By}
	if err := errors.Join(ctl.Check(), mailbox.Check(events.RoleAddress, ctl)); err != nil {
		return m, app.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	if _, err := client.NewMail(cl).Control(ctx, events.RoleAddressOf(role), ctl); err != nil {
		return m, err
	}
	for {
		all, err := agents(ctx, cl)
		if err != nil {
			return m, err
		}
		for _, m := range all {
			if slices.ContainsFunc(m.Pending, func(p events.PendingMail) bool { return p.ID == id }) ||
				slices.ContainsFunc(m.Done, func(d events.DoneMail) bool { return d.ID == id }) {
				return m, nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return m, fmt.Errorf("the work stands in the log of %s, and no agent has it yet: %w; inspan agents list shows the agents", events.RoleAddressOf(role), ctx.Err())
		}
	}
}

// haltCommand is inspan colony stop.
type haltCommand struct {
	App   *app.App
	ctl   events.MailControl
	grace time.Duration
}

func haltCmd(a *app.App) *cobra.Command {
	c := &haltCommand{App: a, ctl: events.MailControl{Action: mailbox.Stop}}
	cmd := &cobra.Command{Use: "stop", Short: "Stop all named agents, those of supervisory roles last",
		Long: `Stops each named agent: its run ends and nothing wakes it until inspan agents start. Agents of supervisory roles are stopped when no
other one is at work any more, so that somebody looks at them to the end. Where they do not end in time, those are not stopped.`,
		Example: "  inspan colony stop\n  inspan colony stop --grace 10m --reason \"the machine is moved\"",
		Args:    app.Args(0), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.DurationVar(&c.grace, "grace", 2*time.Minute, "how long the runs of the agents may take to end")
	f.StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of each agent")
	f.StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *haltCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	if err := a.ctl.Check(); err != nil {
		return app.Usage("%w", err)
	}
	if a.grace <= 0 {
		return app.Usage("--grace %s: want a length of time above zero, such as 2m", a.grace)
	}
	all, err := agents(ctx, c)
	if err != nil {
		return err
	}
	defs, err := c.Agents(ctx)
	if err != nil {
		return err
	}
	var others, supervisors []string
	for _, m := range all {
		if supervisory(m, defs) {
			supervisors = append(supervisors, m.Address)
		} else {
			others = append(others, m.Address)
		}
	}
	for _, wave := range [][]string{others, supervisors} {
		if err := a.halt(ctx, c, wave); err != nil {
			return err
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"stopped": app.OrEmpty(slices.Concat(others, supervisors))})
	}
	fmt.Fprintf(a.App.Out, "%s stopped, %d of supervisory roles last. Let one go on: inspan agents start AGENT\n",
		view.Plural(len(all), "agent"), len(supervisors))
	return nil
}

// supervisory reports whether the role of an agent is.
func supervisory(m events.Mailbox, defs []events.Agent) bool {
	for _, d := range defs {
		if r := events.RoleOf(d.Roles, m.Address); d.Name == m.Spec.Agent && r != nil {
			return r.Supervisory
		}
	}
	return m.Life.Role != nil && m.Life.Role.Supervisory
}

// halt stops agents, and waits until none of them is at work.
func (a *haltCommand) halt(ctx context.Context, c *client.Client, wave []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.grace)
	defer cancel()
	mail := client.NewMail(c)
	for _, address := range wave {
		m, err := mail.Get(ctx, address)
		if err == nil && !m.Life.Stopped {
			_, err = mail.Control(ctx, address, a.ctl)
		}
		if err != nil {
			return fmt.Errorf("stop %s: %w", address, err)
		}
	}
	for _, address := range wave {
		for {
			m, err := mail.Get(ctx, address)
			if err == nil && m.Holder == nil {
				break
			}
			if err == nil {
				select {
				case <-time.After(100 * time.Millisecond):
					continue
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			return fmt.Errorf("%s is at work still, and no further agent was stopped: %w; wait for it, or give it more time with --grace", address, err)
		}
	}
	return nil
}
