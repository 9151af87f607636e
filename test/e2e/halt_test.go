package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

func (w *world) halts() halt.State {
	w.t.Helper()
	l, err := halt.NewLedger(halt.LedgerConfig{Station: "test", By: events.Planner, Journal: w.ports.HaltLog, Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := l.Fresh(w.ctx(), events.HaltID)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) steer(c events.HaltControl) {
	w.t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.HaltSubject("test"), string(b))
}

// halted halts the station and returns once all services have taken note.
func (w *world) halted(reason string, all ...*hosted) {
	w.t.Helper()
	w.steer(events.HaltControl{Action: events.HaltAction, By: "anna", Reason: reason})
	w.until("the station is halted", func() bool { return w.halts().Halted })
	w.obeyed(all...)
}

// obeyed waits until no service takes anything.
func (w *world) obeyed(all ...*hosted) {
	w.t.Helper()
	w.until("all services are halted", func() bool {
		for _, h := range all {
			for _, role := range h.roles {
				if role == events.Persister {
					continue
				}
				if err := h.host.Held(role); err == nil || !strings.Contains(err.Error(), "halted since") {
					return false
				}
			}
		}
		return true
	})
}

func (w *world) goOn() {
	w.t.Helper()
	w.steer(events.HaltControl{Action: events.ReleaseAction, By: "bert", Number: w.halts().Number})
	w.until("the station is released", func() bool { return !w.halts().Halted })
}

// stuckTool is a tool that works until its context ends, the first time that it is called with some arguments.
type stuckTool struct {
	*probe
	began, ended chan struct{}
	// open lets calls after the first one come to their end.
	open  chan struct{}
	calls atomic.Int64
}

func newStuckTool(name string, effect tool.Effect) *stuckTool {
	s := &stuckTool{open: make(chan struct{}), began: make(chan struct{}, 8), ended: make(chan struct{}, 8)} // more than there are calls
	s.probe = &probe{name: name, effect: effect, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		if s.calls.Add(1) > 1 {
			select {
			case <-s.open:
				return tool.Result{Output: "done at last"}, nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			}
		}
		s.began <- struct{}{}
		<-ctx.Done()
		s.ended <- struct{}{}
		return tool.Result{}, ctx.Err()
	}}
	return s
}

func (w *world) comes(what string, c <-chan struct{}) {
	w.t.Helper()
	select {
	case <-c:
	case <-w.ctx().Done():
		w.t.Fatalf("waited for: %s", what)
	}
}

func TestHalt(t *testing.T) {
	t.Parallel()
	look, pay := newStuckTool("look", tool.Read), newStuckTool("pay", tool.Once)
	w := newWorld(t, look, pay)
	w.agent(events.Agent{Name: "look", Tools: []string{"look"}}, calling("look", "{}"))
	w.agent(events.Agent{Name: "pay", Tools: []string{"pay"}}, calling("pay", "{}"))
	w.agent(events.Agent{Name: "talk"}, "turns:\n  - text: done\n")
	letters := w.letters()
	planners, others := w.start(events.Planner), w.start(events.Gatekeeper, events.Executor, events.Toolrunner, events.Persister)
	w.task(events.Task{ID: "reads", Agent: "look", Task: "go"})
	w.task(events.Task{ID: "pays", Agent: "pay", Task: "go"})
	w.comes("the call of look", look.began)
	w.comes("the call of pay", pay.began)

	t.Run("PLUS-21a a halt ends the calls that are under way, and nothing is recorded of them", func(t *testing.T) {
		w := w.on(t)
		w.halted("prices are wrong", planners, others)
		w.comes("the end of look", look.ended)
		w.comes("the end of pay", pay.ended)
		for _, id := range []string{"reads", "pays"} {
			if n := w.count(id); n["call.finished"]+n["call.failed"] > 0 {
				t.Errorf("%s: %s", id, w.story(id))
			}
		}
		if s := w.halts(); s.By != "anna" || s.Reason != "prices are wrong" || s.Number != 1 {
			t.Errorf("%+v", s.Halt)
		}
	})
	before := map[string]int{"reads": len(w.events("reads")), "pays": len(w.events("pays"))}
	t.Run("PLUS-21a a second halt is refused with who made the first one, and a release of another halt with what is in force", func(t *testing.T) {
		w := w.on(t)
		w.steer(events.HaltControl{Action: events.HaltAction, By: "carl", Reason: "me too"})
		if d := w.letter(letters); d.Code != halt.Halted || !strings.Contains(d.Reason, "by anna: prices are wrong") {
			t.Errorf("%+v", d)
		}
		w.steer(events.HaltControl{Action: events.ReleaseAction, By: "carl", Number: 7})
		if d := w.letter(letters); d.Code != halt.Stale {
			t.Errorf("%+v", d)
		}
		w.steer(events.HaltControl{Action: events.HaltAction, By: "carl"})
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "needs a reason") {
			t.Errorf("%+v", d)
		}
		if s := w.halts(); !s.Halted || s.Number != 1 || s.By != "anna" {
			t.Errorf("%+v", s.Halt)
		}
	})
	t.Run("PLUS-21a what starts while the station is halted does nothing: no run, no turn, no call", func(t *testing.T) {
		w := w.on(t)
		planners.stop()
		others.stop()
		w.task(events.Task{ID: "new", Agent: "talk", Task: "go"})
		w.publish(events.ControlSubject("test", "reads"), `{"action":"pause","by":"carl"}`)
		all := w.start()
		w.obeyed(all)
		w.steer(events.HaltControl{Action: events.HaltAction, By: "carl", Reason: "again"})
		if d := w.letter(letters); d.Code != halt.Halted { // so the planner was there and took what it may
			t.Errorf("%+v", d)
		}
		if n := len(w.events("new")); n > 0 {
			t.Errorf("a run began: %s", w.story("new"))
		}
		for id, n := range before {
			if got := len(w.events(id)); got != n {
				t.Errorf("%s went on: %s", id, w.story(id))
			}
		}
		if look.calls.Load() != 1 || pay.calls.Load() != 1 {
			t.Error("a call was made")
		}
	})
	t.Run("PLUS-21a a release that comes while no planner runs is obeyed once one does, and all goes on where it was", func(t *testing.T) {
		w := w.on(t)
		w.steer(events.HaltControl{Action: events.ReleaseAction, By: "bert", Number: w.halts().Number})
		if !w.halts().Halted {
			t.Fatal("someone recorded it")
		}
		w.start()
		if s := w.ended("new"); !s.Result.Success {
			t.Errorf("%+v", s.Result)
		}
		w.await("reads", "paused as it was asked to meanwhile", func(s run.State) bool { return s.Status == events.Paused })
		close(look.open)
		w.publish(events.ControlSubject("test", "reads"), `{"action":"resume","by":"carl"}`)
		if s := w.ended("reads"); !s.Result.Success || s.ToolCallHistory.At(0).Result != "done at last" {
			t.Errorf("%+v\n%s", s.Result, w.story("reads"))
		}
		if s := w.ended("pays"); s.ToolCallHistory.At(0).Code != events.OutcomeUnknown || pay.calls.Load() != 1 {
			t.Errorf("a call that may be made once only was made again, or is not said to be unknown: %+v", s.ToolCallHistory.At(0))
		}
		for _, id := range []string{"reads", "pays", "new"} {
			w.sound(id)
		}
		if s := w.halts(); s.Halted || s.ReleasedBy != "bert" || len(s.Past) != 1 {
			t.Errorf("%+v", s.Halt)
		}
	})
}

// TestHaltWithoutPlanner halts a station whose planners are dead.
func TestHaltWithoutPlanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "talk"}, "turns:\n  - text: done\n")
	others := w.start(events.Gatekeeper, events.Executor, events.Toolrunner)
	w.steer(events.HaltControl{Action: events.HaltAction, By: "anna", Reason: "stop"})
	w.task(events.Task{ID: "late", Agent: "talk", Task: "go"})
	if w.halts().Halted {
		t.Fatal("someone recorded it")
	}
	planners := w.start(events.Planner)
	t.Run("PLUS-21a a halt that came while no planner ran is in force soon after one does", func(t *testing.T) {
		w := w.on(t)
		w.until("the station is halted", func() bool { return w.halts().Halted })
		w.obeyed(planners, others)
		w.goOn()
		w.ended("late")
	})
}
