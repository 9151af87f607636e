package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/run"
)

// shows waits until the index, which follows the log, has the end of a run.
func (d *desk) shows(id string) {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); <-tick.C {
		for _, r := range decode[[]run.Info](d.t, d.want(0, nil, "runs", "--status", "completed", "--json").out) {
			if r.HarnessID == id {
				return
			}
		}
	}
	d.t.Fatalf("the index never shows the end of %s", id)
}

// The prices are a variable of the process, so this test runs alone.
func TestCost(t *testing.T) {
	d := newDesk(t)
	prices := filepath.Join(d.dir, "prices.yaml")
	if err := os.WriteFile(prices, []byte("scripted/reader: {input: 3, output: 15}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INSPAN_PRICES", prices)
	d.up()
	// 300 tokens in at 3, and 50 out at 15 dollars a million.
	const each = "$0.00165"
	t.Run("PLUS-3 the end of a run, its list and its page say what it cost", func(t *testing.T) {
		d.want(0, words{"350 tokens, " + each + " in "}, "run", "reader", "read it", "--id", "dear", "--budget-usd", "1.00", "--budget-tokens", "90000")
		d.shows("dear")
		d.want(0, words{"COST", each}, "runs")
		d.want(0, words{each + ", $0.99835 of $1.00 left", "tokens left"}, "inspect", "dear")
	})
	t.Run("PLUS-3 cost sums up by model, agent and run, and says what has no price", func(t *testing.T) {
		d.want(0, nil, "run", "sly", "be sly", "--id", "free")
		d.shows("free")
		d.want(0, words{"MODEL", "scripted/reader", each, "AGENT", "RUN", "dear", "TOTAL", each + "+", "no price known", "with no price known"}, "cost")
		type row struct {
			Name                               string
			Runs, Turns, InputTokens, Unpriced int
			CostMicroUsd                       int
		}
		type sums struct {
			Total                row
			Models, Agents, Runs []row
		}
		c := decode[sums](t, d.want(0, nil, "cost", "dear", "--json").out)
		if c.Total.CostMicroUsd != 1650 || c.Total.Turns != 2 || c.Total.InputTokens != 300 || len(c.Models) != 1 || c.Models[0].Name != "scripted/reader" || c.Agents[0].Name != "reader" || c.Runs[0].Name != "dear" {
			t.Errorf("%+v", c)
		}
		if c := decode[sums](t, d.want(0, nil, "cost", "--since", "1h", "--json").out); c.Total.Runs != 2 || len(c.Models) != 2 {
			t.Errorf("%+v", c)
		}
		d.want(2, words{"--since"}, "cost", "--since", "-1h")
	})
	t.Run("PLUS-3 the prices in force are shown with their day and source, and a file goes before them", func(t *testing.T) {
		d.want(0, words{"anthropic/claude-sonnet-5-5*", "$2.00", "$2.50", "2026-", "https://platform.claude.com", "scripted/reader", prices}, "cost", "--prices")
		d.want(2, words{"--prices"}, "cost", "dear", "--prices")
	})
	t.Run("PLUS-3 a budget of money for a model without a price is refused with what to do", func(t *testing.T) {
		s := d.do("run", "sly", "be sly", "--id", "closed", "--budget-usd", "1")
		if s.code == 0 {
			t.Errorf("it ran: %s", s.out)
		}
		d.want(2, words{"--budget-usd"}, "run", "sly", "x", "--budget-usd", "a lot")
	})
	t.Run("PERS-18c PLUS-3 the row of a run has what it used by model and agent", func(t *testing.T) {
		rows := decode[[]run.Info](t, d.want(0, nil, "runs", "--agent", "reader", "--json").out)
		if len(rows) != 1 || rows[0].Cost != 1650 || len(rows[0].Spent) != 1 || rows[0].Spent[0].Agent != "reader" {
			t.Errorf("%+v", rows)
		}
	})
}
