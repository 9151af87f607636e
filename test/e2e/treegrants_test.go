package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestGrantsOfTrees gives and takes back grants of a session while runs of it have children.
func TestGrantsOfTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := events.Rule{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}
	never := events.Rule{ID: "never", Tool: "bash", Match: events.Match{Glob: "echo one"}, Action: "deny", Reason: "no", Locked: true}
	w.agent(events.Agent{Name: "same", Tools: []string{"bash"}, Guards: []events.Rule{ask}}, fmt.Sprintf(loud, "echo one"))
	w.agent(events.Agent{Name: "shut", Tools: []string{"bash"}, Guards: []events.Rule{ask, never}}, fmt.Sprintf(loud, "echo one"))
	w.start()
	family := func(w *world, id string, plan *events.TaskPlan) {
		w.task(events.Task{ID: id, Agent: "same", Task: "speak", Session: "tree", Plan: plan})
	}
	child := func(w *world, id string) string {
		return kids(w.await(id, "with a child", func(s run.State) bool { return len(s.Children) > 0 }))[0]
	}
	revoked := func(w *world, g events.GateOpenedData) {
		w.publish(g.AnswerSubject+".bob", `{"decision":"revoke"}`)
		w.until("the grant is revoked", func() bool { return len(w.sessionLog("tree").StandingGrants(time.Now())) == 0 })
	}
	t.Run("PLUS-14 SUB-6 a grant of the session holds in the children of its runs, and never over a locked deny", func(t *testing.T) {
		w := w.on(t)
		family(w, "t1", childPlan(events.TaskStep{ID: "a", Description: "do a"}, childStep("b", "same", "a"), childStep("c", "shut", "b")))
		w.await("t1", "waiting", waiting)
		g := w.opened("t1")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"session"}`)
		s := w.ended("t1")
		if s.Status != events.Completed || len(s.Children) != 2 {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("t1"))
		}
		open, shut := s.Children[0].ID, s.Children[1].ID
		uses := w.granted(open)
		if k := w.state(open); len(k.Gates) != 0 || len(uses) != 2 || k.Created.Session != "" {
			t.Fatalf("%d gates, grants %+v, session %q", len(k.Gates), uses, k.Created.Session)
		}
		for _, u := range uses {
			if len(u) != 1 || u[0].Run != "t1" || u[0].ID != g.Gate || u[0].Sequence == 0 {
				t.Errorf("%+v", u)
			}
		}
		if n := w.count(shut); n["call.refused"] != 2 || n["call.allowed"] != 0 {
			t.Errorf("over a locked deny: %v", n)
		}
		for _, id := range []string{"t1", open, shut} {
			if r := replayed(t, lawOf(t, events.GateTerms{}), w.log(id)); !r.OK() || r.Decided == 0 {
				t.Errorf("PLUS-6 the log of %s alone decides otherwise: %+v", id, r)
			}
		}
		w.task(events.Task{ID: "fork", ForkOf: &events.ForkPoint{Run: open, Sequence: w.eventOf(open, events.StepAllowed)}, Say: "Again."})
		asksOrEnds := func(s run.State) bool { return waiting(s) || s.Status.Ended() }
		if s := w.await("fork", "at its gate", asksOrEnds); len(s.Gates) != 1 {
			t.Errorf("a fork of a child rests on %+v", w.granted("fork"))
		}
		revoked(w, g)
	})
	t.Run("PLUS-14 SUB-6 a grant for the run alone holds in none of its children", func(t *testing.T) {
		w := w.on(t)
		family(w, "t5", childPlan(events.TaskStep{ID: "a", Description: "do a"}, childStep("b", "same", "a")))
		w.await("t5", "waiting", waiting)
		w.publish(w.opened("t5").AnswerSubject+".anna", `{"decision":"approve","always":"run"}`)
		kid := child(w, "t5")
		s := w.await(kid, "at its gate, or at its end", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
		if len(s.Gates) != 1 || len(w.granted(kid)) != 0 {
			t.Errorf("%s, %d gates, grants %+v", s.Status, len(s.Gates), w.granted(kid))
		}
		w.publish(events.ControlSubject("test", "t5"), `{"action":"stop"}`)
		w.ended("t5")
	})
	t.Run("PLUS-14 SUB-6 a child asks after the revocation; a grant of its gate holds in the session until it is revoked", func(t *testing.T) {
		w := w.on(t)
		family(w, "t2", childPlan(childStep("b", "same")))
		kid := child(w, "t2")
		w.await(kid, "waiting", waiting)
		g := w.opened(kid)
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"session"}`)
		if s := w.ended("t2"); s.Status != events.Completed || len(w.state(kid).Gates) != 1 {
			t.Fatalf("%s\n%s", s.Status, w.story(kid))
		}
		if row, has := w.sessionLog("tree").SessionGrant(kid, g.Gate); !has || !row.Revoked.IsZero() {
			t.Fatalf("%+v", w.sessionLog("tree").Grants)
		}
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log(kid)); !r.OK() || r.Decided == 0 {
			t.Errorf("PLUS-6 %+v", r)
		}
		family(w, "t3", nil)
		if s := w.ended("t3"); s.Status != events.Completed || len(s.Gates) != 0 {
			t.Errorf("%s, %d gates", s.Status, len(s.Gates))
		}
		revoked(w, g)
		family(w, "t4", childPlan(childStep("b", "same")))
		last := child(w, "t4")
		w.await(last, "waiting", waiting)
		w.publish(events.ControlSubject("test", "t4"), `{"action":"stop"}`)
		w.ended("t4")
	})
}

// TestGrantCutOfChild ends all roles between gate.approved of a child and session.granted, and starts others.
func TestGrantCutOfChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "same", Tools: []string{"bash"}, Guards: ask}, fmt.Sprintf(loud, "echo one"))
	whole, cut := w.ports.SessionLog, &cutLog{Journal: w.ports.SessionLog, tried: make(chan struct{})}
	w.ports.SessionLog = cut
	first := w.start()
	w.task(events.Task{ID: "cut-1", Agent: "same", Task: "speak", Session: "cut", Plan: childPlan(childStep("b", "same"))})
	kid := kids(w.await("cut-1", "with a child", func(s run.State) bool { return len(s.Children) > 0 }))[0]
	w.await(kid, "waiting", waiting)
	g := w.opened(kid)
	w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"session"}`)
	t.Run("PLUS-14 SAFE-3 SUB-6 a grant of a child's gate that was not added to the session is completed, once", func(t *testing.T) {
		w := w.on(t)
		select {
		case <-cut.tried:
		case <-w.ctx().Done():
			t.Fatal("no grant was given")
		}
		first.stop()
		k := w.state(kid)
		if has := w.sessionLog("cut").Grants; len(has) != 0 || k.Gate(g.Gate).Grant == nil {
			t.Fatalf("%+v", has)
		}
		w.ports.SessionLog = whole
		w.start()
		w.until("the grant is in its session", func() bool { return len(w.sessionLog("cut").StandingGrants(time.Now())) == 1 })
		if s := w.ended("cut-1"); s.Status != events.Completed {
			t.Fatalf("%s\n%s", s.Status, w.story(kid))
		}
		if has := w.sessionLog("cut").Grants; len(has) != 1 || has[0].Run != kid || has[0].ID != g.Gate {
			t.Errorf("%+v", has)
		}
	})
}
