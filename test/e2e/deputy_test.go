package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestDeputies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "several", Tools: []string{"bash"}, Guards: []events.Rule{{ID: "careful", Tool: "bash", Action: "ask"}},
		Gates: events.GateTerms{Approvers: 2}}, shouter)
	letters := w.letters()
	roles := w.start()
	c := client.Over(w.st, nil, nil)
	ds := client.NewDeputies(c)
	await := func(runID string) (run.State, events.GateOpenedData) {
		w.task(events.Task{ID: runID, Agent: "several", Task: "shout", By: "zoe"})
		return w.await(runID, "waiting", waiting), w.opened(runID)
	}
	yes := func(g events.GateOpenedData, of string) events.Answer {
		return events.Answer{Decision: "approve", ProposalHash: g.ProposalHash, DeputyFor: of}
	}
	refused := func(t *testing.T, code string) {
		t.Helper()
		if d := w.on(t).letter(letters); d.Code != code || d.Hint == "" {
			t.Errorf("got %+v, want %s", d, code)
		}
	}
	t.Run("PLUS-23b somebody who is away has their gates answered by a deputy, and the log names both", func(t *testing.T) {
		w := w.on(t)
		_, g := await("away")
		w.answerAs(g, "bob", yes(g, "ann"))
		refused(t, "no_deputy")
		for range 2 { // published twice is two controls, of which the second replaces the first by the same
			if _, err := ds.Control(w.ctx(), "ann", events.DeputyControl{Action: events.AwayAction, To: "bob", Until: time.Now().Add(time.Hour), Reason: "ill"}); err != nil {
				t.Fatal(err)
			}
		}
		w.answerAs(g, "eve", yes(g, "ann"))
		refused(t, "not_deputy")
		w.publish(g.AnswerSubject, `{"decision":"approve","by":"bob","deputy_for":"ann"}`)
		refused(t, "unproven_answer")
		w.answerAs(g, "bob", yes(g, "ann"))
		w.await("away", "one vote", func(s run.State) bool { return len(s.Gate(g.Gate).Votes) == 1 })
		w.answerAs(g, "bob", yes(g, ""))
		refused(t, "already_voted")
		w.answerAs(g, "carol", yes(g, ""))
		s := w.ended("away")
		if v := s.Gate(g.Gate).Votes; s.Status != events.Completed || len(v) != 2 || v[0].By != "ann" || v[0].Deputy != "bob" || v[1].By != "carol" {
			t.Errorf("%s %+v", s.Status, v)
		}
		if list := said[*events.GateVotedData](w, "away"); len(list) != 1 || list[0].Assurance != events.AssuranceSubject || list[0].Deputy.By != "bob" || list[0].Deputy.Number != 2 {
			t.Errorf("%+v", list)
		}
	})
	t.Run("PLUS-23b a deputy survives a restart, and answers no more once who was away is back or the time is over", func(t *testing.T) {
		w := w.on(t)
		_, g := await("back")
		roles.stop()
		roles = w.start()
		if all, err := ds.Get(w.ctx()); err != nil || all.Of("ann").To != "bob" {
			t.Fatalf("%+v, %v", all, err)
		}
		if _, err := ds.Control(w.ctx(), "ann", events.DeputyControl{Action: events.BackAction}); err != nil {
			t.Fatal(err)
		}
		w.answerAs(g, "bob", yes(g, "ann"))
		refused(t, "no_deputy")
		until := time.Now().Add(2 * time.Second)
		if _, err := ds.Control(w.ctx(), "ann", events.DeputyControl{Action: events.AwayAction, To: "bob", Until: until}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(until))
		w.answerAs(g, "bob", yes(g, "ann"))
		refused(t, "deputy_ended")
		b, err := json.Marshal(events.DeputyControl{Action: events.AwayAction, To: "ann", Until: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		w.publish(events.DeputySubject("test", "ann"), string(b)) // of oneself
		refused(t, "bad_input")
		if s := w.state("back"); len(s.Gate(g.Gate).Votes) != 0 {
			t.Errorf("%+v", s.Gate(g.Gate).Votes)
		}
	})
	roles.stop()
}
