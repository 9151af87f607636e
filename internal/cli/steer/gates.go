// Package steer has the commands that decide and steer: gates, approve, reject, pause, resume, stop, autonomy, revise,
// fork.
package steer

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// gatesCommand is inspan gates.
type gatesCommand struct {
	App   *app.App
	watch bool
	// limit is the most gates to list; 0 is all.
	limit int
}

// tableLimit is how many gates a table has where no other number is given. Programs get all.
const tableLimit = 50

// Gates makes inspan gates.
func Gates(a *app.App) *cobra.Command {
	c := &gatesCommand{App: a}
	cmd := &cobra.Command{
		Use: "gates", Aliases: []string{"approvals"}, Short: "List the gates that wait for a person, the oldest first",
		Example: "  inspan gates\n  inspan gates --json", Args: app.Args(0),
		RunE: c.run,
	}
	cmd.Flags().IntVar(&c.limit, "limit", 0,
		"most gates to list; 0 is all; without it a table has the oldest 50, and --json and -o name have all")
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *gatesCommand) run(cmd *cobra.Command, args []string) error {
	if a.limit < 0 {
		return app.Usage("--limit %d: want 0 or more", a.limit)
	}
	if !cmd.Flags().Changed("limit") && !a.App.JSON && a.App.Form != app.FormName {
		a.limit = tableLimit
	}
	station := a.App.Station // the one that is found may have another name than those of runs that were kept
	err := a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		var kept []client.Waiting
		if !a.watch {
			kept = a.kept(ctx, station)
		}
		return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
			gates, err := c.Gates().List(ctx)
			return a.listing(append(gates, kept...)), err
		})
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

// maxKept is how many kept runs are looked at for gates.
const maxKept = 20

// kept are the gates of runs of this directory that had a station of their own.
func (a *gatesCommand) kept(ctx context.Context, station string) (waiting []client.Waiting) {
	for _, k := range workcopy.KeptRuns(ctx, a.App, station, false, maxKept) {
		if k.Path == a.App.OwnStore || k.Info.Status.Ended() {
			continue
		}
		for _, g := range k.Info.Gates {
			waiting = append(waiting, client.Waiting{Run: k.Info, Gate: g})
		}
	}
	return waiting
}

// listing is the list of gates, the oldest first.
func (a *gatesCommand) listing(gates []client.Waiting) app.Listing {
	sort.SliceStable(gates, func(i, j int) bool { return gates[i].Gate.CreatedAt.Before(gates[j].Gate.CreatedAt) })
	l := app.Listing{Heads: []string{"RUN/GATE", "AGENT", "BEFORE", ">WAITS", ">STEPS", ">VOTES", "EXPIRES", "+SESSION",
		"WHAT"},
		Empty: "No gate waits.", Note: "\n" + a.App.Paint().Dim("Answer with: inspan approve GATE   or   inspan reject GATE --reason \"...\"")}
	if more := len(gates) - a.limit; a.limit > 0 && more > 0 {
		gates = gates[:a.limit]
		l.Note = "\n" + a.App.Paint().Dim(fmt.Sprintf("and %s; --limit shows more", view.Plural(more, "newer gate"))) + l.Note
	}
	for _, w := range gates {
		at, clip := w.Gate.StepID, 80
		if w.Gate.CallID != "" {
			at += " " + w.Gate.CallID
		}
		if a.App.Form == app.FormWide {
			clip = wideClip
		}
		name := w.Run.HarnessID + "/" + w.Gate.ID
		l.Add(name, w, name, w.Run.AgentName, at, app.Age(w.Gate.CreatedAt), fmt.Sprintf("%d/%d", w.Run.StepsCompleted,
			w.Run.StepsTotal), votesOf(w.Gate), runtree.Expiry(w.Gate.ExpiresAt, time.Now()), w.Run.SessionID,
			view.Clip(w.Gate.Description, clip))
	}
	return l
}

// wideClip is the most characters of a description in a wide table.
const wideClip = 400

// votesOf is how many approvals a gate has of those that it needs.
func votesOf(g *run.Gate) string {
	if g.Approvers < 2 {
		return "0/1"
	}
	most := 0
	for _, v := range g.Votes {
		most = max(most, g.VotesFor(v.Action))
	}
	return fmt.Sprintf("%d/%d", most, g.Approvers)
}

// findGate finds the gate that GATE, RUN/GATE or RUN names; a RUN alone must have one gate that waits.
func findGate(ctx context.Context, c *client.Client, arg string) (runID, gate string, err error) {
	if r, g, ok := strings.Cut(arg, "/"); ok {
		r, err = app.ResolveRun(ctx, c, r)
		return r, g, err
	}
	gates, err := c.Gates().List(ctx)
	if err != nil {
		return "", "", err
	}
	named, err := app.ResolveRun(ctx, c, arg)
	if err != nil {
		return "", "", err
	}
	var byGate, byRun []string
	waiting := ""
	for _, w := range gates {
		if w.Gate.ID == arg {
			byGate = append(byGate, w.Run.HarnessID)
		}
	}
	if s, err := c.State(ctx, named); err == nil { // the log has a gate before the index has it
		for _, g := range s.Gates {
			if g.Status == run.GatePending {
				waiting, byRun = g.ID, append(byRun, fmt.Sprintf("  %s/%s  %s", named, g.ID, view.Clip(g.Description, 100)))
			}
		}
	}
	switch {
	case len(byGate) == 1:
		return byGate[0], arg, nil
	case len(byGate) > 1:
		return "", "", app.Usage("gate %q waits in several runs; name it as one of %s", arg,
			strings.Join(byGate, "/"+arg+", ")+"/"+arg)
	case len(byRun) == 1:
		return named, waiting, nil
	case len(byRun) > 1:
		return "", "", app.Usage("run %s has %d gates that wait; name one of them:\n%s", named, len(byRun),
			strings.Join(byRun, "\n"))
	}
	return "", "", fmt.Errorf("gate %q: %w among those that wait; inspan gates lists them, RUN/GATE names one of any run",
		arg, client.ErrNotFound)
}
