package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// gateRules fold the events about a gate.
var gateRules = []rule{
	on(func(s *State, f events.Event, d *events.GateOpenedData) string {
		return s.gateOpened(d, f.Time, f.Sequence)
	}),
	on(func(s *State, f events.Event, d *events.GateApprovedData) string {
		return s.gateAnswered(d.GateAnswer, GateApproved, f.Time, f.Sequence)
	}),
	on(func(s *State, f events.Event, d *events.GateRejectedData) string {
		return s.gateAnswered(d.GateAnswer, GateRejected, f.Time, f.Sequence)
	}),
	on(func(s *State, f events.Event, d *events.GateVotedData) string {
		return s.gateVoted(d.GateAnswer, f.Time)
	}),
	on(func(s *State, f events.Event, d *events.GateExpiredData) string {
		return s.gateExpired(d, f.Time, f.Sequence)
	}),
	on(func(s *State, f events.Event, d *events.GateRemindedData) string { return s.gateReminded(d, f.Time) }),
	on(func(s *State, _ events.Event, d *events.CallPreviewedData) string { return s.previewed(d) }),
	on(func(s *State, _ events.Event, d *events.GrantRevokedData) string { return s.grantRevoked(d) }),
}

func (s *State) gateOpened(d *events.GateOpenedData, at time.Time, seq uint64) string {
	if s.Gate(d.Gate) != nil {
		return fmt.Sprintf("gate %s exists already", d.Gate)
	}
	if d.Scope == events.ScopeCheck {
		if st := s.Step(d.Step); st == nil {
			return fmt.Sprintf("step %s is unknown", d.Step)
		} else if _, place, asks := st.Asks(); !asks || place != d.Call || s.GateFor(d.Step, d.Call) != nil {
			return fmt.Sprintf("no check of step %s waits for a person at %s", d.Step, d.Call)
		}
	}
	if g := s.GateFor(d.Step, d.Call); g != nil && g.Status == GatePending {
		return fmt.Sprintf("gate %s stands there already", g.ID)
	}
	s.Gates = append(s.Gates[:len(s.Gates):len(s.Gates)], &Gate{ID: d.Gate, Scope: d.Scope, StepID: d.Step,
		CallID: d.Call, Status: GatePending, CreatedAt: at, Hash: d.ProposalHash, Description: d.Description,
		Rule: d.Rule, GatePosition: GatePosition{Sequence: seq}, Approvers: d.Approvers,
		GateTime:  GateTime{ExpiresAt: d.ExpiresAt, OnExpiry: d.OnExpiry, GateReminders: d.GateReminders},
		GateGrant: GateGrant{Always: d.Always}})
	return ""
}

// answerable returns a copy of a gate that an answer is for, to be changed and put in its place with setGate.
func (s *State) answerable(id, hash string) (Gate, string) {
	g := s.Gate(id)
	switch {
	case g == nil:
		return Gate{}, fmt.Sprintf("gate %s is unknown", id)
	case g.Status != GatePending:
		return Gate{}, fmt.Sprintf("gate %s was %s before: the first answer wins", g.ID, g.Status)
	case g.Hash != hash:
		return Gate{}, fmt.Sprintf("gate %s: the answer is for another action", g.ID)
	}
	return *g, ""
}

// setGate replaces a gate in a copy of the list.
func (s *State) setGate(next Gate) {
	s.Gates = append([]*Gate(nil), s.Gates...)
	for i, g := range s.Gates {
		if g.ID == next.ID {
			s.Gates[i] = &next
		}
	}
}

// edited checks that an answer names the very action that it was edited to.
func edited(g Gate, a events.GateAnswer) string {
	switch {
	case len(a.EditedInput) == 0 && a.EditedHash == "":
		return ""
	case g.CallID == "":
		return fmt.Sprintf("gate %s stands before a step, which has no arguments to edit", g.ID)
	case len(a.EditedInput) == 0 || events.EditedHash(a.ProposalHash, a.EditedInput) != a.EditedHash:
		return fmt.Sprintf("gate %s: edited_hash is not that of the edited arguments", g.ID)
	}
	return ""
}

// deputized checks an answer that was given in somebody's place.
func deputized(a events.GateAnswer, at time.Time) string {
	switch d := a.Deputy; {
	case d == nil:
		return ""
	case d.By == "" || strings.EqualFold(d.By, a.By):
		return fmt.Sprintf("gate %s: %q cannot answer in the place of %q", a.Gate, d.By, a.By)
	case !at.Before(d.Until):
		return fmt.Sprintf("gate %s: %s answered for %s after %s", a.Gate, d.By, a.By, d.Until.Format(time.RFC3339))
	case a.Assurance != events.AssuranceSubject:
		return fmt.Sprintf("gate %s: it is not proven that %s answered for %s", a.Gate, d.By, a.By)
	}
	return ""
}

// voteOf is the vote that an answer is.
func voteOf(a events.GateAnswer, at time.Time) Vote {
	v := Vote{By: a.By, Action: a.Approved(), At: at, Input: a.Input}
	if a.Deputy != nil {
		v.Deputy = a.Deputy.By
	}
	return v
}

func (s *State) gateAnswered(a events.GateAnswer, to GateStatus, at time.Time, seq uint64) string {
	g, fault := s.answerable(a.Gate, a.ProposalHash)
	if fault == "" {
		fault = edited(g, a)
	}
	if fault == "" {
		fault = deputized(a, at)
	}
	if fault != "" {
		return fault
	}
	if to == GateApproved {
		if g.Voted(a.Givers()...) || g.VotesFor(a.Approved())+1 < g.Approvers {
			return fmt.Sprintf("gate %s needs %d different approvers of one action", g.ID, g.Approvers)
		}
		if g.Approvers > 1 {
			g.Votes = append(g.Votes[:len(g.Votes):len(g.Votes)], voteOf(a, at))
		}
		if fault := s.granted(&g, a); fault != "" {
			return fault
		}
		g.Edited = a.EditedInput
	}
	g.Status, g.ResolvedAt, g.By, g.Reason, g.Resolution, g.Input = to, &at, a.By, a.Reason, seq, a.Input
	g.Deputy = a.Deputy
	s.took(a.Input)
	s.setGate(g)
	return ""
}

// gateVoted counts one yes of several.
func (s *State) gateVoted(a events.GateAnswer, at time.Time) string {
	g, fault := s.answerable(a.Gate, a.ProposalHash)
	if fault == "" {
		fault = edited(g, a)
	}
	if fault == "" {
		fault = deputized(a, at)
	}
	switch {
	case fault != "":
		return fault
	case g.Approvers < 2:
		return fmt.Sprintf("gate %s needs one approver and counts no votes", g.ID)
	case g.Voted(a.Givers()...):
		return fmt.Sprintf("gate %s: %s voted before", g.ID, a.By)
	}
	g.Votes = append(g.Votes[:len(g.Votes):len(g.Votes)], voteOf(a, at))
	s.took(a.Input)
	s.setGate(g)
	return ""
}

func (s *State) gateExpired(d *events.GateExpiredData, at time.Time, seq uint64) string {
	g, fault := s.answerable(d.Gate, d.ProposalHash)
	if fault != "" {
		return fault
	}
	if g.ExpiresAt.IsZero() || at.Before(g.ExpiresAt) {
		return fmt.Sprintf("gate %s has not expired", g.ID)
	}
	g.Status, g.ResolvedAt, g.By, g.Reason, g.Resolution = GateExpired, &at, ExpiredBy, "no one answered within "+
		g.ExpiresAt.Sub(g.CreatedAt).Round(time.Second).String(), seq
	s.setGate(g)
	return ""
}

// ExpiredBy stands where the author of an answer would, in a gate that expired.
const ExpiredBy = "expiry"

// permitted puts what was approved in the place of what was asked for, where a call is allowed with edited arguments:
// the toolrunner runs what the call holds and nothing else.
func (s *State) permitted(c *Call, d *events.CallAllowedData) string {
	g := s.Gate(d.Gate)
	approved := g != nil && g.CallID == d.Call && g.Status == GateApproved && len(g.Edited) > 0
	switch {
	case d.Edited != approved:
		return fmt.Sprintf("call %s: what is permitted is not what gate %q approved", d.Call, d.Gate)
	case !approved:
		return ""
	case HashOf(g.Edited) != d.InputHash:
		return fmt.Sprintf("call %s: the hash permitted is not that of the approved arguments", d.Call)
	}
	c.Input, c.InputRef, c.Edited = g.Edited, nil, true
	return ""
}
