// Package push has inspan agent push: it registers agent files at a station that runs.
//
// Promises: where a file is wrong nothing is registered. What is reported as registered was read back from the station.
package push

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// pushCommand is inspan agent push.
type pushCommand struct {
	App        *app.App
	dry, trust bool
}

// Command makes inspan agent push.
func Command(a *app.App) *cobra.Command {
	c := &pushCommand{App: a}
	cmd := &cobra.Command{
		Use: "push [DIR|FILE...]", Short: "Register agent files at a station that runs",
		Long: `Reads agent files with what they include, their pins and roles, compares each with what the station has, and registers what is new or
changed. The services use it at once, without a restart; runs that have begun keep the definition that they began with. Without an
argument it takes the folder agents, or the one that the settings name, once you accepted it (inspan trust).

Where a file is wrong nothing is registered and the exit code is 1. The defaults of "harness:" are those of the configuration here.
Registering needs a user who may: the station's setup user, by --context, --creds, the address, or INSPAN_NATS_USER and
INSPAN_NATS_PASSWORD_FILE. A station of inspan up lets no client do it: it registers the files of its own folder when they change.`,
		Example: `  inspan agent push --dry-run
  inspan agent push agents/reviewer.prompt --context production
  INSPAN_NATS_USER=setup INSPAN_NATS_PASSWORD_FILE=setup.password inspan agent push agents --server tls://nats.example:4222 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: c.run,
	}
	cmd.Flags().BoolVar(&c.dry, "dry-run", false,
		"say what would be registered, and register nothing; a user who may watch is enough")
	cmd.Flags().BoolVar(&c.trust, "trust", false,
		"accept for this once the agents and settings of the directory that no one named")
	return cmd
}

// stateInvalid is the state of a file that is wrong; the others are those of a service.Registration.
const stateInvalid = "invalid"

// item is a file and what became of it.
type item struct {
	Agent  string             `json:"agent,omitempty"`
	File   string             `json:"file"`
	State  string             `json:"state"`
	Fields []string           `json:"fields,omitempty"`
	Errors []*agentfile.Error `json:"errors,omitempty"`
	def    events.Agent
}

func (c *pushCommand) run(cmd *cobra.Command, args []string) error {
	r, err := c.read(cmd.Context(), args)
	if err != nil {
		return err
	}
	return c.App.Connected(func(ctx context.Context, cl *client.Client, _ []string) error {
		return c.push(ctx, cl, r)
	})(cmd, nil)
}

// push compares, registers and reports.
func (c *pushCommand) push(ctx context.Context, cl *client.Client, r *reading) error {
	kv, err := operator.Configuration(cl)
	if err != nil {
		return err
	}
	agents := &service.Agents{KV: kv}
	for i := range r.items {
		one := &r.items[i]
		if one.Agent, one.State = nameOf(*one), stateInvalid; len(one.Errors) > 0 {
			continue
		}
		found, err := agents.Compare(ctx, one.def)
		if err != nil {
			return c.denied(err)
		}
		one.State, one.Fields = found.State, found.Fields
	}
	invalid := r.invalid()
	if invalid == 0 && !c.dry {
		if err := c.register(ctx, agents, r); err != nil {
			return err
		}
	}
	if err := c.print(cl.Station(), r); err != nil {
		return err
	}
	if invalid > 0 {
		return fmt.Errorf("%s wrong: nothing was registered", are(invalid))
	}
	return nil
}

func are(n int) string {
	if n == 1 {
		return "1 file is"
	}
	return fmt.Sprintf("%d files are", n)
}

// register registers what differs, one agent after the other; an error says what was registered before it.
func (c *pushCommand) register(ctx context.Context, agents *service.Agents, r *reading) error {
	var done []string
	for _, one := range r.items {
		if one.State == service.AgentUnchanged {
			continue
		}
		if _, err := agents.Put(ctx, one.def); err != nil {
			if err = c.denied(err); len(done) > 0 {
				err = fmt.Errorf("%w (registered before: %s)", err, strings.Join(done, ", "))
			}
			return err
		}
		done = append(done, one.Agent)
	}
	return nil
}

// denied says what a user needs who may not register.
func (c *pushCommand) denied(err error) error {
	if !errors.Is(err, client.ErrDenied) {
		return err
	}
	return app.Exit(app.ExitRefused, fmt.Errorf("this user may not register agents at station %s of %s: name one who may, such as setup, with --context, --creds or INSPAN_NATS_USER; a station of inspan up registers the files of its own folder when they change: %w",
		c.App.Station, c.App.Address(), err))
}

func (c *pushCommand) print(station string, r *reading) error {
	if c.App.JSON {
		return c.App.PrintJSON(map[string]any{"station": station, "dry_run": c.dry, "agents": app.OrEmpty(r.items),
			"warnings": app.OrEmpty(r.warnings)})
	}
	p, changes := c.App.Paint(), 0
	paint := map[string]func(string) string{service.AgentNew: p.Green, service.AgentChanged: p.Yellow,
		service.AgentUnchanged: p.Dim, stateInvalid: p.Red}
	var rows [][]string
	for _, one := range r.items {
		if one.State == service.AgentNew || one.State == service.AgentChanged {
			changes++
		}
		rows = append(rows, []string{paint[one.State](one.State), one.Agent, view.Clip(one.File, 200),
			strings.Join(one.Fields, " ")})
	}
	if len(rows) > 0 {
		c.App.Table([]string{"STATE", "NAME", "FILE", "FIELDS"}, rows)
	}
	for _, w := range r.warnings {
		fmt.Fprintf(c.App.Err, "%s  %s\n", p.Yellow("note "), terminal.Sanitize(w.String()))
	}
	for _, one := range r.items {
		for _, f := range one.Errors {
			fmt.Fprintf(c.App.Err, "%s  %s\n", p.Red("wrong"), terminal.Sanitize(f.Error()))
		}
	}
	switch {
	case r.invalid() > 0:
	case len(rows) == 0:
		fmt.Fprintln(c.App.Out, "There is no agent file. Make one with: inspan agent init NAME")
	case c.dry:
		fmt.Fprintf(c.App.Out, "%s would be registered at station %s.\n", view.Plural(changes, "agent"), station)
	default:
		fmt.Fprintf(c.App.Out, "%s registered at station %s; runs that have begun keep what they began with.\n",
			view.Plural(changes, "agent"), station)
	}
	return nil
}
