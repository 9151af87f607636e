package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// smallTreeGrants is the small world in a session: its first step is given to a child, which pays twice, and then it pays
// itself. A person who is asked in the child allows all of that for the session.
func smallTreeGrants() Scene {
	pays := func(n int) []SceneCall {
		return []SceneCall{{Tool: "pay", N: n, Command: fmt.Sprintf("echo pay %d", n)}}
	}
	s := small("pay", "pay")
	s.Always = true
	r := &s.Runs[0]
	r.Session, r.Asks, r.Autonomy = theSession, true, 5
	r.Steps[0].Turns, r.Steps[0].Kid = nil, "agent-"+kidID(r.ID, 1)
	r.Steps[1].Critical, r.Steps[1].Turns = false, [][]SceneCall{pays(2)}
	id, budget, retries := r.ID, r.Budget, r.Retries
	for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
		s.Runs = append(s.Runs, SceneRun{ID: kidID(id, attempt), Kid: true, Autonomy: 5, Budget: budget, Retries: retries, Asks: true,
			Steps: []SceneStep{{ID: "step-1", Turns: [][]SceneCall{pays(10*attempt + 1), pays(10*attempt + 2)}}}})
	}
	return s
}

// restsOnSession holds PLUS-14 for a tree: the grant was given at a gate of a run of it, has time left, and is in the
// log of the session, not taken back.
func (a *audit) restsOnSession(u events.GrantUse, at time.Time) string {
	var given *grantAudit
	if l := a.runs[u.Run]; l != nil {
		given = l.grants[u.ID]
	}
	s, _, err := a.logOf()
	g, has := s.SessionGrant(u.Run, u.ID)
	switch {
	case given == nil || !given.session || !at.Before(given.until):
		return "it rests on grant " + u.ID + " of run " + u.Run + ", which no one gave there for the session, or whose time was up"
	case err != nil || !has || !g.Revoked.IsZero() || u.Sequence == 0 || u.Sequence > s.Sequence:
		return fmt.Sprintf("it rests on grant %s at %d of a session that has %+v, %v", u.ID, u.Sequence, s.Grants, err)
	}
	a.w.tale.counts["calls on a grant of the session"]++
	return ""
}

// grantsOf holds that a session has each grant that somebody gave for it, once, and no other.
func (a *audit) grantsOf(e events.Session) string {
	given := 0
	for _, id := range rank(a.runs) {
		for gate, g := range a.runs[id].grants {
			if !g.session {
				continue
			}
			given++
			if _, has := e.SessionGrant(id, gate); !has {
				return "it lacks the grant " + gate + " of run " + id
			}
		}
	}
	if given != len(e.Grants) {
		return fmt.Sprintf("%d grants were given for it, and it has %+v", given, e.Grants)
	}
	return ""
}

func TestEveryOperationTreeGrants(t *testing.T) {
	t.Run("PLUS-14 SUB-6 SAFE-7 a crash or a duplicate at operations of a run whose child gets a grant of the session: it is in the session, once, and calls of the tree rest on it", func(t *testing.T) {
		plays, rests := 0, 0
		someOf(t, smallTreeGrants(), 47, func(out Outcome) {
			plays++
			rests += out.Counts["calls on a grant of the session"]
		})
		if plays < 10 || rests < plays {
			t.Errorf("%d plays, in which %d calls rested on a grant", plays, rests)
		}
		t.Logf("%d plays, in which %d calls rested on a grant", plays, rests)
	})
}
