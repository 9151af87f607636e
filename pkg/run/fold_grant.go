package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// granted notes the grant that an approval gives. It is what the gate offered: of the same rule and tool, for this call
// as it was shown.
func (s *State) granted(g *Gate, a events.GateAnswer) string {
	switch d := a.Grant; {
	case d == nil:
		return ""
	case g.Always == nil || g.Approvers > 1 || len(a.EditedInput) > 0:
		return fmt.Sprintf("gate %s can only be answered for its own call", g.ID)
	case d.Rule != g.Always.Rule || d.RuleHash != g.Always.RuleHash || d.Tool != g.Always.Tool:
		return fmt.Sprintf("gate %s: the grant is not about what the gate asks", g.ID)
	case d.ID != g.ID || d.Run != s.HarnessID:
		return fmt.Sprintf("gate %s: the grant names gate %s of run %s", g.ID, d.ID, d.Run)
	}
	g.Grant = a.Grant
	return ""
}

func (s *State) grantRevoked(d *events.GrantRevokedData) string {
	g := s.Gate(d.Grant)
	switch {
	case g == nil || g.Grant == nil || g.Grant.Scope != events.GrantRun:
		return fmt.Sprintf("grant %s is unknown", d.Grant)
	case g.Revoked:
		return fmt.Sprintf("grant %s was revoked before", d.Grant)
	}
	next := *g
	next.Revoked = true
	s.took(d.Input)
	s.setGate(next)
	return ""
}

// rests checks the grants of a permission that the log of the run has: of others, the log of the session has the proof.
func (s *State) rests(d *events.CallAllowedData, at time.Time) string {
	for _, u := range d.Grants {
		if u.Scope != events.GrantRun {
			continue
		}
		g := s.Gate(u.ID)
		switch {
		case u.Run != s.HarnessID || g == nil || g.Grant == nil || g.Grant.Scope != events.GrantRun:
			return fmt.Sprintf("call %s: grant %s was not given in this run", d.Call, u.ID)
		case g.Revoked:
			return fmt.Sprintf("call %s: grant %s was revoked before", d.Call, u.ID)
		case !at.Before(g.Grant.Until):
			return fmt.Sprintf("call %s: grant %s has expired", d.Call, u.ID)
		}
	}
	return ""
}

// Grants returns the standing grants that the run's own log has at a time. Those of a run that this one was forked from
// are not among them.
func (s *State) Grants(at time.Time) []events.Grant {
	var all []events.Grant
	for _, g := range s.Gates {
		if d := g.Grant; d != nil && d.Scope == events.GrantRun && d.Run == s.HarnessID && !g.Revoked && at.Before(d.Until) {
			all = append(all, *d)
		}
	}
	return all
}
