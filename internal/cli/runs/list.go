// Package runs has the commands that look at runs: runs, inspect, logs, watch, why, cost, checkpoints, branches.
package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// listCommand is inspan runs.
type listCommand struct {
	App         *app.App
	only, agent string
	selection   client.Of
	limit       int
	watch, all  bool
}

// List makes inspan runs.
func List(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "runs", Aliases: []string{"ls"}, Short: "List the runs of the station, the newest first",
		Long: `Lists the runs of the station, and those that "inspan run" kept of this directory: of runs that had a station of their own.
They are marked with what became of their work. --all lists those of other directories, too.`,
		Example: "  inspan runs\n  inspan runs --status waiting --watch\n  inspan runs --session demo\n  inspan runs --agent fixer --json | jq '.[].harnessId'\n  inspan runs -o wide\n  inspan stop $(inspan runs --status waiting -o name | head -1)",
		Args:    app.Args(0),
		RunE:    c.run,
	}
	app.WatchFlag(cmd, &c.watch)
	cmd.Flags().BoolVar(&c.all, "all", false, "also those kept of other directories")
	cmd.Flags().StringVar(&c.only, "status", "", "only runs that are "+strings.Join(runtree.Statuses, ", "))
	selectionFlags(cmd, &c.selection)
	cmd.Flags().StringVar(&c.agent, "agent", "", "only runs of this agent")
	cmd.Flags().IntVar(&c.limit, "limit", 50, "most runs to list; 0 is all")
	return cmd
}

func (a *listCommand) run(cmd *cobra.Command, args []string) error {
	if a.only != "" && !slices.Contains(runtree.Statuses, a.only) {
		return app.Usage("--status %q: %s", a.only,
			didyoumean.Hint(a.only, runtree.Statuses, "want one of "+strings.Join(runtree.Statuses, ", ")))
	}
	if a.limit < 0 {
		return app.Usage("--limit %d: want 0 or more", a.limit)
	}
	station := a.App.Station // the one that is found may have another name than those that were kept
	err := a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		var kept []listed
		if !a.watch {
			kept = a.kept(ctx, station)
		}
		return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) { return a.read(ctx, c, kept) })
	})(cmd, args)
	if !errors.Is(err, app.ErrNoServer) || a.watch {
		return err
	}
	kept := a.kept(cmd.Context(), station)
	if len(kept) == 0 {
		return err
	}
	return a.App.Print(a.listing(kept))
}

// read reads the runs of the station, and puts those among them that were kept.
func (a *listCommand) read(ctx context.Context, c *client.Client, kept []listed) (app.Listing, error) {
	all, err := c.Runs().Find(ctx, a.selection)
	if err != nil {
		return app.Listing{}, err
	}
	found := make([]listed, 0, len(all)+len(kept))
	for _, i := range all {
		found = append(found, listed{Info: i})
	}
	// A kept store that this command opened itself, where no station runs, is listed once.
	here := func(k listed) bool { return k.Store == a.App.OwnStore }
	return a.listing(append(found, slices.DeleteFunc(slices.Clone(kept), here)...)), nil
}

// listing is the list of the runs that were asked for, the newest first.
func (a *listCommand) listing(all []listed) app.Listing {
	all = slices.DeleteFunc(all, func(i listed) bool { // a run that waits is running too, one that was stopped has failed
		return !runtree.Is(i.Info, a.only) || a.agent != "" && a.agent != i.AgentName
	})
	sort.SliceStable(all, func(i, j int) bool { return all[j].CreatedAt.Before(all[i].CreatedAt) })
	hidden := 0
	if a.limit > 0 {
		hidden = max(0, len(all)-a.limit)
	}
	all = all[:len(all)-hidden]
	p, where := a.App.Paint(), "+WHERE"
	if slices.ContainsFunc(all, func(i listed) bool { return i.Store != "" }) {
		where = "WHERE"
	}
	l := app.Listing{Heads: []string{"ID", "AGENT", "STATUS", ">STEPS", ">TURNS", ">CALLS", ">TOKENS", ">COST",
		">DURATION",
		">AGE", where, "+VERIFIED", "+SESSION", "+CREATED", "+STORE", "TASK"}, Empty: `No runs. Start one with: inspan run AGENT "TASK"`}
	clip := 60
	if a.App.Form == app.FormWide {
		clip = 400
	}
	for _, i := range all {
		l.Add(i.HarnessID, i, i.HarnessID, i.AgentName, p.State(i.status()),
			fmt.Sprintf("%d/%d", i.StepsCompleted, i.StepsTotal),
			fmt.Sprint(i.Turns), fmt.Sprint(i.ToolCallCount), view.Count(i.InputTokens+i.OutputTokens),
			cmp.Or(runtree.CostText(i.Cost+i.Lost.Cost), "-"), duration(i.Info), app.Age(i.CreatedAt), i.where(),
			verified(i.Info),
			cmp.Or(i.SessionID, "-"), i.CreatedAt.In(a.App.Zone()).Format("2006-01-02 15:04:05"), cmp.Or(i.Store, "-"),
			p.Dim(view.Clip(i.Task, clip)))
	}
	if hidden > 0 {
		more := fmt.Sprintf("and %s; --limit shows more", view.Plural(hidden, "older run"))
		l.Note = p.Dim(more)
		if !a.watch && (a.App.JSON || a.App.Form == app.FormName) { // which have no room for a note
			fmt.Fprintln(a.App.Err, more)
		}
	}
	return l
}

// verified says which checks vouch for a run.
func verified(i run.Info) string {
	if i.Status != events.Completed {
		return "-"
	}
	return view.VerifiedBy(i.Verified)
}

func duration(i run.Info) string {
	if i.CompletedAt != nil {
		return view.Since(i.CreatedAt, *i.CompletedAt)
	}
	return app.Age(i.CreatedAt)
}

// selectionFlags are the flags that say which runs are meant.
func selectionFlags(cmd *cobra.Command, of *client.Of) {
	cmd.Flags().StringVar(&of.Session, "session", "", "runs of this session")
	cmd.Flags().StringVar(&of.WorkflowRun, "workflow-run", "", "runs of this run of a workflow")
}
