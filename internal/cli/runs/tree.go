package runs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// treeCommand is inspan tree.
type treeCommand struct {
	App         *app.App
	root, watch bool
}

// Tree makes inspan tree.
func Tree(a *app.App) *cobra.Command {
	c := &treeCommand{App: a}
	cmd := &cobra.Command{
		Use: "tree RUN", Short: "Show a run with all its child runs: where each stands, what it used, what it waits for",
		Long: `Shows a run and the runs below it, each followed by its children. A run of any place in a tree can be named; --root
shows the whole tree. FOR is the step of the parent that a run carries out, or the call or the check of that step. A
terminal without room for whole ids shows how they begin, which names a run in all commands. The turns, calls, tokens
and cost of a line are of that run alone; the last line has those of all. What is shown is read from the logs of the runs.`,
		Example: "  inspan tree run-k3v9x2m1qa\n  inspan tree child_x7 --root --watch\n  inspan tree run-k3v9x2m1qa --json | jq '.[] | select(.status == \"running\").waits[].text'",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	app.WatchFlag(cmd, &c.watch)
	cmd.Flags().BoolVar(&c.root, "root", false, "begin at the top of the tree that the run belongs to")
	return cmd
}

func (a *treeCommand) run(ctx context.Context, c *client.Client, args []string) error {
	id := args[0]
	if a.root {
		var err error
		if id, err = c.Runs().Root(ctx, id); err != nil {
			return err
		}
	}
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		all, err := c.Runs().Tree(ctx, id)
		return a.listing(all, time.Now().In(a.App.Zone())), err
	})
}

// member is a run of a tree as programs see it.
type member struct {
	run.Info
	// Depth below the run that was asked for.
	Depth int `json:"depth"`
	// Step of the parent that the run is for; Call is the call or the check of it that the run carries out, empty for
	// the whole step, and Background true for a call that did not wait. Attempt at it, and its Outcome as the parent has
	// it: spawned while it lives. Empty for the run that was asked for.
	Step       string      `json:"parentStep,omitempty"`
	Call       string      `json:"parentCall,omitempty"`
	Background bool        `json:"background,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	Outcome    string      `json:"outcome,omitempty"`
	Use        events.Use  `json:"use"`
	Waits      []view.Wait `json:"waits"`
	// verified names the checks that vouch for a run that has completed.
	verified string
}

const (
	// notBegun is the status of a child without a log.
	notBegun = "not begun"
	// wideTree is the width of a terminal that has room for whole ids; shortID is how much of an id others show.
	wideTree, shortID = 140, len(events.ChildPrefix) + 6
)

func (a *treeCommand) listing(all []client.Member, now time.Time) app.Listing {
	p := a.App.Paint()
	width, _ := a.App.Term.Size()
	short := a.App.Term.TTY && a.App.Form != app.FormWide && width < wideTree
	l := app.Listing{Heads: []string{"RUN", "STATUS", "FOR", "AGENT", ">TURNS", ">CALLS", ">TOKENS", ">COST", ">DURATION",
		"+CREATED", "WAITS FOR / RESULT"}}
	var sum events.Use
	lines := branches(all)
	for i, m := range all {
		v := member{Info: run.InfoOf(m.State), Depth: m.Depth, Use: m.Used(), Waits: view.Waits(m.State, now),
			verified: view.Verified(m.State.Result)}
		status, created := runtree.StatusOf(v.Info), m.State.CreatedAt
		if c := m.Child; c != nil {
			v.Step, v.Call, v.Background, v.Attempt, v.Outcome, v.ParentHarnessID = c.Step, c.Call, c.Background, c.Attempt,
				c.Outcome, m.Parent
			if m.State.Sequence == 0 {
				v.HarnessID, v.AgentName, status, created = c.ID, c.Agent, cmp.Or(c.FinishReason, notBegun), c.SpawnedAt
				v.Waits = []view.Wait{{On: string(events.Planner), Since: c.SpawnedAt, Text: "spawned, and has no log here"}}
			}
		}
		id := m.ID()
		if short && i > 0 {
			id = id[:min(len(id), shortID)]
		}
		took := view.Since(created, now)
		if v.CompletedAt != nil {
			took = view.Since(created, *v.CompletedAt)
		}
		u := v.Use
		sum = sum.Plus(u)
		l.Add(m.ID(), v, p.Dim(lines[i])+id, p.State(status), v.purpose(), v.AgentName,
			fmt.Sprint(u.Turns), fmt.Sprint(u.ToolCalls),
			view.Count(int(u.Tokens())), cmp.Or(runtree.CostText(u.Paid()), "-"), took,
			created.In(a.App.Zone()).Format("2006-01-02 15:04:05"), view.Clip(v.waiting(now), 100))
	}
	l.Note = p.Dim(fmt.Sprintf("%s: %s", view.Plural(len(all), "run"), runtree.UseText(sum)))
	return l
}

// purpose is what of its parent a run carries out.
func (m member) purpose() string {
	text := cmp.Or(strings.TrimSpace(m.Step+" "+m.Call), "-")
	if m.Background {
		text += " (background)"
	}
	if m.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", m.Attempt)
	}
	return text
}

// waiting is what a run waits for, or how it ended.
func (m member) waiting(now time.Time) string {
	switch {
	case m.Status == events.Completed:
		return m.verified
	case m.Status.Ended():
		return strings.Trim(m.FinishReason+": "+m.Error, ": ")
	}
	var parts []string
	for _, w := range m.Waits {
		if w.On != view.OnChild { // the next lines have it
			parts = append(parts, w.Line(now))
		}
	}
	return cmp.Or(strings.Join(parts, " | "), "its child runs")
}

// branches are the lines from each member of a tree to its parent.
func branches(all []client.Member) []string {
	lines := make([]string, len(all))
	open := map[int]bool{} // depths at which a later member continues
	for i := len(all) - 1; i >= 0; i-- {
		depth := all[i].Depth
		if depth > 0 {
			line := ""
			for d := 1; d < depth; d++ {
				line += map[bool]string{true: "│ ", false: "  "}[open[d]]
			}
			lines[i] = line + map[bool]string{true: "├ ", false: "└ "}[open[depth]]
		}
		open[depth] = true
		for d := range open {
			if d > depth {
				delete(open, d)
			}
		}
	}
	return lines
}
