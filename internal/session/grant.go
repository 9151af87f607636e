package session

import (
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// maxGrantRows bounds the grants that a session remembers, with those that were revoked and have not expired: a grant
// that is added twice, or after it was revoked, is known by its row.
const maxGrantRows = 4 * events.MaxGrants

// Give adds a grant that an approval in a run of the session gave; fence is that of the run's lock. It changes nothing
// where the session has or had the grant, where it ended or was made anew since, and where the time is up.
func Give(e State, g events.Grant, fence uint64, now time.Time) State {
	if !there(e) || fence < e.Born || g.At.Before(e.GrantsFrom) || !now.Before(g.Until) ||
		e.Status == events.SessionEnded || len(valid(e.Grants, now)) >= maxGrantRows {
		return e
	}
	if _, has := e.SessionGrant(g.Run, g.ID); has {
		return e
	}
	return e.then(&events.SessionGrantedData{Event: "session_granted", Grant: g}, now)
}

// Revoke takes a grant back. One that was approved and not added yet is added before, so that it is not added later.
func Revoke(e State, g events.Grant, fence uint64, r events.Revocation, now time.Time) State {
	e = Give(e, g, fence, now)
	if row, has := e.SessionGrant(g.Run, g.ID); !has || !row.Revoked.IsZero() {
		return e
	}
	return e.then(&events.SessionRevokedData{Event: "session_revoked", Run: g.Run, Revocation: r}, now)
}

// valid are the grants whose time is not up, the revoked ones too.
func valid(all []events.SessionGrant, now time.Time) []events.SessionGrant {
	return slices.DeleteFunc(slices.Clone(all), func(g events.SessionGrant) bool { return !now.Before(g.Until) })
}

// granted adds a grant, and forgets those whose time is up.
func (s State) granted(d *events.SessionGrantedData, at time.Time) (State, error) {
	s.Grants = append(valid(s.Grants, at), events.SessionGrant{Grant: d.Grant})
	return s, nil
}

// revoked notes that a grant was taken back.
func (s State) revoked(d *events.SessionRevokedData, at time.Time) (State, error) {
	s.Grants = valid(s.Grants, at)
	for i := range s.Grants {
		if s.Grants[i].Run == d.Run && s.Grants[i].ID == d.Grant {
			s.Grants[i].Revoked, s.Grants[i].RevokedBy = at, d.By
		}
	}
	return s, nil
}
