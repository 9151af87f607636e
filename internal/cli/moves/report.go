package moves

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/move"
)

// show prints a plan.
func (c *moveCommand) show(p planned) error {
	if c.App.JSON {
		return c.App.PrintJSON(p)
	}
	if p.State == "done" {
		fmt.Fprintf(c.App.Out, "Station %s has moved to %s at %s: nothing is left to do but routes of yours.\n", p.Station, p.To,
			p.MovedAt.UTC().Format(time.RFC3339))
		return nil
	}
	pairs := [][2]string{{"station", p.Station}, {"from", p.From}, {"to", p.To},
		{"runs", fmt.Sprintf("%s, %s open", view.Count(p.Runs), view.Count(p.Open))},
		{"log", fmt.Sprintf("%s, %s", view.Plural(int(p.Events), "event"), view.Bytes(p.Bytes))}, //nolint:gosec // far below the limit
		{"objects", fmt.Sprintf("%s, %s", view.Count(p.Objects), view.Bytes(p.ObjectBytes))},
		{"copy", c.dir}, {"program", p.Version}}
	if p.SourceVersion != "" && p.SourceVersion != p.Version {
		pairs = append(pairs, [2]string{"source", "its services are version " + terminal.Sanitize(p.SourceVersion) +
			": the target gets what this program writes, so start services of version " + p.Version + " there"})
	}
	if p.State != "fresh" {
		pairs = append(pairs, [2]string{"state", "the move was interrupted and goes on"})
	}
	if p.Halted {
		pairs = append(pairs, [2]string{"halted", "by " + terminal.Sanitize(p.By) + ": " + terminal.Sanitize(p.Reason)})
	}
	c.App.Pairs(pairs)
	if len(p.OpenRuns) > 0 {
		fmt.Fprintln(c.App.Out, "\nOpen runs, which go on at the target:")
		for _, r := range p.OpenRuns {
			line := fmt.Sprintf("  %s  %s  %s", r.Run, r.Agent, r.Status)
			if r.Gates > 0 {
				line += ", waits at a gate"
			}
			fmt.Fprintln(c.App.Out, terminal.Sanitize(line))
		}
		if more := p.Open - len(p.OpenRuns); more > 0 {
			fmt.Fprintf(c.App.Out, "  and %s more\n", view.Count(more))
		}
		fmt.Fprintln(c.App.Out, "Their files go along where the station stores them (INSPAN_WORKSPACE_MODE=follow). What is only on the machine of a\n"+
			"toolrunner, and copies of a directory that inspan run made, stay there: a run that needs them fails at the target.\n"+
			"Let such runs end before the move.")
	}
	fmt.Fprintln(c.App.Out, "\nSteps:")
	for i, s := range p.Steps {
		fmt.Fprintf(c.App.Out, "  %d. %s\n", len(move.Steps())-len(p.Steps)+i+1, texts[s])
	}
	fmt.Fprintln(c.App.Out, "\nClients:")
	for _, line := range c.clients(p) {
		fmt.Fprintln(c.App.Out, "  "+line)
	}
	if c.dry {
		fmt.Fprintln(c.App.Out, "\nNothing was changed: this was --dry-run.")
	}
	return nil
}

// clients says what happens to those who use the station.
func (c *moveCommand) clients(p planned) []string {
	lines := []string{"From the halt on nothing runs. Calls that are under way end, as with inspan halt.",
		"Tasks and answers that are sent to the source until the release go along; later ones stay at the source, where nothing runs.",
		"Whoever names the source by a context, an address or a variable names the target from then on: programs, gateways, webhooks, other people."}
	if len(p.Projects) > 0 {
		lines = append(lines, "Your routes change to context "+c.to.context+": "+strings.Join(p.Projects, ", "))
	}
	if len(p.StillRouted) > 0 {
		lines = append(lines, "Your routes stay, as --to names no context: "+strings.Join(p.StillRouted, ", "))
	}
	if p.Stays {
		lines = append(lines, "The source was halted before: the target stays halted, until inspan release there.")
	}
	return lines
}

// report prints what a move did.
func (c *moveCommand) report(r move.Result, p planned) error {
	if c.App.JSON {
		return c.App.PrintJSON(r)
	}
	out := c.App.Out
	if r.Already {
		fmt.Fprintf(out, "Station %s had moved to %s before: nothing was changed there.\n", r.Station, r.To)
	} else {
		fmt.Fprintf(out, "Moved station %s to %s: %s, %s (%d open) are the same there, byte for byte, in %s\n", r.Station, r.To,
			view.Plural(int(r.Events), "event"), view.Plural(r.Runs, "run"), r.Open, r.Took.Round(time.Millisecond)) //nolint:gosec // far below the limit
	}
	if r.Carried > 0 {
		fmt.Fprintf(out, "%s came to the source meanwhile and went along\n", view.Plural(r.Carried, "input"))
	}
	if r.Late > 0 {
		fmt.Fprintf(c.App.Err, "%s came to the source after that: nothing there answers them, so their senders must send them to the target\n",
			view.Plural(r.Late, "input"))
	}
	for _, project := range r.Projects {
		fmt.Fprintf(out, "Project %s is routed to context %s\n", project, c.to.context)
	}
	for _, project := range p.StillRouted {
		fmt.Fprintf(out, "Project %s is still routed to context %s: inspan context add %s --force --server ADDRESS --station %s\n", project,
			c.from.context, c.from.context, c.station)
	}
	if c.from.context != "" && app.CurrentContext() == c.from.context {
		fmt.Fprintf(out, "Your commands still use context %s: inspan context use NAME changes that\n", c.from.context)
	}
	if r.Already {
		return nil
	}
	if !r.Released {
		fmt.Fprintf(out, "The target stays halted, as the source was for another reason (%s): inspan release lets it go on\n",
			terminal.Sanitize(p.Reason))
	}
	fmt.Fprintf(out, "Start there: %s\n", c.start())
	fmt.Fprintln(out, "Stop the services of the source and take its credentials away. It keeps what it has, and inspan release refuses to release it.")
	if r.Copy != "" {
		fmt.Fprintf(out, "The copy is a backup of the moment of the move; remove it when you do not need it: %s\n", r.Copy)
	}
	return nil
}

// start is what a person starts at the target.
func (c *moveCommand) start() string {
	if c.to.store != "" {
		return fmt.Sprintf("inspan up --store %s --station %s", c.to.store, c.station)
	}
	return "the services of station " + c.station
}
