package session_test

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

// opened is a session in which run r1 has the lock with the fence 1.
func opened(t *testing.T, now time.Time) session.State {
	t.Helper()
	e, err := session.Take(session.State{}, session.Ask{Session: "s", Run: "r1", Agent: "a"}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func steered(t *testing.T, e session.State, action string, input uint64, now time.Time) session.State {
	t.Helper()
	e, err := session.Steer(session.Drop(e, "r1", now), session.Wish{Session: "s", Input: input, SessionControl: events.SessionControl{Action: action}}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestGrants(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	grant := events.Grant{ID: "g-1", Run: "r1", Scope: events.GrantSession, Session: "s", At: now, Until: now.Add(time.Hour)}
	why := events.Revocation{Grant: "g-1", By: "anna"}
	t.Run("PLUS-14 a grant is added once, holds until its end, and is taken back once", func(t *testing.T) {
		t.Parallel()
		e := session.Give(opened(t, now), grant, 1, now)
		if got := e.StandingGrants(now); len(got) != 1 || len(session.Give(e, grant, 1, now).Changes()) != len(e.Changes()) {
			t.Fatalf("%+v", got)
		}
		if len(e.StandingGrants(grant.Until)) != 0 || len(e.StandingGrants(grant.Until.Add(-1))) != 1 {
			t.Error("it holds at its end, or not before")
		}
		out := session.Revoke(e, grant, 1, why, now)
		if len(out.StandingGrants(now)) != 0 || len(session.Revoke(out, grant, 1, why, now).Changes()) != len(out.Changes()) {
			t.Errorf("%+v", out.Grants)
		}
		if again := session.Give(out, grant, 1, now); len(again.StandingGrants(now)) != 0 {
			t.Error("a grant that was taken back came again")
		}
		other := grant
		other.ID, other.At = "g-2", grant.Until
		other.Until = grant.Until.Add(time.Hour)
		if late := session.Give(out, other, 1, grant.Until); len(late.Grants) != 1 || late.Grants[0].ID != "g-2" {
			t.Errorf("what has expired is kept: %+v", late.Grants)
		}
	})
	t.Run("PLUS-14 it is taken back before it was added: it is never added", func(t *testing.T) {
		t.Parallel()
		e := session.Revoke(opened(t, now), grant, 1, why, now)
		if len(e.StandingGrants(now)) != 0 || len(e.Grants) != 1 {
			t.Fatalf("%+v", e.Grants)
		}
		if e = session.Give(e, grant, 1, now); len(e.StandingGrants(now)) != 0 {
			t.Error("it was added afterwards")
		}
	})
	t.Run("PLUS-14 too late: the time is up, the session has ended, was deleted or is another one", func(t *testing.T) {
		t.Parallel()
		later := now.Add(time.Minute)
		ended := steered(t, session.Give(opened(t, now), grant, 1, now), session.Finish, 3, later)
		if len(ended.Grants) != 0 {
			t.Errorf("a session that ended has %+v", ended.Grants)
		}
		deleted := steered(t, opened(t, now), session.Delete, 3, later)
		for name, e := range map[string]session.State{
			"no session":   {},
			"ended":        ended,
			"opened again": steered(t, ended, session.Start, 4, later),
			"deleted":      deleted,
			"made anew":    steered(t, deleted, session.Start, 4, later),
		} {
			if got := session.Give(e, grant, 1, later); len(got.Grants) != 0 {
				t.Errorf("%s: %+v", name, got.Grants)
			}
			if got := session.Revoke(e, grant, 1, why, later); len(got.Changes()) != len(e.Changes()) {
				t.Errorf("%s: something is taken back", name)
			}
		}
		if got := session.Give(opened(t, now), grant, 1, grant.Until); len(got.Grants) != 0 {
			t.Errorf("its time is up: %+v", got.Grants)
		}
	})
}
