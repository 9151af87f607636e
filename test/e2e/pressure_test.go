package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// lazyWorld is a world whose server does not sync: for tests that store thousands of things.
func lazyWorld(t *testing.T, tools ...tool.Tool) *world {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.LazySync = true })
	return worldOn(t, jettest.Connect(t, s, jet.Config{}), tools...)
}

// effect is a tool that does its work as the test says and counts how often each call took effect.
type effect struct {
	name  string
	class tool.Effect
	work  func(ctx context.Context) error
	mu    sync.Mutex
	// did is how often each key ended its work, guarded by mu.
	did   map[string]int
	begun atomic.Int64
}

func (e *effect) Spec() tool.Spec {
	return tool.Spec{Name: e.name, Description: "works", Effect: e.class, Input: json.RawMessage(`{"type":"object"}`)}
}

func (e *effect) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	e.begun.Add(1)
	if err := e.work(ctx); err != nil {
		return tool.Result{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.did[c.Key]++
	return tool.Result{Output: "done"}, nil
}

// script is one whose first turns ask for so many calls each.
func script(name string, turns, calls int) string {
	var all strings.Builder
	for i := range calls {
		fmt.Fprintf(&all, "      - {name: %s, input: {n: \"{{turn}}\", of: \"%d\"}}\n", name, i)
	}
	return fmt.Sprintf("turns:\n  - when: {turn: {from: 1, to: %d}}\n    calls:\n%s  - text: done\n", turns, all.String())
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-13 SAFE-14 GATE-12 a thousand calls that wait for a slow toolrunner delay no answer to a gate", func(t *testing.T) {
		t.Parallel()
		const runs, calls = 20, 50
		release := make(chan struct{}) // closed when the tool may end
		slow := &effect{name: "slow", class: tool.Read, did: map[string]int{}, work: func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		w := lazyWorld(t, slow)
		w.agent(events.Agent{Name: "parker"}, parker)
		w.agent(events.Agent{Name: "caller", Tools: []string{"slow"}}, script("slow", 1, calls))
		w.start()
		w.task(parked("gate"))
		w.await("gate", "waiting", waiting)
		for i := range runs {
			w.task(events.Task{ID: fmt.Sprint("call", i), Agent: "caller", Task: "call"})
		}
		for i := range runs {
			w.await(fmt.Sprint("call", i), "waiting for its calls", func(s run.State) bool { return s.TotalToolCalls == calls || len(s.Open) == calls })
		}
		began := time.Now()
		w.publish(w.opened("gate").AnswerSubject, `{"decision":"approve"}`)
		w.ended("gate")
		took := time.Since(began)
		t.Logf("%d calls wait, %d of them run; the answered run ended after %s", runs*calls, slow.begun.Load(), took)
		// None of the calls may end before release, so a run that had to wait for them would not have ended either.
		if begun := slow.begun.Load(); begun >= runs*calls {
			t.Errorf("%d of %d calls ran: none had to wait", begun, runs*calls)
		}
		close(release)
		for i := range runs {
			if s := w.ended(fmt.Sprint("call", i)); s.Status != events.Completed {
				t.Errorf("call%d: %+v", i, s.Result)
			}
		}
	})
	t.Run("SAFE-14 more tasks wait for their turn than may be under way, and a stop passes them all", func(t *testing.T) {
		t.Parallel()
		w := lazyWorld(t)
		w.tune = func(c *service.Config) { c.MaxRuns, c.Patience = 1, time.Hour }
		w.agent(events.Agent{Name: "parker"}, parker)
		w.start()
		w.task(parked("first"))
		w.await("first", "waiting", waiting)
		const many = 4096 + 200
		for i := range many {
			w.task(parked(fmt.Sprint("behind", i)))
		}
		w.publish("station.test.run.first.control", `{"action":"stop"}`)
		w.ended("first") // only its end makes room for those that wait, so it passed them all
		w.publish("station.test.task.last", `{"id":"nothing","agent":"parker","task":"one more"}`)
		w.await("first", "ended", func(s run.State) bool { return s.Status.Ended() })
		ctx := w.ctx()
		for ; ; _ = kernel.Sleep(ctx, 10*time.Millisecond) { // its place is taken by one of those that waited
			if n, err := w.ports.StationStats.Running(ctx); err != nil || n == 1 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-17b SAFE-13b DEPL-2 all services stop and start fifty times under load: nothing is lost, repeated or unknown", func(t *testing.T) {
		t.Parallel()
		const turns, restarts = 4, 50 // a run comes with each restart, so there is always work
		once := &effect{name: "once", class: tool.Once, did: map[string]int{}, work: func(ctx context.Context) error {
			select {
			case <-time.After(30 * time.Millisecond): // shorter than the drain time, longer than most of the rest
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		w := lazyWorld(t, once)
		w.agent(events.Agent{Name: "worker", Tools: []string{"once"}}, script("once", turns, 1))
		under := 0
		for i := range restarts {
			w.task(events.Task{ID: fmt.Sprint("work", i), Agent: "worker", Task: "work"})
			h := w.start()
			before := once.begun.Load()
			w.until("began two calls more", func() bool { return once.begun.Load() >= before+2 })
			h.stop()
			if once.begun.Load() < int64((i+1)*turns) {
				under++
			}
		}
		w.start()
		for i := range restarts {
			id := fmt.Sprint("work", i)
			s := w.ended(id)
			if s.Status != events.Completed || s.TotalToolCalls != turns {
				t.Errorf("%s: %s after %d calls", id, s.Status, s.TotalToolCalls)
			}
			for _, c := range run.All(s.ToolCallHistory) {
				if c.Code != "" {
					t.Errorf("%s: a call ended with %s", id, c.Code)
				}
			}
		}
		once.mu.Lock()
		defer once.mu.Unlock()
		for key, n := range once.did {
			if n != 1 {
				t.Errorf("call %s took effect %d times", key, n)
			}
		}
		t.Logf("%d of %d restarts came while runs were under way; %d effects", under, restarts, len(once.did))
		if len(once.did) != restarts*turns || under < restarts/2 {
			t.Errorf("got %d effects, want %d; %d restarts under load", len(once.did), restarts*turns, under)
		}
	})
}
