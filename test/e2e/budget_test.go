package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const spender = `
turns:
  - when: {turn: 1}
    text: I look.
    calls:
      - {name: bash, input: {command: "true"}}
    usage: {input: 400, output: 50}
  - when: {turn: 2}
    text: Done.
    usage: {input: 600, output: 100, cached: 400}
`

func TestBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prices := filepath.Join(w.dir, "prices.yaml")
	if err := os.WriteFile(prices, []byte("scripted/spender: {input: 3, output: 15, cached: 0.30}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tune = func(c *service.Config) { c.Prices = prices }
	bash := []string{"bash"}
	w.agent(events.Agent{Name: "spender", Tools: bash, MaxOutputTokens: 200}, spender)
	w.agent(events.Agent{Name: "unpriced", Tools: bash, MaxOutputTokens: 200}, spender)
	w.agent(events.Agent{Name: "capped", Model: "scripted/spender", Tools: bash, MaxOutputTokens: 200, MaxTokens: 1200}, "")
	letters := w.letters()
	roles := w.start()
	tokens := func(n int64) *int64 { return &n }

	t.Run("PLUS-3 LOOP-13 a run within its budget says what it cost, by the prices that were in force when it began", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "paid", Agent: "spender", Task: "go", MaxUSD: events.USD("0.05"), MaxTokens: tokens(10_000)})
		s := w.ended("paid")
		want := events.MicroUSD(400*3 + 50*15 + 200*3 + 120 + 100*15)
		if s.Status != events.Completed || s.Cost != want || s.Result.Cost != want || s.Prices["scripted/spender"].Input != 3_000_000 {
			t.Errorf("%s: got %s, want %s; %+v", s.Status, s.Cost, want, s.Result)
		}
		info := w.row("paid", func(i run.Info) bool { return i.Status == events.Completed })
		if info.Cost != want || len(info.Spent) != 1 || info.Spent[0].Turns != 2 || info.Spent[0].Cached != 400 || info.CachedTokens != 400 {
			t.Errorf("%+v", info)
		}
	})
	t.Run("PLUS-3 LOOP-2 LOOP-4 a budget that is used up ends the run before the turn that does not fit, with its own reason", func(t *testing.T) {
		w := w.on(t)
		for id, task := range map[string]events.Task{
			events.FinishTokens: {Agent: "capped", Task: "go"},
			events.FinishCost:   {Agent: "spender", Task: "go", MaxUSD: events.USD("0.0055")},
		} {
			task.ID = id
			w.task(task)
			s := w.ended(id)
			used := budget.Used(s)
			if s.Result.FinishReason != id || s.Turns().Len() != 1 || s.Options.MaxTokens > 0 && used.Tokens > s.Options.MaxTokens || s.Options.MaxCost > 0 && used.Cost > s.Options.MaxCost {
				t.Errorf("%s: %+v used %+v", id, s.Result, used)
			}
		}
	})
	t.Run("PLUS-3 two steps side by side do not overspend together: the second one waits for the first", func(t *testing.T) {
		w := w.on(t)
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "x"}, {ID: "b", Description: "y"}}}
		w.task(events.Task{ID: "pair", Agent: "spender", Task: "go", Plan: plan, MaxTokens: tokens(3000)})
		s := w.ended("pair")
		if used := budget.Used(s); s.Status != events.Completed || used.Tokens > 3000 {
			t.Errorf("%+v used %+v", s.Result, used)
		}
	})
	t.Run("PLUS-3 no price, zero and what cannot be read are refused, with what to do", func(t *testing.T) {
		w := w.on(t)
		for _, c := range []struct{ code, says, body string }{
			{"no_price", "scripted/unpriced", `{"agent":"unpriced","task":"x","max_usd":1}`},
			{"bad_input", "max_usd is 0", `{"agent":"spender","task":"x","max_usd":0}`},
			{"bad_input", "max_tokens is 0", `{"agent":"spender","task":"x","max_tokens":0}`},
			{"bad_input", "max_usd", `{"agent":"spender","task":"x","max_usd":-3}`},
			{"bad_input", "number", `{"agent":"spender","task":"x","max_usd":"much"}`},
		} {
			w.publish(events.TaskSubject("test"), c.body)
			if l := w.letter(letters); l.Code != c.code || !strings.Contains(l.Reason+l.Hint, c.says) {
				t.Errorf("%s: %s: %s (%s)", c.body, l.Code, l.Reason, l.Hint)
			}
		}
	})
	t.Run("PLUS-3 a price that changes later changes no run that has begun", func(t *testing.T) {
		w := w.on(t)
		before := w.state("paid").Cost
		roles.stop()
		if err := os.WriteFile(prices, []byte("scripted/*: {input: 300, output: 1500}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.task(events.Task{ID: "dear", Agent: "spender", Task: "go"})
		if s := w.ended("dear"); s.Cost <= 50*before || w.state("paid").Cost != before {
			t.Errorf("%s, and %s before", s.Cost, before)
		}
	})
}
