package sim

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// theSession is the one that runs of a play share.
const theSession = "s1"

// mostTries is how often a task is sent again that found its session locked.
const mostTries = 8

// again sends the task of a run once more that found the session locked, after the run that it met has ended.
func (h *person) again(r SceneRun) {
	if r.Session == "" || h.w.state[r.ID].Sequence > 0 || h.tries[r.ID] >= mostTries {
		return
	}
	for _, d := range h.later {
		if d.act.what == "task "+r.ID {
			return
		}
	}
	for _, d := range h.acts {
		if d.what == "task "+r.ID {
			return
		}
	}
	dead, locked := map[uint64]bool{}, false
	for _, d := range h.w.st.Dead() {
		dead[d.Letter.Seq] = true
		locked = locked || d.Letter.Code == "session_locked" && h.tasks[d.Letter.Seq] == r.ID
	}
	for input, id := range h.tasks {
		if id == r.ID && !dead[input] {
			return
		}
	}
	for _, other := range h.w.play.Scene.Runs {
		if s := h.w.state[other.ID]; s.Sequence > 0 && !s.Status.Ended() {
			return
		}
	}
	if !locked {
		return
	}
	h.tries[r.ID]++
	task := act{events.TaskSubject(station), string(r.task()), "task " + r.ID}
	h.later = append(h.later, delayed{h.w.clock.Now().Add(time.Duration(h.tries[r.ID]*h.tries[r.ID]-1) * 10 * time.Second), task})
	h.w.tale.counts["tasks sent again"]++
}

// bound notes the session of a run that was made.
func (a *audit) bound(l *ledger, d *events.RunCreatedData) string {
	if d.Session == "" {
		return ""
	}
	l.session, l.fence, l.history = d.Session, d.SessionFence, d.History
	a.w.tale.counts["runs in a session"]++
	if d.SessionFence == 0 {
		return "it works in a session without a lock"
	}
	return ""
}

// entered holds SESS-3, SESS-5 and SESS-7 when a run has begun: one run at work in a sequential session, fences rise,
// and a run begins with all that was said before it, once. A run that was made and lost its lock ends before it begins;
// what it was asked may be told or not.
func (a *audit) entered(runID string, l *ledger) string {
	if l.session == "" {
		return ""
	}
	l.in = true
	ended := map[string]bool{}
	for _, id := range rank(a.runs) {
		o := a.runs[id]
		switch {
		case id == runID || o.session != l.session || !o.in:
			continue
		case o.ended == "":
			return fmt.Sprintf("run %s is at work in session %s", id, l.session)
		case o.fence >= l.fence:
			return fmt.Sprintf("fence %d after %d of run %s", l.fence, o.fence, id)
		}
		ended[id] = true
	}
	told, fault := a.parts(l.history)
	if fault != "" {
		return fault
	}
	for id := range ended {
		if told[id] != 1 && !a.w.play.Scene.Agent { // which begins anew at a handoff
			return fmt.Sprintf("it begins with run %s told %d times", id, told[id])
		}
	}
	for id, n := range told {
		if o := a.runs[id]; n != 1 || o == nil || o.session != l.session || o.ended == "" {
			return fmt.Sprintf("it begins with run %s told %d times, which has not ended in session %s", id, n, l.session)
		}
	}
	if len(ended) > 0 {
		a.w.tale.counts["runs that go on from others"]++
	}
	return ""
}

// parts counts what a history tells of each run. It is wrong where the fences do not fall from the newest part on.
func (a *audit) parts(newest *events.Ref) (told map[string]int, fault string) {
	told = map[string]int{}
	last := ^uint64(0)
	for ref := newest; ref != nil; {
		b, err := a.w.st.Blobs().Get(context.Background(), *ref)
		if err != nil {
			return nil, fmt.Sprintf("its history is not there: %v", err)
		}
		var p events.Part
		if err := json.Unmarshal(b, &p); err != nil {
			return nil, fmt.Sprintf("its history cannot be read: %v", err)
		}
		if p.Fence >= last {
			return nil, fmt.Sprintf("a part of fence %d lies before one of fence %d", p.Fence, last)
		}
		last, ref = p.Fence, p.Prev
		told[p.Run]++
	}
	return told, ""
}

// logOf reads the log of the session from its first event.
func (a *audit) logOf() (session.State, uint64, error) {
	l, err := a.sessionLedger()
	if err != nil {
		return session.State{}, 0, err
	}
	return l.State(context.Background(), theSession)
}

// sessionAt is the session after one of its events.
func (a *audit) sessionAt(sequence uint64) (session.State, error) {
	l, err := a.sessionLedger()
	if err != nil {
		return session.State{}, err
	}
	return l.At(context.Background(), theSession, sequence)
}

func (a *audit) sessionLedger() (*session.Ledger, error) {
	return session.NewLedger(session.LedgerConfig{Station: station, By: events.Planner, Journal: a.w.st.JournalFor(events.SessionAggregate), Entropy: rand.Reader})
}

// viewOf says how a row differs from what the log of the session says, read from its first event. It may be as old as
// the last event that somebody waited for: an append that arrives after its message was judged by another planner is
// shown by whoever uses the session next.
func (a *audit) viewOf(row []byte) string {
	s, position, err := a.logOf()
	if err != nil {
		return fmt.Sprintf("its log does not fold: %v", err)
	}
	want, err := session.View().Row(s, position)
	if err == nil && bytes.Equal(row, want) {
		return ""
	}
	log := a.w.st.Log(kernel.Key(events.SessionAggregate, theSession))
	for n := a.w.overtaken; err == nil && n > 0 && n < len(log); n++ {
		var then []byte
		if s, err = a.sessionAt(uint64(n)); err == nil {
			then, err = session.View().Row(s, log[n-1].Seq)
		}
		if err == nil && bytes.Equal(row, then) {
			a.w.tale.counts["rows of sessions that no one was left to write"]++
			return ""
		}
	}
	return fmt.Sprintf("its row is %s, its log says %s, %v", row, want, err)
}

// sessionIsWhole holds where a session stands at the end: each run that ended is told once, and only who lives, or was
// never born, holds its lock.
func (a *audit) sessionIsWhole() {
	if a.w.play.Scene.Agent {
		return // the session of a named agent begins anew at a handoff
	}
	b, err := a.w.st.KV(topology.SessionBucket).Get(context.Background(), "session."+theSession)
	if err != nil {
		for _, id := range rank(a.runs) {
			if a.runs[id].session != "" {
				a.breaks("run %s works in a session that is not there: %v", id, err)
			}
		}
		return
	}
	var e events.Session
	if err := json.Unmarshal(b, &e); err != nil {
		a.breaks("session %s: %v", theSession, err)
		return
	}
	if fault := a.viewOf(b); fault != "" {
		a.breaks("session %s: %s", theSession, fault)
	}
	told, fault := a.parts(e.History)
	if fault == "" {
		fault = a.grantsOf(e)
	}
	if fault != "" {
		a.breaks("session %s: %s", theSession, fault)
		return
	}
	for _, id := range rank(a.runs) {
		l, want := a.runs[id], 0
		if l.session == "" {
			continue
		}
		h, holds := e.Holder(id)
		switch {
		case l.ended != "" && !l.in: // it never began: what it was asked is told, unless it had lost its lock
			want = min(told[id], 1)
		case l.ended != "":
			want = 1
		}
		switch {
		case told[id] != want:
			a.breaks("session %s tells %d times of run %s (%s), want %d", theSession, told[id], id, l.ended, want)
		case holds != (l.ended == ""):
			a.breaks("session %s: run %s (%s) holds its lock: %v", theSession, id, l.ended, holds)
		case holds && h.Fence != l.fence || l.fence > e.Fence:
			a.breaks("session %s: run %s has fence %d, its lock %d, the session %d", theSession, id, l.fence, h.Fence, e.Fence)
		}
	}
	if e.Mode == events.Sequential && len(e.Holders) > 1 || e.Parts != len(told) {
		a.breaks("session %s has %d holders and counts %d parts of %d", theSession, len(e.Holders), e.Parts, len(told))
	}
}
