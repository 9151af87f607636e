package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// GrantScope says for which calls a standing grant holds.
type GrantScope string

// The scopes. One of a run ends with it at the latest, one of a session holds for all runs of the session. There is
// none beyond that: what holds for a project is a rule in its files.
const (
	GrantRun     GrantScope = "run"
	GrantSession GrantScope = "session"
)

// Limits of grants.
const (
	// DefaultGrant is how long a grant lasts where the answer does not say, MaxGrant the most that it may say.
	DefaultGrant = 24 * time.Hour
	MaxGrant     = 30 * 24 * time.Hour
	// MaxGrants is the most grants that a session, or a run, has at a time.
	MaxGrants = 64
	// MaxPattern is the most bytes of a pattern. What would need a longer one cannot be granted.
	MaxPattern = 512
)

// Allowance is what a grant covers: calls of one tool that one rule asks about, and nothing else that rule asks about.
type Allowance struct {
	// Rule that asks, and the hex SHA-256 of it: a rule that was changed asks again.
	Rule     string `json:"rule"`
	RuleHash string `json:"rule_hash"`
	// Tool is the name that guard rules know it by.
	Tool string `json:"tool_name"`
	// Pattern is what a person reads: the command, the paths or the arguments, or the beginning of a command and " *".
	Pattern string `json:"pattern"`
	// Action is the hex SHA-256 of the one action that is covered, as the guard rules see it; empty where Pattern is the
	// beginning of a command.
	Action string `json:"action_hash,omitempty"`
}

// Grant is the standing permission that an approval gave.
type Grant struct {
	// ID is that of the gate at which it was given, Run the run of that gate.
	ID  string `json:"grant_id"`
	Run string `json:"run_id"`
	Allowance
	Scope   GrantScope `json:"scope"`
	Session string     `json:"session_id,omitempty"`
	By      string     `json:"by"`
	At      time.Time  `json:"at"`
	// Until is when it ends, TermMS how long was asked for, 0 where the answer did not say.
	Until  time.Time `json:"until"`
	TermMS int64     `json:"term_ms,omitempty"`
}

// GrantUse is a grant that a permission rests on.
type GrantUse struct {
	Grant
	// Sequence of the last event of the session that was known when the call was permitted; 0 for a grant of the run.
	Sequence uint64 `json:"session_sequence,omitempty"`
}

// SessionGrant is a grant in a session.
type SessionGrant struct {
	Grant
	// Revoked is when and RevokedBy by whom it was taken back.
	Revoked   time.Time `json:"revoked,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// StandingGrants returns the grants of a session that hold at a time.
func (s Session) StandingGrants(at time.Time) []Grant {
	var all []Grant
	for _, g := range s.Grants {
		if g.Revoked.IsZero() && at.Before(g.Until) {
			all = append(all, g.Grant)
		}
	}
	return all
}

// SessionGrant returns a grant by the gate at which it was given.
func (s Session) SessionGrant(runID, id string) (SessionGrant, bool) {
	i := slices.IndexFunc(s.Grants, func(g SessionGrant) bool { return g.Run == runID && g.ID == id })
	if i < 0 {
		return SessionGrant{}, false
	}
	return s.Grants[i], true
}

// Revocation is who took a grant back, and why.
type Revocation struct {
	Grant     string `json:"grant_id"`
	By        string `json:"by"`
	Assurance string `json:"assurance"`
	Reason    string `json:"reason,omitempty"`
	// ProposalHash, Key and Signature of a signed answer; Input is the position of the answer in the input stream.
	ProposalHash string `json:"proposal_hash,omitempty"`
	Key          string `json:"key,omitempty"`
	Signature    string `json:"signature,omitempty"`
	Input        uint64 `json:"input_seq,omitempty"`
}

// GrantRevokedData is the payload of grant.revoked. The grant is one of the run.
type GrantRevokedData struct {
	Event string `json:"event"`
	Revocation
}

func (d *GrantRevokedData) line() string {
	return fmt.Sprintf("grant %s revoked by %s", d.Grant, d.By) + because(d.Reason)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// SessionGrantedData is the payload of session.granted.
type SessionGrantedData struct {
	Event string `json:"event"`
	Grant
}

// SessionRevokedData is the payload of session.revoked.
type SessionRevokedData struct {
	Event string `json:"event"`
	Run   string `json:"run_id"`
	Revocation
}

func (d *SessionGrantedData) line() string {
	return fmt.Sprintf("%s allows %s %s until %s", d.By, d.Tool, d.Pattern, d.Until.UTC().Format(time.RFC3339))
}

func (d *SessionRevokedData) line() string {
	return fmt.Sprintf("grant %s of run %s revoked by %s", d.Grant, d.Run, d.By) + because(d.Reason)
}

// Kind implements Payload.
func (*GrantRevokedData) Kind() Kind { return GrantRevoked }

// Kind implements Payload.
func (*SessionGrantedData) Kind() Kind { return SessionGranted }

// Kind implements Payload.
func (*SessionRevokedData) Kind() Kind { return SessionRevoked }

// GrantTerm reads how long a grant is to last; 0 is for an answer that does not say.
func GrantTerm(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > MaxGrant {
		return 0, fmt.Errorf(`for %.40q: want a duration of 1s to %s, such as "8h"`, text, MaxGrant)
	}
	return d, nil
}

// checkAlways returns what is wrong with what an answer wants beyond the one call.
func (a *Answer) checkAlways() error {
	decision := strings.ToLower(strings.TrimSpace(a.Decision))
	_, err := GrantTerm(a.For)
	switch {
	case a.Always == "" && (a.Pattern != "" || a.For != ""):
		return errors.New("pattern and for go with always")
	case a.Always == "":
		return nil
	case a.Always != GrantRun && a.Always != GrantSession:
		return fmt.Errorf("always %.40q: want %q or %q; what holds for a project is a guard rule in its files", a.Always,
			GrantRun, GrantSession)
	case decision != "approve" && decision != "approved" && decision != "yes":
		return errors.New("always goes with approve")
	case len(a.EditedInput) > 0 && string(a.EditedInput) != "null":
		return errors.New("always goes with the arguments as they are, not with edited_input")
	case len(a.Pattern) > MaxPattern:
		return fmt.Errorf("the pattern has %d bytes, the limit is %d", len(a.Pattern), MaxPattern)
	}
	return err
}
