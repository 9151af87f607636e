package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Grants are the standing grants of the station: what people approved for later calls, too.
type Grants struct{ c *Client }

// Grants returns the standing grants of the station.
func (c *Client) Grants() Grants { return Grants{c} }

// List lists the grants that hold now, of all sessions and of the runs that have not ended, the oldest first.
func (gs Grants) List(ctx context.Context) ([]events.Grant, error) {
	all, now := []events.Grant{}, time.Now()
	sessions, err := gs.c.Sessions().List(ctx)
	if err != nil && !errors.Is(err, ErrDenied) {
		return nil, err
	}
	for _, e := range sessions {
		s, err := gs.session(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, s.StandingGrants(now)...)
	}
	infos, err := gs.c.Runs().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if i.Status.Ended() {
			continue
		}
		s, err := gs.c.State(ctx, i.HarnessID)
		if err != nil {
			return nil, err
		}
		if !s.Status.Ended() { // the list of runs may be behind the log
			all = append(all, s.Grants(now)...)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At.Before(all[j].At) })
	return all, nil
}

// session reads the log of a session, which has a grant before its row does.
func (gs Grants) session(ctx context.Context, id string) (session.State, error) {
	l, err := session.NewLedger(session.LedgerConfig{Station: gs.c.st.Name(), By: events.Gatekeeper, Entropy: rand.Reader,
		Journal:   gs.c.st.JournalFor(events.SessionAggregate),
		Snapshots: session.View().Snapshots(gs.c.st.KV(topology.SessionBucket))})
	if err != nil {
		return session.State{}, err
	}
	s, _, err := l.State(ctx, id)
	if err != nil {
		return s, fmt.Errorf("grants of session %s: %w", id, err)
	}
	return s, nil
}

// Revoke takes back the grant that was given at a gate, and returns once no call is permitted on it any more. Of the
// decision it takes Run, Gate, By, Reason and Sign. A grant that holds no more is as good as revoked; one that was
// never given is a *RefusedError.
func (gs Grants) Revoke(ctx context.Context, d Decision) error {
	answer := events.Answer{Decision: "revoke", Reason: d.Reason, ProposalHash: d.Hash}
	subject, err := gs.c.Gates().prepare(ctx, d, &answer)
	if err != nil {
		return err
	}
	input, letters, err := publisher{gs.c}.sendAs(ctx, subject, d.By, answer)
	if err != nil {
		return err
	}
	defer letters.stop()
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		over, err := gs.over(ctx, d, input)
		if over || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case l := <-letters.come:
			return refused(l)
		case <-time.After(wait):
			if l, ok := letters.look(ctx); ok {
				return refused(l)
			}
		case <-ctx.Done():
			return fmt.Errorf("grant %s: stored, but station %s has not answered yet: it will when its services run, inspan doctor says which do: %w", d.Gate, gs.c.st.Name(), context.Cause(ctx))
		}
	}
}

// over reports whether no call can be permitted on a grant any more.
func (gs Grants) over(ctx context.Context, d Decision, input uint64) (bool, error) {
	s, err := gs.c.State(ctx, d.Run)
	if err != nil {
		return false, err
	}
	g := s.Gate(d.Gate)
	switch {
	case g == nil || g.Grant == nil:
		return false, nil
	case !time.Now().Before(g.Grant.Until), g.Grant.Scope == events.GrantRun && (g.Revoked || s.Status.Ended()):
		return true, nil
	case g.Grant.Scope == events.GrantRun:
		return s.Took(input), nil
	}
	e, err := gs.session(ctx, g.Grant.Session)
	if err != nil {
		return false, err
	}
	row, has := e.SessionGrant(g.Grant.Run, g.Grant.ID)
	return !has && settled(s, e, g) || has && !row.Revoked.IsZero(), err
}

// settled reports whether a session that does not have a grant will not have it either.
func settled(s run.State, e session.State, g *run.Gate) bool {
	_, fence := s.Created.GrantSession()
	return e.ID == "" || e.Status == events.SessionDeleted || e.Status == events.SessionEnded ||
		g.Grant.At.Before(e.GrantsFrom) || fence < e.Born
}
