package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// sessionGrants are the standing grants of sessions while one message is worked on: they are read where a decision asks
// for them, and it is decided again.
type sessionGrants struct {
	ledger *session.Ledger
	known  map[string][]events.GrantUse
	// wanted is the session whose grants a decision asked for.
	wanted string
}

func (r *Role) grants() *sessionGrants {
	return &sessionGrants{ledger: r.cfg.Sessions, known: map[string][]events.GrantUse{}}
}

// lookup is gate.Policy.Grants.
func (g *sessionGrants) lookup() func(string) ([]events.GrantUse, bool) {
	g.wanted = ""
	if g.ledger == nil {
		return nil
	}
	return func(id string) ([]events.GrantUse, bool) {
		all, ok := g.known[id]
		if !ok {
			g.wanted = id
		}
		return all, ok
	}
}

// fetch reads from the leader what a decision asked for; fetched is false where it asked for nothing.
func (g *sessionGrants) fetch(ctx context.Context) (fetched bool, err error) {
	if g.wanted == "" {
		return false, nil
	}
	e, err := g.ledger.Fresh(ctx, g.wanted)
	if err != nil {
		return false, fmt.Errorf("grants of session %s: %w", g.wanted, err)
	}
	uses := []events.GrantUse{}
	for _, d := range e.Grants {
		if d.Revoked.IsZero() {
			uses = append(uses, events.GrantUse{Grant: d.Grant, Sequence: e.Sequence})
		}
	}
	g.known[g.wanted] = uses
	return true, nil
}

// give adds the grant of an approval to its session. The answer is acknowledged after that, so one that comes again
// because this was cut off does it then.
func (r *Role) give(ctx context.Context, s run.State, reply gate.Reply) error {
	g := s.Gate(reply.Gate)
	if r.cfg.Sessions == nil || g == nil || g.Input != reply.Input || g.Grant == nil ||
		g.Grant.Scope != events.GrantSession {
		return nil
	}
	_, fence := s.Created.GrantSession()
	return r.changeSession(ctx, g.Grant.Session, func(e session.State, now time.Time) session.State {
		return session.Give(e, *g.Grant, fence, now)
	})
}

// revoke takes a grant back, in the log that it is in.
func (r *Role) revoke(ctx context.Context, runID string, reply gate.Reply) error {
	w, err := r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return gate.Revoke(s, now, reply)
	})
	if refused, is := errors.AsType[*gate.Refused](err); is {
		return &kernel.Refusal{Code: refused.Code, Reason: refused.Reason, Hint: refused.Hint, Run: runID}
	}
	if err != nil {
		return err
	}
	d, refused := gate.Given(w.State, reply)
	if refused != nil || d.Scope != events.GrantSession || r.cfg.Sessions == nil {
		return nil
	}
	_, fence := w.State.Created.GrantSession()
	return r.changeSession(ctx, d.Session, func(e session.State, now time.Time) session.State {
		return session.Revoke(e, *d, fence, gate.Revocation(reply), now)
	})
}

func (r *Role) changeSession(ctx context.Context, id string,
	decide func(session.State, time.Time) session.State) error {
	_, err := r.cfg.Sessions.Write(ctx, id, func(e session.State, now time.Time) ([]events.Payload, error) {
		return decide(e, now.UTC()).Changes(), nil
	})
	if err != nil {
		return fmt.Errorf("session %s: %w", id, err)
	}
	return nil
}
