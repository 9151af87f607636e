package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// costCommand is inspan cost.
type costCommand struct {
	App    *app.App
	since  time.Duration
	prices bool
}

// Cost makes inspan cost.
func Cost(a *app.App) *cobra.Command {
	c := &costCommand{App: a}
	cmd := &cobra.Command{
		Use: "cost [RUN]", Short: "Show the tokens and the money that runs used, by model, agent and run",
		Long: `Shows what the model requests of one run and its child runs, or of all runs of the station, used: tokens in, those of them
that came from the provider's cache, tokens out, turns and money. Money is by the prices that were in force when a run began: those of this
program, and before them those of the file that INSPAN_PRICES names. Turns of a model without a known price are counted, and said
to have none. --prices shows the prices that a station of this configuration would use now.`,
		Example: "  inspan cost\n  inspan cost --prices\n  inspan cost run-k3v9x2m1qa\n  inspan cost --since 24h --json | jq .total.costMicroUsd",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.prices {
				return showPrices(a, args)
			}
			return a.Connected(c.run)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&c.prices, "prices", false, "show the prices of models, and where they are from")
	cmd.Flags().DurationVar(&c.since, "since", 0,
		"only runs in which something happened within this time, for example 24h")
	return cmd
}

func (a *costCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.since < 0 {
		return app.Usage("--since %s: want a duration such as 24h", a.since)
	}
	infos, err := costly(ctx, c, args)
	if err != nil {
		return err
	}
	sum := costs{Models: []*costRow{}, Agents: []*costRow{}, Runs: []*costRow{}}
	if a.since > 0 {
		from := time.Now().Add(-a.since).UTC()
		sum.Since = &from
	}
	for _, i := range infos {
		if sum.Since == nil || !i.UpdatedAt.Before(*sum.Since) {
			sum.add(i)
		}
	}
	sum.order()
	if a.App.JSON {
		return a.App.PrintJSON(sum)
	}
	showCosts(a.App, sum)
	return nil
}

// costRow is a line of inspan cost.
type costRow struct {
	// Name of the model, agent or run.
	Name   string          `json:"name"`
	Runs   int             `json:"runs"`
	Turns  int             `json:"turns"`
	Input  int             `json:"inputTokens"`
	Output int             `json:"outputTokens"`
	Cached int             `json:"cachedTokens"`
	Cost   events.MicroUSD `json:"costMicroUsd"`
	// Unpriced turns are of models without a price: they are not in Cost.
	Unpriced int `json:"unpricedTurns"`

	last string
}

// costs is what inspan cost prints.
type costs struct {
	Since  *time.Time `json:"since,omitempty"`
	Total  costRow    `json:"total"`
	Models []*costRow `json:"models"`
	Agents []*costRow `json:"agents"`
	Runs   []*costRow `json:"runs"`
	// Lost is what was set aside for requests of unknown usage; it is in no other sum.
	Lost events.Lost `json:"lost"`
}

// costly are the rows of the runs asked for: of one and all below it as their logs have it, of all as the index has
// them.
func costly(ctx context.Context, c *client.Client, args []string) ([]run.Info, error) {
	if len(args) == 0 {
		return c.Runs().List(ctx)
	}
	all, err := c.Runs().Tree(ctx, args[0])
	var infos []run.Info
	for _, m := range all {
		if m.State.Sequence > 0 {
			infos = append(infos, run.InfoOf(m.State))
		}
	}
	return infos, err
}

// unnamed stands for the model of turns whose events do not name one.
const unnamed = "(not named)"

func (c *costs) add(i run.Info) {
	rest := run.Spend{Model: unnamed, Agent: i.AgentName, Turns: i.Turns, Input: i.InputTokens, Output: i.OutputTokens,
		Cached: i.CachedTokens}
	for _, s := range i.Spent {
		rest.Turns, rest.Input, rest.Output, rest.Cached = rest.Turns-s.Turns, rest.Input-s.Input, rest.Output-s.Output,
			rest.Cached-s.Cached
		c.spend(i, s)
	}
	if rest.Turns = max(rest.Turns, 0); rest.Input+rest.Output > 0 || len(i.Spent) == 0 {
		c.spend(i, rest)
	}
	c.Lost.Requests += i.Lost.Requests
	c.Lost.Tokens += i.Lost.Tokens
	c.Lost.Cost += i.Lost.Cost
}

func (c *costs) spend(i run.Info, s run.Spend) {
	of := func(list *[]*costRow, name string) *costRow {
		at := slices.IndexFunc(*list, func(r *costRow) bool { return r.Name == name })
		if at < 0 {
			*list, at = append(*list, &costRow{Name: name}), len(*list)
		}
		return (*list)[at]
	}
	for _, r := range []*costRow{&c.Total, of(&c.Models, s.Model), of(&c.Agents, s.Agent), of(&c.Runs, i.HarnessID)} {
		if r.last != i.HarnessID {
			r.last = i.HarnessID
			r.Runs++
		}
		r.Turns += s.Turns
		r.Input += s.Input
		r.Output += s.Output
		r.Cached += s.Cached
		r.Cost += s.Cost
		if !s.Priced {
			r.Unpriced += s.Turns
		}
	}
}

// order puts the dearest first, then what used most tokens.
func (c *costs) order() {
	for _, list := range [][]*costRow{c.Models, c.Agents, c.Runs} {
		slices.SortStableFunc(list, func(x, y *costRow) int {
			return cmp.Or(cmp.Compare(y.Cost, x.Cost), cmp.Compare(y.Input+y.Output, x.Input+x.Output),
				cmp.Compare(x.Name, y.Name))
		})
	}
}

// mostRuns is how many runs are shown in words.
const mostRuns = 20

func showCosts(a *app.App, c costs) {
	if c.Total.Runs == 0 {
		fmt.Fprintln(a.Out, "No run used a model.")
		return
	}
	hidden := max(0, len(c.Runs)-mostRuns)
	for _, part := range []struct {
		head string
		rows []*costRow
	}{{"MODEL", c.Models}, {"AGENT", c.Agents}, {"RUN", c.Runs[:len(c.Runs)-hidden]}, {"TOTAL", []*costRow{&c.Total}}} {
		var rows [][]string
		for _, r := range part.rows {
			rows = append(rows, []string{r.Name, fmt.Sprint(r.Runs), fmt.Sprint(r.Turns), view.Count(r.Input),
				view.Count(r.Cached), view.Count(r.Output), price(r.Cost, r.Unpriced, r.Turns)})
		}
		a.Table([]string{part.head, ">RUNS", ">TURNS", ">IN", ">CACHED", ">OUT", ">COST"}, rows)
		fmt.Fprintln(a.Out)
	}
	p := a.Paint()
	if hidden > 0 {
		fmt.Fprintln(a.Out, p.Dim(fmt.Sprintf("and %s that cost less; --json shows all", view.Plural(hidden, "run"))))
	}
	if c.Lost.Requests > 0 {
		fmt.Fprintln(a.Out, p.Yellow(fmt.Sprintf("and %s of unknown usage: at most %s tokens, %s",
			view.Plural(c.Lost.Requests, "request"), view.Count(int(c.Lost.Tokens)), c.Lost.Cost)))
	}
	if c.Total.Unpriced > 0 {
		fmt.Fprintln(a.Out, p.Dim(fmt.Sprintf("%s of models with no price known, which are in no sum; INSPAN_PRICES names a file of prices, inspan cost --prices shows them",
			view.Plural(c.Total.Unpriced, "turn"))))
	}
}

// price of a row: unknown where no turn has one, with + where some have none.
func price(cost events.MicroUSD, unpriced, turns int) string {
	switch {
	case unpriced > 0 && unpriced >= turns:
		return "no price known"
	case unpriced > 0:
		return cost.String() + "+"
	}
	return cost.String()
}
