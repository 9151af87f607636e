// Package moves has inspan stations move: a station goes to another place.
//
// Promises: the plan is shown before anything is changed, and every error says whether the same command goes on.
package moves

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/backups"
	"github.com/inspan/inspan/internal/move"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// moveCommand is inspan stations move.
type moveCommand struct {
	App                *app.App
	station            string
	from, to           moveEnd
	keys, dir, by      string
	newKeys            bool
	dry, yes, takeBack bool
}

// Command makes inspan stations move.
func Command(a *app.App) *cobra.Command {
	c := &moveCommand{App: a}
	cmd := &cobra.Command{
		Use: "move STATION", Short: "Move a station to another server, cluster, account or folder",
		Long: `Moves a station under its name. It halts the source, copies it to a folder, fills the target from that, audits every run there, compares every event with
the source, marks the source as moved, changes your routes, and releases the target. Runs that wait at gates go on there. It shows the plan and
asks first; --dry-run ends after the plan and changes nothing.

Interrupted at any point, the same command goes on; called once more after that, it changes nothing. --abort takes the move back as long as the target
is not released. The source keeps all that it has, stays halted, and inspan release refuses to release it. A station that was halted for another reason
stays halted at the target as well.

--from is a context, whose user needs the rights watch, halt and backup, or --from-store a folder of inspan up that does not run. The target is empty, and no
service of it runs: --to is a context of a server with the user upgrade (--users), --store a folder. With --store, --to names the context that the routes
change to. Start the services of the target afterwards, and stop those of the source.`,
		Example: "  inspan stations move lab --from old --to new --users /etc/inspan/creds --from-users /etc/inspan/old-creds --dry-run\n" +
			"  inspan stations move lab --from-store .inspan --store /srv/inspan\n" +
			"  inspan stations move lab --from old --store /srv/inspan --to here --keys /etc/inspan/lab.keys --yes\n" +
			"  inspan stations move lab --from old --to new --users /etc/inspan/creds --abort\n" +
			"  inspan stations move lab --from old --to new --new-keys --yes --json | jq .released",
		Args: app.Args(1), ValidArgsFunction: cobra.NoFileCompletions, RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.from.context, "from", "", "context of the station that moves")
	f.StringVar(&c.from.store, "from-store", "", "folder of a station of inspan up that does not run, instead of --from")
	f.StringVar(&c.from.users, "from-users", "",
		"users of the source's server, as --users: needed for its keys, and where its services do not run")
	f.StringVar(&c.to.context, "to", "", "context of the place that it moves to")
	f.StringVar(&c.to.store, "store", "", "folder that it moves to, for inspan up --store")
	f.StringVar(&c.to.users, "users", "",
		"where the server of the target has users: folder with upgrade.creds, or a file of lines NATS_ROLE_PASSWORD=...; else these variables")
	f.StringVar(&c.keys, "keys", "", "file with the station's own keys that inspan backup --keys wrote, where --from-users is not given")
	f.BoolVar(&c.newKeys, "new-keys", false,
		"do without the keys; idempotent calls that had started are not made again, and messages that come once more may start a second run")
	f.StringVar(&c.dir, "dir", "", "folder for the copy; one next to your contexts if not given")
	f.StringVar(&c.by, "by", a.Me(), "who moves it (INSPAN_APPROVER, USER)")
	f.BoolVar(&c.dry, "dry-run", false, "show the plan and change nothing")
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&c.takeBack, "abort", false, "take the move back, before the target is released")
	return cmd
}

func (c *moveCommand) run(cmd *cobra.Command, args []string) error {
	c.station = args[0]
	if err := c.check(); err != nil {
		return err
	}
	return c.from.source(cmd.Context(), c, func(ctx context.Context, from source) error {
		cfg := move.Config{Station: c.station, From: from.Source, To: move.Target{Name: c.to.name}, Dir: c.dir,
			NewKeys: c.newKeys, By: c.by, Version: service.Version(), Now: time.Now,
			Progress: backups.Figures(c.App, time.Now), Begin: c.begin, Reroute: c.reroute()}
		if c.takeBack {
			return c.to.target(ctx, c, func(ctx context.Context, to move.Target) error {
				cfg.To = to
				return c.abort(ctx, cfg)
			})
		}
		return c.plan(ctx, cfg, from)
	})
}

// check reads the command line.
func (c *moveCommand) check() error {
	if err := events.CheckID("station", c.station); err != nil {
		return app.Usage("%w", err)
	}
	switch {
	case (c.from.context == "") == (c.from.store == ""):
		return app.Usage("name the source: --from CONTEXT, or --from-store DIR, the folder of a station that does not run")
	case c.to.context == "" && c.to.store == "":
		return app.Usage("name the target: --to CONTEXT, or --store DIR; inspan context list lists the contexts")
	case c.keys != "" && c.newKeys:
		return app.Usage("--keys and --new-keys exclude each other: leave one of them out")
	case c.dry && c.takeBack:
		return app.Usage("--dry-run and --abort exclude each other: leave one of them out")
	}
	if c.to.store == "" && c.to.context == c.from.context {
		return app.Usage("--from and --to are the same context: name another place")
	}
	if err := errors.Join(c.from.complete(c.App, c.station), c.to.complete(c.App, c.station)); err != nil {
		return err
	}
	if c.from.store != "" && c.from.store == c.to.store {
		return app.Usage("--from-store and --store are the same folder: name another place")
	}
	if c.dir == "" {
		base := app.PersonalDir()
		if base == "" {
			return app.Usage("there is no home folder to put the copy in: name a folder with --dir")
		}
		c.dir = filepath.Join(base, "moves", c.station)
	}
	var err error
	c.dir, err = filepath.Abs(c.dir)
	return err
}

// texts say what a step does.
var texts = map[move.Step]string{
	move.StepHalt:    "halt the source",
	move.StepBackup:  "copy the source to the folder",
	move.StepRestore: "fill the target from it, and audit every run there",
	move.StepCompare: "compare every event of the target with the source",
	move.StepMark:    "mark the source as moved, so that it is not released by mistake",
	move.StepRoutes:  "change your routes",
	move.StepCarry:   "carry tasks and answers that came to the source meanwhile",
	move.StepRelease: "release the target",
}

// begin shows which step begins.
func (c *moveCommand) begin(s move.Step) error {
	all := move.Steps()
	fmt.Fprintf(c.App.Err, "step %d of %d: %s\n", slices.Index(all, s)+1, len(all), texts[s])
	return nil
}

// reroute changes the routes of projects from one context to the other.
func (c *moveCommand) reroute() func(back bool) ([]string, error) {
	if c.from.context == "" || c.to.context == "" {
		return nil
	}
	return func(back bool) ([]string, error) {
		from, to := c.from.context, c.to.context
		if back {
			from, to = to, from
		}
		all, err := app.Routes()
		if err != nil {
			return nil, err
		}
		var changed []string
		for i, r := range all {
			if r.Station == c.station && r.Context == from {
				all[i].Context = to
				changed = append(changed, r.Project)
			}
		}
		if len(changed) == 0 {
			return nil, nil
		}
		return changed, app.SaveRoutes(all)
	}
}

// planned is a plan as it is printed.
type planned struct {
	move.Plan
	// OpenRuns are some of those that go on at the target, the newest first.
	OpenRuns []openRun `json:"open,omitempty"`
	// Projects are those whose routes change, StillRouted those whose routes stay.
	Projects    []string `json:"projects,omitempty"`
	StillRouted []string `json:"projects_still_routed,omitempty"`
	Version     string   `json:"version"`
	// SourceVersion is that of the services of the source; empty where none answers.
	SourceVersion string `json:"source_version,omitempty"`
	Dir           string `json:"dir"`
	DryRun        bool   `json:"dry_run"`
}

type openRun struct {
	Run    string        `json:"run"`
	Agent  string        `json:"agent"`
	Status events.Status `json:"status"`
	Gates  int           `json:"gates"`
}

// maxOpenRuns is how many open runs a plan shows.
const maxOpenRuns = 20

func (c *moveCommand) plan(ctx context.Context, cfg move.Config, from source) error {
	plan, err := c.look(ctx, cfg)
	if err != nil {
		return moveFault(err)
	}
	p := planned{Plan: plan, Dir: c.dir, Version: cfg.Version, DryRun: c.dry}
	if err := c.fill(ctx, &p, from); err != nil {
		return err
	}
	if plan.State != "done" && plan.State != "marked" && !c.newKeys {
		if cfg.Keys, err = from.keys(ctx, c, plan.Keys); err != nil {
			return err
		}
	}
	if c.dry || !c.App.JSON {
		if err := c.show(p); err != nil || c.dry {
			return err
		}
	}
	if plan.State != "done" && !c.yes {
		err := c.App.Confirm("Move station "+c.station+" now?", "nothing was changed; --yes moves without asking")
		if err != nil {
			return err
		}
	}
	return c.to.target(ctx, c, func(ctx context.Context, to move.Target) error {
		cfg.To = to
		cfg.To.Fill = fill(cfg)
		r, err := move.Run(ctx, cfg)
		if err != nil {
			return moveFault(c.advise(ctx, cfg, err))
		}
		return c.report(r, p)
	})
}

// fill fills the target from a backup, and leaves it so that its services do nothing.
func fill(cfg move.Config) func(ctx context.Context, dir string) ([]string, error) {
	return func(ctx context.Context, dir string) ([]string, error) {
		return station.Held(ctx, cfg.Station, cfg.To.As, station.RestoreConfig{Dir: dir, Keys: cfg.Keys, NewKeys: cfg.NewKeys,
			By: cfg.By, Now: cfg.Now, Progress: cfg.Progress})
	}
}

// look asks for the plan. A folder that is not there is not made for that.
func (c *moveCommand) look(ctx context.Context, cfg move.Config) (p move.Plan, err error) {
	if c.to.store != "" && !station.HasStreams(c.to.store) {
		return move.Look(ctx, cfg)
	}
	err = c.to.target(ctx, c, func(ctx context.Context, to move.Target) error {
		cfg.To = to
		p, err = move.Look(ctx, cfg)
		return err
	})
	return p, err
}

// fill adds what the program knows of this person.
func (c *moveCommand) fill(ctx context.Context, p *planned, from source) error {
	routes, err := app.Routes()
	if err != nil {
		return err
	}
	for _, r := range routes {
		switch {
		case r.Station != c.station || r.Context != c.from.context:
		case c.to.context != "":
			p.Projects = append(p.Projects, r.Project)
		default:
			p.StillRouted = append(p.StillRouted, r.Project)
		}
	}
	p.SourceVersion = from.version
	runs, err := from.runs(ctx)
	if err != nil {
		return err
	}
	for _, i := range runs {
		if i.Status.Ended() {
			continue
		}
		if p.OpenRuns = append(p.OpenRuns, openOf(i)); len(p.OpenRuns) == maxOpenRuns {
			break
		}
	}
	return nil
}

func openOf(i run.Info) openRun {
	return openRun{Run: i.HarnessID, Agent: i.AgentName, Status: i.Status, Gates: len(i.Gates)}
}

// moveFault gives an error of a move its exit code.
func moveFault(err error) error {
	for _, refused := range []error{move.ErrSame, move.ErrElsewhere, move.ErrOther, move.ErrServed, move.ErrAborted,
		move.ErrReleased} {
		if errors.Is(err, refused) {
			return app.Exit(app.ExitRefused, err)
		}
	}
	return err
}

// advise adds to an error of a move that was under way what to do next.
func (c *moveCommand) advise(ctx context.Context, cfg move.Config, err error) error {
	if errors.Is(err, move.ErrServed) || errors.Is(err, move.ErrOther) || errors.Is(err, move.ErrAborted) {
		return err
	}
	now, look := move.Look(context.WithoutCancel(ctx), cfg)
	switch {
	case look != nil:
		return fmt.Errorf("%w; once that is corrected the same command goes on, and --abort takes the move back", err)
	case !now.Halted:
		return fmt.Errorf("%w; nothing was changed at the source, and the same command begins again", err)
	case now.State == "marked":
		return fmt.Errorf("%w; the source is halted and marked as moved: the same command goes on, and --abort takes the move back", err)
	}
	return fmt.Errorf("%w; the source is halted: once that is corrected the same command goes on, and --abort takes the move back", err)
}

func (c *moveCommand) abort(ctx context.Context, cfg move.Config) error {
	projects, err := move.Abort(ctx, cfg)
	if err != nil {
		return moveFault(err)
	}
	if c.App.JSON {
		return c.App.PrintJSON(map[string]any{"station": c.station, "aborted": true, "projects": app.OrEmpty(projects)})
	}
	fmt.Fprintf(c.App.Out, "The move of station %s to %s was taken back: it is at %s, and not halted by the move any more.\n", c.station,
		cfg.To.Name, cfg.From.Name)
	fmt.Fprintln(c.App.Out, "What was copied to the target does nothing. Remove its streams or its folder before anything is moved there again.")
	for _, p := range projects {
		fmt.Fprintf(c.App.Out, "Project %s is routed to context %s again.\n", p, c.from.context)
	}
	return nil
}
