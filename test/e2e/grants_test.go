package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// loud asks a person before each echo, and runs two commands, one a turn.
const loud = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "echo one"}}]
  - when: {turn: 2}
    calls: [{name: bash, input: {command: "%s"}}]
  - when: {turn: 3}
    text: "Done."
`

// granted are the grants that the permissions of a run rest on, by call.
func (w *world) granted(runID string) map[string][]events.GrantUse {
	w.t.Helper()
	uses := map[string][]events.GrantUse{}
	for _, r := range w.events(runID) {
		_, p, err := events.Read(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if d, ok := p.(*events.CallAllowedData); ok && len(d.Grants) > 0 {
			uses[d.Call] = d.Grants
		}
	}
	return uses
}

// sessionLog folds the log of a session.
func (w *world) sessionLog(id string) (s session.State) {
	w.t.Helper()
	for after := uint64(0); ; {
		batch, more, err := w.st.JournalFor(events.SessionAggregate).Read(w.ctx(), id, after)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.SessionAggregate, events.LookupSession)
			if err == nil {
				s, err = session.Aggregate().Apply(s, f, p, events.HashOf(r.Bytes))
			}
			if err != nil {
				w.t.Fatal(err)
			}
			after = r.Seq
		}
		if !more {
			return s
		}
	}
}

// TestGrants answers gates as a plain NATS client does.
func TestGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "same", Tools: []string{"bash"}, Guards: ask}, fmt.Sprintf(loud, "echo one"))
	w.agent(events.Agent{Name: "other", Tools: []string{"bash"}, Guards: ask}, fmt.Sprintf(loud, "echo two"))
	letters := w.letters()
	w.start()
	begin := func(w *world, id, agent, session string) (run.State, events.GateOpenedData) {
		w.task(events.Task{ID: id, Agent: agent, Task: "speak", Session: session})
		s := w.await(id, "waiting", waiting)
		return s, w.opened(id)
	}
	t.Run("PLUS-14 always for the run: the same call passes, the next run asks", func(t *testing.T) {
		w := w.on(t)
		_, g := begin(w, "run-1", "same", "")
		if g.Always == nil || g.Always.Pattern != "echo one" || g.Always.Rule != "loud" {
			t.Fatalf("offered %+v", g.Always)
		}
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"run"}`)
		s := w.ended("run-1")
		uses := w.granted("run-1")
		if s.Status != events.Completed || len(s.Gates) != 1 || len(uses) != 1 || s.Gates[0].Grant == nil {
			t.Fatalf("%s, %d gates, grants %+v", s.Status, len(s.Gates), uses)
		}
		_, g = begin(w, "run-2", "same", "")
		w.publish(g.AnswerSubject, `{"decision":"reject","reason":"another run"}`)
	})
	t.Run("PLUS-14 always for the session: its next run does not ask, until it is revoked, and another session asks", func(t *testing.T) {
		w := w.on(t)
		_, g := begin(w, "s-1", "same", "talk")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"session","for":"2h"}`)
		if s := w.ended("s-1"); s.Status != events.Completed || len(s.Gates) != 1 {
			t.Fatalf("%s, %d gates", s.Status, len(s.Gates))
		}
		stands := w.sessionLog("talk").StandingGrants(time.Now())
		if len(stands) != 1 || stands[0].ID != g.Gate || stands[0].Until.Sub(stands[0].At) != 2*time.Hour {
			t.Fatalf("%+v", stands)
		}
		w.task(events.Task{ID: "s-2", Agent: "same", Task: "again", Session: "talk"})
		if s := w.ended("s-2"); s.Status != events.Completed || len(s.Gates) != 0 {
			t.Fatalf("%s, %d gates", s.Status, len(s.Gates))
		}
		for _, uses := range w.granted("s-2") {
			if len(uses) != 1 || uses[0].Run != "s-1" || uses[0].ID != g.Gate || uses[0].Sequence == 0 {
				t.Errorf("%+v", uses)
			}
		}
		_, far := begin(w, "far", "same", "elsewhere")
		w.publish(far.AnswerSubject, `{"decision":"reject"}`)
		w.publish(g.AnswerSubject+".bob", `{"decision":"revoke","reason":"enough"}`)
		w.until("the grant is revoked", func() bool { return len(w.sessionLog("talk").StandingGrants(time.Now())) == 0 })
		row, _ := w.sessionLog("talk").SessionGrant("s-1", g.Gate)
		if row.RevokedBy != "bob" {
			t.Errorf("%+v", row)
		}
		_, again := begin(w, "s-3", "same", "talk")
		w.publish(again.AnswerSubject, `{"decision":"approve","always":"session","pattern":"echo *"}`)
		w.ended("s-3")
		w.task(events.Task{ID: "s-4", Agent: "other", Task: "go on", Session: "talk"})
		if s := w.ended("s-4"); s.Status != events.Completed || len(s.Gates) != 0 {
			t.Errorf("the pattern: %s, %d gates", s.Status, len(s.Gates))
		}
	})
	t.Run("PLUS-14 GATE-8 two answers with different scopes: the first in the log wins; malformed ones are refused", func(t *testing.T) {
		w := w.on(t)
		_, g := begin(w, "both", "same", "pair")
		for _, c := range []struct{ body, code string }{
			{`{"decision":"approve","always":"project"}`, "bad_input"},
			{`{"decision":"approve","always":"session","for":"a while"}`, "bad_input"},
			{`{"decision":"approve","always":"session","for":"9000h"}`, "bad_input"},
			{`{"decision":"reject","always":"session"}`, "bad_input"},
			{`{"decision":"approve","pattern":"echo *"}`, "bad_input"},
			{`{"decision":"approve","always":"run","edited_input":{"command":"echo two"}}`, "bad_input"},
			{`{"decision":"approve","always":"run","pattern":"rm *"}`, "bad_pattern"},
			{`{"decision":"revoke"}`, "unknown_grant"},
		} {
			w.publish(g.AnswerSubject+".anna", c.body)
			if l := w.letter(letters); l.Code != c.code || l.Hint == "" {
				t.Errorf("%s: refused with %s, want %s: %s", c.body, l.Code, c.code, l.Reason)
			}
		}
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"run"}`)
		w.publish(g.AnswerSubject+".bob", `{"decision":"approve","always":"session"}`)
		late := w.letter(letters) // either, for two workers of the gatekeeper may have one each
		first, grants := "anna", 0
		if strings.HasSuffix(late.Subject, ".anna") {
			first, grants = "bob", 1
			w.until("the grant is there", func() bool { return len(w.sessionLog("pair").Grants) == 1 })
		}
		if late.Code != "gate_closed" || !strings.Contains(late.Reason, "approved by "+first) {
			t.Errorf("%+v", late)
		}
		w.ended("both")
		if stands := w.sessionLog("pair").Grants; len(stands) != grants {
			t.Errorf("%s was first, and the grants are %+v", first, stands)
		}
	})
}

// cutLog is the log of sessions for roles that die before one of them adds a grant: no append of a grant arrives.
type cutLog struct {
	kernel.Journal
	once  sync.Once
	tried chan struct{}
}

// Append implements kernel.Journal.
func (c *cutLog) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if e.Kind != events.SessionGranted {
		return c.Journal.Append(ctx, e)
	}
	c.once.Do(func() { close(c.tried) })
	return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
}

// TestGrantCut ends all roles between gate.approved and session.granted, and starts others.
func TestGrantCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "same", Tools: []string{"bash"}, Guards: ask}, fmt.Sprintf(loud, "echo one"))
	whole, cut := w.ports.SessionLog, &cutLog{Journal: w.ports.SessionLog, tried: make(chan struct{})}
	w.ports.SessionLog = cut
	first := w.start()
	w.task(events.Task{ID: "cut-1", Agent: "same", Task: "speak", Session: "cut"})
	w.await("cut-1", "waiting", waiting)
	g := w.opened("cut-1")
	w.publish(g.AnswerSubject+".anna", `{"decision":"approve","always":"session"}`)
	t.Run("PLUS-14 SAFE-3 an approval whose grant was not added to its session is completed when the answer comes again, once", func(t *testing.T) {
		w := w.on(t)
		select {
		case <-cut.tried:
		case <-w.ctx().Done():
			t.Fatal("no grant was given")
		}
		first.stop()
		s := w.state("cut-1")
		if gate := s.Gate(g.Gate); gate.Status != run.GateApproved || gate.Grant == nil {
			t.Fatalf("%+v", gate)
		}
		if has := w.sessionLog("cut").Grants; len(has) != 0 {
			t.Fatalf("%+v", has)
		}
		w.ports.SessionLog = whole
		w.start()
		w.until("the grant is in its session", func() bool { return len(w.sessionLog("cut").StandingGrants(time.Now())) == 1 })
		if s := w.ended("cut-1"); s.Status != events.Completed {
			t.Fatalf("%s", s.Status)
		}
		w.task(events.Task{ID: "cut-2", Agent: "same", Task: "again", Session: "cut"})
		if s := w.ended("cut-2"); s.Status != events.Completed || len(s.Gates) != 0 {
			t.Errorf("%s, %d gates", s.Status, len(s.Gates))
		}
		if has := w.sessionLog("cut").Grants; len(has) != 1 || has[0].Run != "cut-1" || has[0].ID != g.Gate {
			t.Errorf("%+v", has)
		}
	})
}
