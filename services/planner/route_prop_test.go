package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/resolve"
)

// only knows one agent.
type only struct {
	anybody
	agent events.Agent
}

func (o only) Agent(context.Context, string) (events.Agent, error) { return o.agent, nil }

// dispatch gives a task to a planner of its own, twice, and returns the run that it opened and the timers that are set.
func dispatch(t interface {
	Helper()
	Fatal(...any)
}, agent events.Agent, task events.Task, longRunning time.Duration) (run.State, []string) {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	role, err := assemble(t, Config{Ledger: l, Timers: st.Timers()}, assembly{made: resolve.Config{Agents: only{agent: agent}, LongRunning: longRunning}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second delivery changes nothing
		if err := role.Input(context.Background(), letter{events.TaskSubject("s1"), string(body), 1}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := l.Fresh(context.Background(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	return s, st.TimersSet()
}

func TestPathProp(t *testing.T) {
	t.Parallel()
	t.Run("PROP-20 LIFE-13 Feature: agent-harnesses, Property 20: the path that a planner takes is that of the classification", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			threshold := time.Duration(rapid.IntRange(1, 7200).Draw(t, "threshold")) * time.Second
			agent := events.Agent{Name: "a", Model: "scripted/x", Digest: strings.Repeat("0", 64),
				Harness: rapid.SampledFrom([]string{"", events.HarnessOn, events.HarnessOff}).Draw(t, "harness")}
			autonomy := rapid.IntRange(1, 5).Draw(t, "autonomy")
			task := events.Task{ID: "r1", Agent: "a", Task: "do it", Autonomy: &autonomy}
			long, said := false, false
			if rapid.Bool().Draw(t, "estimated") {
				d := threshold + time.Duration(rapid.IntRange(-2, 2).Draw(t, "off"))*time.Second
				if d > 0 {
					task.Estimate, said = d.String(), true
					long = d >= threshold
				}
			}
			marked := rapid.Bool().Draw(t, "marked")
			if marked {
				long, said = rapid.Bool().Draw(t, "mark"), true
				task.LongRunning = &long
			}
			gated := autonomy < 3
			if rapid.IntRange(0, 4).Draw(t, "plan") == 0 {
				task.Plan = &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "do it"}}}
			}
			// The dumb twin: what only the harness gives, then the classification, then what is said of the agent.
			var direct bool
			switch {
			case gated || task.Plan != nil || long:
			case marked:
				direct = true
			case agent.Harness == "":
				direct = said
			default:
				direct = agent.Harness == events.HarnessOff
			}
			s, _ := dispatch(t, agent, task, threshold)
			if s.Direct() != direct || s.Status != events.Running || s.Plan == nil {
				t.Fatalf("direct %v, want %v: %+v", s.Direct(), direct, task)
			}
			if direct != (s.Sequence == 1) {
				t.Fatalf("%d events", s.Sequence)
			}
		})
	})
}

func TestPathDefault(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-13 without a setting five minutes are long", func(t *testing.T) {
		t.Parallel()
		off := events.Agent{Name: "a", Model: "scripted/x", Harness: events.HarnessOff}
		for estimate, direct := range map[string]bool{"4m59s": true, "5m": false} {
			if s, _ := dispatch(t, off, events.Task{ID: "r1", Agent: "a", Task: "x", Estimate: estimate}, 0); s.Direct() != direct {
				t.Errorf("%s: direct %v", estimate, s.Direct())
			}
		}
	})
	t.Run("LIFE-13 a threshold below zero is refused", func(t *testing.T) {
		t.Parallel()
		if _, err := resolve.New(resolve.Config{Agents: anybody{}, LongRunning: -1}); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("LIFE-14 the time of a direct run is limited as that of any other", func(t *testing.T) {
		t.Parallel()
		off := events.Agent{Name: "a", Model: "scripted/x", Harness: events.HarnessOff}
		s, timers := dispatch(t, off, events.Task{ID: "r1", Agent: "a", Task: "x", Timeout: "3m"}, 0)
		if !s.Direct() || !slices.Equal(timers, []string{"r1.run.deadline"}) {
			t.Errorf("%v %+v", timers, s)
		}
	})
}
