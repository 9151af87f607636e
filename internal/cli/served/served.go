// Package served has the commands that list and pin tools which programs serve to a station over NATS.
package served

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// gatherWait is how long the programs that serve tools may take to answer.
const gatherWait = time.Second

// servedCommand is inspan tools served, and inspan tools pin.
type servedCommand struct {
	App *app.App
	dir string
	// builtin are the names of the built-in tools, which no other tool may have.
	builtin []string
}

// Commands are those below inspan tools. builtin names the built-in tools.
func Commands(a *app.App, builtin []string) []*cobra.Command {
	c := &servedCommand{App: a, builtin: builtin}
	list := &cobra.Command{
		Use: "served", Short: "List the tools that programs serve to the station over NATS, and which are pinned",
		Long: `Asks the programs that serve tools to the station over NATS what they serve, and compares it with what is pinned in the file
served.json of the folder of agents. An agent gets such a tool where it names it under tools and it is pinned.`,
		Example: "  inspan tools served\n  inspan tools served --agents agents --json",
		Args:    app.Args(0), RunE: a.Connected(c.list),
	}
	pin := &cobra.Command{
		Use: "pin NAME...", Short: "Allow tools that programs serve over NATS as they are now",
		Long: `Asks the programs that serve the tools over NATS for their specifications and writes them to the file served.json in the folder of
agents: name, description, schema, effect class, time limit, and the name of the server. Look at that file before you register the
agents again: it is what the model will read. A server with another specification is refused until it is pinned again.`,
		Example: "  inspan tools pin forecast\n  inspan tools pin forecast book_flight --agents agents",
		Args:    cobra.MinimumNArgs(1), RunE: a.Connected(c.pin),
	}
	for _, cmd := range []*cobra.Command{list, pin} {
		cmd.Flags().StringVar(&c.dir, "agents", a.Lookup("INSPAN_AGENTS", "agents"),
			"folder of agent files, with served.json (INSPAN_AGENTS)")
	}
	return []*cobra.Command{list, pin}
}

// servedRow is one tool that is served or pinned.
type servedRow struct {
	Name   string `json:"name"`
	Effect string `json:"effect"`
	Server string `json:"server"`
	Digest string `json:"digest"`
	// Programs is how many serve it in this form now.
	Programs int `json:"programs"`
	// Status is answering, no responder, not pinned, or changed since it was pinned.
	Status string `json:"status"`
}

// Statuses of a served tool.
const (
	statusAnswering = "answering"
	statusSilent    = "no responder"
	statusNew       = "not pinned"
	statusChanged   = "changed since it was pinned"
)

// servedRows compares what is pinned with what is served.
func servedRows(pins agentfile.Served, live []wire.Spec) []servedRow {
	var rows []servedRow
	seen := map[string]int{} // by name and digest
	for _, s := range live {
		key := s.Name + " " + s.Digest
		if i, ok := seen[key]; ok {
			rows[i].Programs++
			continue
		}
		status := statusNew
		if p, ok := pins.Find(s.Name); ok {
			status = statusChanged
			if p.Digest == s.Digest {
				status = statusAnswering
			}
		}
		seen[key] = len(rows)
		rows = append(rows, servedRow{s.Name, s.Effect, s.Server, s.Digest, 1, status})
	}
	for _, p := range pins.Tools {
		if _, ok := seen[p.Name+" "+p.Digest]; !ok {
			rows = append(rows, servedRow{p.Name, p.Effect, p.Server, p.Digest, 0, statusSilent})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Digest, b.Digest)) < 0
	})
	return rows
}

// pins reads those of the folder.
func (a *servedCommand) pins() (agentfile.Served, error) {
	pins, err := agentfile.ReadServed(a.dir)
	if err != nil {
		return pins, app.Usage("--agents %s: %w", a.dir, err)
	}
	return pins, nil
}

func (a *servedCommand) list(ctx context.Context, c *client.Client, _ []string) error {
	pins, err := a.pins()
	if err != nil {
		return err
	}
	live, err := operator.Served(ctx, c, gatherWait)
	if err != nil {
		return err
	}
	rows := servedRows(pins, live)
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"tools": app.OrEmpty(rows)})
	}
	if len(rows) == 0 {
		fmt.Fprintf(a.App.Err, "No program serves tools to station %s, and none are pinned in %s.\n", c.Station(), a.dir)
		return nil
	}
	p := a.App.Paint()
	var table [][]string
	for _, r := range rows {
		status := p.Yellow(r.Status)
		if r.Status == statusAnswering {
			status = p.Green(r.Status)
		}
		table = append(table, []string{r.Name, r.Effect, r.Server, p.Dim(fmt.Sprintf("%.8s", r.Digest)),
			fmt.Sprint(r.Programs), status})
	}
	a.App.Table([]string{"TOOL", "EFFECT", "SERVER", "DIGEST", "PROGRAMS", "STATUS"}, table)
	return nil
}

func (a *servedCommand) pin(ctx context.Context, c *client.Client, names []string) error {
	pins, err := a.pins()
	if err != nil {
		return err
	}
	found, err := a.find(ctx, c, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		spec := found[name]
		if slices.Contains(a.builtin, name) {
			return fmt.Errorf("%s is a built-in tool; serve yours under another name", name)
		}
		if err := agentfile.CheckServed(spec); err != nil {
			return fmt.Errorf("%s cannot be pinned: %w", name, err)
		}
		pins = pins.With(spec)
	}
	at, err := pins.Write(a.dir)
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(pins)
	}
	for _, name := range names {
		s := found[name]
		fmt.Fprintf(a.App.Out, "%s  %s, %s, of the server %s, digest %.8s\n%s\n", s.Name, s.Effect,
			time.Duration(s.TimeoutMS)*time.Millisecond, s.Server, s.Digest, view.Clip(s.Description, 2000))
	}
	fmt.Fprintf(a.App.Err, "Pinned in %s. Register the agents again (inspan up or inspan setup with --agents) to use it.\n",
		at)
	return nil
}

// find asks until each tool has answered, and refuses one whose programs have different specifications.
func (a *servedCommand) find(ctx context.Context, c *client.Client, names []string) (map[string]wire.Spec, error) {
	for until := time.Now().Add(a.App.Wait); ; {
		live, err := operator.Served(ctx, c, gatherWait)
		if err != nil {
			return nil, err
		}
		found, missing := map[string]wire.Spec{}, []string(nil)
		for _, s := range live {
			if other, ok := found[s.Name]; ok && other.Digest != s.Digest && slices.Contains(names, s.Name) {
				return nil, fmt.Errorf("the programs that serve %s have different specifications, with the digests %.8s and %.8s: stop the old ones first", s.Name, other.Digest, s.Digest)
			}
			found[s.Name] = s
		}
		for _, name := range names {
			if _, ok := found[name]; !ok {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			return found, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("no program serves %s to station %s: start it, and look with: inspan tools served",
				strings.Join(missing, ", "), c.Station())
		}
	}
}
