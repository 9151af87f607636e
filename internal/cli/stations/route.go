package stations

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

// routeCommand is inspan stations route.
type routeCommand struct {
	App           *app.App
	dirs          []string
	remove, force bool
}

func routeCmd(a *app.App) *cobra.Command {
	c := &routeCommand{App: a}
	cmd := &cobra.Command{
		Use: "route [PROJECT] [STATION]", Short: "Say at which station a project is, or list the routes",
		Long: `Commands for a project use the context that reaches its station. A command is for the project that its --project names, and otherwise for the
one whose directory (--dir) is the working directory or the nearest above it. STATION is the name of a station that one context names, or of a
context; with --context it is checked against that one.

Whoever says which station is meant is not routed: --server, --context, --station, --local and the variables INSPAN_NATS_URL, INSPAN_NATS_CONTEXT
and INSPAN_STATION stand above a route. A route stands above the context that was chosen (inspan context use) and above configuration files; in
the directory of a project, inspan config explain station shows it. Runs stay where they began: a new route moves none.

The routes are yours, in the file routes.json next to your contexts. No file of a project can set one.`,
		Example: "  inspan stations route\n  inspan stations route web eu --dir ~/src/web\n  inspan run fixer \"make the tests pass\" --project web\n" +
			"  inspan stations route web us --force\n  inspan stations route web --remove",
		Args: app.ArgsBetween(0, 2), ValidArgsFunction: complete, RunE: c.run,
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.dirs, "dir", nil, "a directory of the project: commands in it and below it are for the project")
	f.BoolVar(&c.remove, "remove", false, "remove the route of the project")
	f.BoolVar(&c.force, "force", false, "change the station of a project that has a route")
	return cmd
}

// complete completes the project, then the station.
func complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	switch len(args) {
	case 0:
		all, err := app.Routes()
		if err != nil {
			break
		}
		for _, r := range all {
			out = append(out, r.Project)
		}
	case 1:
		out = app.Contexts()
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c *routeCommand) run(_ *cobra.Command, args []string) error {
	all, err := app.Routes()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && !c.remove:
		return c.set(all, args[0], args[1])
	case len(args) != 1 && c.remove:
		return app.Usage("--remove takes the project alone: inspan stations route PROJECT --remove")
	case len(c.dirs) > 0 || c.force:
		return app.Usage("--dir and --force are for setting a route: inspan stations route PROJECT STATION")
	case len(args) == 0:
		return c.list(all)
	}
	i := slices.IndexFunc(all, func(r app.Route) bool { return r.Project == args[0] })
	if i < 0 {
		var known []string
		for _, r := range all {
			known = append(known, r.Project)
		}
		return app.Exit(app.ExitUnknown, fmt.Errorf("project %q has no route; %s", args[0],
			didyoumean.Hint(args[0], known, "inspan stations route lists them")))
	}
	if !c.remove {
		return c.show(all[i])
	}
	station := all[i].Station
	if err := app.SaveRoutes(slices.Delete(all, i, i+1)); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Err, "Project %s is not routed any more; runs of it stay at station %s.\n", args[0], station)
	return nil
}

// set sets the route of a project.
func (c *routeCommand) set(all []app.Route, project, station string) error {
	if err := events.CheckID("project", project); err != nil {
		return app.Usage("%w", err)
	}
	r := app.Route{Project: project}
	var err error
	if r.Context, r.Station, err = c.reaches(station); err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r app.Route) bool { return r.Project == project })
	if i >= 0 {
		was := all[i]
		if (was.Station != r.Station || was.Context != r.Context) && !c.force {
			return app.Exit(app.ExitFailed, fmt.Errorf("project %s is routed to station %s (context %s): --force changes that, and its runs stay there",
				project, was.Station, was.Context))
		}
		r.Dirs = was.Dirs
		all = slices.Delete(all, i, i+1)
	}
	for _, dir := range c.dirs {
		at, err := app.ProjectDir(dir)
		if err != nil {
			return app.Usage("--dir: %w", err)
		}
		for _, other := range all {
			if slices.Contains(other.Dirs, at) {
				return app.Exit(app.ExitFailed, fmt.Errorf("%s is a directory of project %s: remove that route first (inspan stations route %s --remove)",
					at, other.Project, other.Project))
			}
		}
		if !slices.Contains(r.Dirs, at) {
			r.Dirs = append(r.Dirs, at)
		}
	}
	if err := app.SaveRoutes(append(all, r)); err != nil {
		return err
	}
	return c.show(r)
}

// reaches finds the context that reaches a station. station may be the name of the context.
func (c *routeCommand) reaches(station string) (context, name string, err error) {
	if given := c.App.ContextFlag; given != "" {
		of, err := app.LoadContext(given)
		if err != nil {
			return "", "", err
		}
		if is := app.StationOf(of); is != station {
			return "", "", app.Usage("context %s reaches station %s, not %s", given, is, station)
		}
		return given, station, nil
	}
	var names, stations []string
	for _, n := range app.Contexts() {
		of, err := app.LoadContext(n)
		if err != nil || strings.HasPrefix(n, app.NatsContext) && of.Station == "" {
			continue
		}
		if app.StationOf(of) == station {
			names = append(names, n)
		}
		stations = append(stations, app.StationOf(of))
	}
	switch {
	case len(names) == 1:
		return names[0], station, nil
	case len(names) > 1:
		return "", "", app.Usage("the contexts %s reach stations named %s: say which with --context", strings.Join(names, ", "),
			station)
	}
	of, err := app.LoadContext(station)
	if err == nil {
		return station, app.StationOf(of), nil
	}
	return "", "", app.Exit(app.ExitUnknown, fmt.Errorf("no context reaches a station %q: add one with inspan context add NAME --server ADDRESS --station %s; %s",
		station, station, didyoumean.Hint(station, stations, "inspan context list lists them")))
}

func (c *routeCommand) list(all []app.Route) error {
	l := app.Listing{Heads: []string{"PROJECT", "STATION", "CONTEXT", "DIRECTORIES"},
		Empty: "No project is routed. Route one with: inspan stations route PROJECT STATION --dir DIR"}
	for _, r := range all {
		l.Add(r.Project, r, r.Project, r.Station, r.Context, cmp.Or(strings.Join(r.Dirs, " "), "-"))
	}
	return c.App.Print(l)
}

func (c *routeCommand) show(r app.Route) error {
	if c.App.JSON {
		return c.App.PrintJSON(r)
	}
	c.App.Pairs([][2]string{{"project", r.Project}, {"station", r.Station}, {"context", r.Context},
		{"directories", cmp.Or(strings.Join(r.Dirs, " "), "none: --project names the project")}})
	return nil
}
