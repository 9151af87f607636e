// Package stations has inspan stations: the stations that a person reaches, and which project is at which of them.
//
// Promises: listing changes nothing, and a station that cannot be reached is a row that says so. A route is the
// person's own and is taken from no file of a project.
package stations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/client"
)

// Command makes inspan stations and the commands below it. more are commands of other packages.
func Command(a *app.App, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stations", Aliases: []string{"station"}, Short: "List stations, and say which project is at which of them",
		Long: `More work than one station carries goes to more stations: each has its own log, streams, services, users and limits, and several can be on the
same NATS server or cluster. A run is at one station and stays there. docs/stations.md says how to divide projects between stations.`,
		Example: "  inspan stations list\n  inspan stations route web eu --dir ~/src/web\n  inspan stations route\n" +
			"  inspan stations move lab --from old --to new --users /etc/inspan/creds --dry-run",
		Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(append([]*cobra.Command{listCmd(a), routeCmd(a)}, more...)...)
	return cmd
}

// listCommand is inspan stations list.
type listCommand struct {
	App *app.App
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the stations that you reach: runs, size of the log, last activity",
		Long: `Lists the stations of all contexts of inspan, and the one that commands here use. With --context, --server or --station it asks that
one only. Where several stations are in one account of NATS and these credentials may list its streams, all of them are listed.

A station that cannot be asked is a row that says why; the exit code is 1 where none could be asked, and 4 where the right watch is missing for all.
Counts come from the log, whatever the number of runs. VERSION is not known where an account has several stations.`,
		Example: "  inspan stations list\n  inspan stations list --context eu --json\n  inspan stations list --json | jq '.[] | {station, open_runs}'",
		Args:    app.Args(0), RunE: c.run,
	}
}

// row is a station as it is listed.
type row struct {
	client.StationSummary
	Server  string `json:"server"`
	Context string `json:"context,omitempty"`
	// Current says that commands here use it.
	Current bool `json:"current"`
	// Projects are those that are routed to it.
	Projects []string `json:"projects,omitempty"`
	// Error says why the station could not be asked.
	Error string `json:"error,omitempty"`
	err   error
}

// way is one way to reach a station: the context of a name, or what commands here use.
type way struct {
	context string
	current bool
	app     *app.App
	err     error
}

func (c *listCommand) run(cmd *cobra.Command, _ []string) error {
	if c.App.Local {
		return app.Usage("--local is one station in one file: inspan runs shows what it has")
	}
	routes, err := app.Routes()
	if err != nil {
		return err
	}
	all := ask(cmd.Context(), ways(c.App))
	for i := range all {
		for _, r := range routes {
			if r.Station == all[i].Station && r.Context == all[i].Context {
				all[i].Projects = append(all[i].Projects, r.Project)
			}
		}
	}
	l := app.Listing{Heads: []string{"", "STATION", "CONTEXT", ">RUNS", ">OPEN", ">LOG", ">FULL", "LAST EVENT", "VERSION",
		"+POLICY", "+PROJECTS", "+SERVER"}}
	failed := 0
	for _, r := range all {
		if r.err != nil {
			failed++
		}
		l.Add(r.Station, r, r.cells()...)
	}
	if err := c.App.Print(l); err != nil {
		return err
	}
	for _, r := range all {
		if r.err != nil && !c.App.JSON && len(all) > 1 {
			fmt.Fprintf(c.App.Err, "station %s at %s: %s\n", r.Station, r.Server, terminal.Sanitize(r.Error))
		}
	}
	if failed == len(all) {
		return fmt.Errorf("no station could be asked: %w", all[0].err)
	}
	return nil
}

// cells are the row of the table.
func (r row) cells() []string {
	mark := ""
	if r.Current {
		mark = "*"
	}
	head := []string{mark, r.Station, cmp.Or(r.Context, "-")}
	projects := "-"
	if len(r.Projects) > 0 {
		projects = fmt.Sprint(r.Projects)
	}
	if r.err != nil {
		why := "not reached"
		switch {
		case errors.Is(r.err, client.ErrDenied):
			why = "not permitted"
		case errors.Is(r.err, jet.ErrNotSetUp):
			why = "not set up"
		}
		return append(head, "-", "-", "-", "-", why, "-", "-", projects, r.Server)
	}
	full, last := "-", "-"
	if r.Limit > 0 {
		full = fmt.Sprintf("%.0f %%", 100*float64(r.Bytes)/float64(r.Limit))
	}
	if !r.Last.IsZero() {
		last = app.Age(r.Last) + " ago"
	}
	if r.Halted {
		last = "halted"
	}
	if r.MovedTo != "" {
		last = "moved to " + terminal.Sanitize(r.MovedTo)
	}
	policy := cmp.Or(r.Policy, "-")
	if len(policy) > 12 {
		policy = policy[:12]
	}
	return append(head, fmt.Sprint(r.Runs), fmt.Sprint(r.Open), view.Bytes(r.Bytes), full, last, cmp.Or(r.Version, "-"), policy,
		projects, r.Server)
}

// ways are what commands here use, and, where no flag says which station is meant, all contexts of inspan.
func ways(a *app.App) []way {
	here := *a
	first := way{current: true, app: &here}
	first.err = here.UseContext()
	first.context = here.Context.Name
	all := []way{first}
	if a.Given("context") || a.Given("server") || a.Given("station") {
		return all
	}
	if first.context == "" && !here.NamesServer() && !here.Locate(context.Background(), here.Folder) {
		if len(app.Contexts()) > 0 {
			all = nil // nothing names a station here but the built-in address
		}
	}
	for _, name := range app.Contexts() {
		c, err := app.LoadContext(name)
		if name == first.context || err == nil && c.Station == "" && len(name) > len(app.NatsContext) &&
			name[:len(app.NatsContext)] == app.NatsContext {
			continue // a context of the nats program does not say that there is a station
		}
		one := *a
		all = append(all, way{context: name, app: &one, err: app.UseNamed(&one, name)})
	}
	return all
}

// askWait is how long a station is waited for.
const askWait = 10 * time.Second

// ask asks all at the same time.
func ask(ctx context.Context, all []way) []row {
	found := make([][]row, len(all))
	var asking sync.WaitGroup
	for i, w := range all {
		asking.Go(func() { found[i] = w.ask(ctx) })
	}
	asking.Wait()
	return slices.Concat(found...)
}

func (w way) ask(ctx context.Context) []row {
	ctx, cancel := context.WithTimeout(ctx, max(askWait, w.app.Wait))
	defer cancel()
	of := row{StationSummary: client.StationSummary{Station: w.app.Station}, Server: w.app.Address(), Context: w.context,
		Current: w.current}
	failed := func(err error) []row {
		of.err, of.Error = err, err.Error()
		return []row{of}
	}
	if w.err != nil {
		return failed(w.err)
	}
	c, err := w.app.Connect(ctx)
	of.Station, of.Server = w.app.Station, w.app.Address() // of the station of this project
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	stations, err := client.StationsOf(ctx, c)
	if errors.Is(err, client.ErrDenied) {
		return failed(app.Exit(app.ExitRefused, fmt.Errorf("%w: the user needs the right watch", err)))
	}
	if err != nil {
		return failed(err)
	}
	out := make([]row, len(stations))
	for i, s := range stations {
		out[i] = of
		out[i].StationSummary = s
		out[i].Current = w.current && s.Station == w.app.Station
	}
	return out
}
