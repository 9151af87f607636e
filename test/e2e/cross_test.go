package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	talk "github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestSessionCompacted has the history of a session outgrow the model's window, within a run and before it.
func TestSessionCompacted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window, believed int
	}{
		"a window of 1200 tokens":                       {1200, 1200},
		"a window that is half of what it is taken for": {1500, 3000},
	} {
		t.Run("SESS-7 SESS-11 LOOP-7 LOOP-12 inputs of a session go on however much was said before, in "+name, func(t *testing.T) {
			t.Parallel()
			m := &narrow{window: c.window, pages: 12, words: 90}
			w := reads(t, m, func(a *events.Agent) { a.ContextWindow = c.believed })
			w.start()
			for i, id := range []string{"in-1", "in-2", "in-3"} {
				w.task(events.Task{ID: id, Agent: "reader", Task: "read all pages", Session: "s"})
				s := w.ended(id)
				if s.Status != events.Completed || len(w.compactions(id)) == 0 || s.Turns().Len() != 13 {
					t.Fatalf("%s: %+v\n%s", id, s.Result, w.story(id))
				}
				e := w.sessionOf("s", "free", func(e events.Session) bool { return free(e) && e.Parts > i })
				parts, _, err := talk.Load(w.ctx(), w.ports.Blobs, e.History, nil)
				if err != nil || len(parts) != i+1 {
					t.Fatalf("%d parts, %v", len(parts), err)
				}
				all := talk.Messages(parts[i:])
				for j := range all {
					all[j].Provider = ""
				}
				if err := talk.CheckGiven(all); err != nil || len(all) != 2*12+2 {
					t.Errorf("%s: the part has %d messages, %v", id, len(all), err)
				}
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.largest > c.window || c.window == c.believed && m.refused > 0 {
				t.Errorf("largest prompt %d of %d tokens, %d were refused", m.largest, c.window, m.refused)
			}
		})
	}
}

func TestSessionCrossings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prices := filepath.Join(w.dir, "prices.yaml")
	if err := os.WriteFile(prices, []byte("scripted/plain: {input: 1, output: 1}\nscripted/dear: {input: 7, output: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tune = func(c *service.Config) {
		c.Prices, c.ContextWindows = prices, []string{"scripted/plain=9000", "scripted/dear=5000"}
	}
	w.agent(events.Agent{Name: "plain", MaxOutputTokens: 100}, "turns:\n  - text: Said.\n")
	if err := os.WriteFile(filepath.Join(w.dir, "scripts", "dear.yaml"), []byte("turns:\n  - text: Dear.\n    usage: {input: 10, output: 10}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "scripts", "free.yaml"), []byte("turns:\n  - text: Free.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hasty := events.Rule{ID: "hasty", Tool: "bash", Action: "ask", Gate: events.GateTerms{ExpiresMS: 50, OnExpiry: events.ExpiryFails}}
	w.agent(events.Agent{Name: "hasty", Tools: []string{"bash"}, Guards: []events.Rule{hasty}}, "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: \"true\"}}\n")
	letters := w.letters()
	w.start()
	tokens := func(n int64) *int64 { return &n }
	say := func(t *testing.T, w *world, task events.Task) run.State {
		t.Helper()
		before := uint64(0)
		if _, err := w.ports.Sessions.Get(w.ctx(), "session."+task.Session); err == nil {
			before = w.session(task.Session).Fence
		}
		w.task(task)
		s := w.ended(task.ID)
		w.sessionOf(task.Session, "free", func(e events.Session) bool { return free(e) && e.Fence > before })
		return s
	}

	t.Run("SESS-8 SAFE-10 a run that fails because no one answered its gate gives the lock of its session back", func(t *testing.T) {
		w := w.on(t)
		s := say(t, w, events.Task{ID: "late", Agent: "hasty", Task: "go", Session: "late"})
		if s.Result.FinishReason != events.FinishExpired {
			t.Errorf("%+v", s.Result)
		}
		if e := w.session("late"); e.Parts != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("PLUS-3 LOOP-7 the model of a session comes with its own price and window", func(t *testing.T) {
		w := w.on(t)
		say(t, w, events.Task{ID: "first", Agent: "plain", Task: "go", Session: "priced"})
		w.publish(events.SessionSubject("test", "priced"), `{"action":"set","model":"scripted/dear"}`)
		w.sessionOf("priced", "set", func(e events.Session) bool { return e.Model == "scripted/dear" })
		s := say(t, w, events.Task{ID: "second", Agent: "plain", Task: "go", Session: "priced", MaxUSD: events.USD("1")})
		if a := s.Agents["plain"]; s.Status != events.Completed || a.Model != "scripted/dear" || a.ContextWindow != 5000 || s.Cost != 140 {
			t.Errorf("%+v, window %d, cost %s", s.Result, a.ContextWindow, s.Cost)
		}
	})
	t.Run("PLUS-3 a session's model without a price is refused with a budget of money, and the lock is given back", func(t *testing.T) {
		w := w.on(t)
		w.publish(events.SessionSubject("test", "priced"), `{"action":"set","model":"scripted/free"}`)
		w.sessionOf("priced", "set", func(e events.Session) bool { return e.Model == "scripted/free" })
		w.task(events.Task{ID: "third", Agent: "plain", Task: "go", Session: "priced", MaxUSD: events.USD("1")})
		if d := w.letter(letters); d.Code != "no_price" {
			t.Errorf("%+v", d)
		}
		w.sessionOf("priced", "free", free)
		if s := say(t, w, events.Task{ID: "fourth", Agent: "plain", Task: "go", Session: "priced"}); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-3 LOOP-11 the first request of a run with a budget is weighed with the history that it is told", func(t *testing.T) {
		w := w.on(t)
		var long []events.Message
		for range 40 {
			long = append(long, events.Message{Role: events.RoleUser, Content: "tell me of one more of the many wheels that there are in the whole wide world"},
				events.Message{Role: events.RoleAssistant, Content: "there is one more wheel in the shed behind the house beside the road"})
		}
		w.task(events.Task{ID: "long", Agent: "plain", Task: "go", History: long, MaxTokens: tokens(1000)})
		if s := w.ended("long"); s.Result.FinishReason != events.FinishTokens || s.Turns().Len() > 0 || s.Created.HistoryTokens < 900 {
			t.Errorf("%d tokens of history: %+v", s.Created.HistoryTokens, s.Result)
		}
		w.task(events.Task{ID: "short", Agent: "plain", Task: "go", History: long[:2], MaxTokens: tokens(1000)})
		if s := w.ended("short"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-1 a fork is told that it takes its budgets, letters and repository from where it comes", func(t *testing.T) {
		w := w.on(t)
		for name, task := range map[string]events.Task{"tokens": {MaxTokens: tokens(9)}, "money": {MaxUSD: events.USD("1")}, "handoff": {Handoff: "x"},
			"mail": {Mail: []events.Letter{{From: "a", Body: "b"}}}, "repo": {Repo: "https://example.org/a.git"}} {
			task.ID, task.Say, task.ForkOf = "fork-"+name, "more", &events.ForkPoint{Run: "short", Sequence: 4}
			w.task(task)
			if d := w.letter(letters); d.Code != "bad_input" {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
}

// TestForkCompacted forks a run of a session in the middle of its compactions.
func TestForkCompacted(t *testing.T) {
	t.Parallel()
	m := &narrow{window: 1000, pages: 20, words: 60}
	w := reads(t, m, nil)
	w.start()
	most := int64(1 << 20)
	w.task(events.Task{ID: "long", Agent: "reader", Task: "read all pages", Session: "s", MaxTokens: &most})
	old := w.ended("long")
	before := w.sessionOf("s", "free", func(e events.Session) bool { return free(e) && e.Parts == 1 })
	for name, kind := range map[string]events.Kind{"after-compaction": events.HistoryCompacted, "after-turn": events.TurnFinished} {
		t.Run("PLUS-1 LOOP-7 a fork "+name+" is told what was said to it, compacts on, keeps what was used and takes no lock", func(t *testing.T) {
			w := w.on(t)
			at := w.eventOf("long", kind)
			cut := mustFold(t, w.events("long")[:at])
			w.task(events.Task{ID: name, ForkOf: &events.ForkPoint{Run: "long", Sequence: at}, Say: "Mind found-77-end as well."})
			s := w.ended(name)
			if s.Status != events.Completed || s.Options.MaxTokens != most || s.Tokens.Input <= cut.Tokens.Input || s.Created.Session != "" || s.Created.Workspace != "run/"+name {
				t.Fatalf("%+v\n%s", s.Result, w.story(name))
			}
			if len(w.compactions(name)) == 0 || !strings.Contains(s.Result.Output, "found-77-end") {
				t.Errorf("%d compactions, it still knows %q", len(w.compactions(name)), s.Result.Output)
			}
			all, err := talk.Of(s)
			for i := range all {
				all[i].Provider = ""
			}
			if err == nil {
				err = talk.CheckGiven(all)
			}
			if err != nil {
				t.Error(err)
			}
			if e := w.session("s"); e.Fence != before.Fence || e.Runs != before.Runs || len(e.Holders) != 0 || e.Parts != before.Parts {
				t.Errorf("the session was touched: %+v", e)
			}
		})
	}
	sum := 0
	for _, row := range old.Spent {
		sum += row.Input + row.Output
	}
	if sum != old.Tokens.Total() || old.Spent[0].Turns != old.Turns().Len()+len(w.compactions("long")) {
		t.Errorf("PLUS-3 LOOP-7: %d tokens of %d requests are counted, want %d of %d", sum, old.Spent[0].Turns, old.Tokens.Total(), old.Turns().Len()+len(w.compactions("long")))
	}
	for _, id := range []string{"long", "after-compaction", "after-turn"} {
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log(id)); r.Refused != nil || len(r.Changes) > 0 {
			t.Errorf("PLUS-6 %s: %v %v", id, r.Refused, r.Changes)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused > 0 {
		t.Errorf("%d prompts were too long", m.refused)
	}
}
