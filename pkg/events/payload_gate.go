package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// GateTerms say how a gate is answered. With the zero value one yes is enough and the gate waits for ever.
type GateTerms struct {
	// Approvers is how many different people must say yes to the same action; 0 and 1 are one. Where it is more,
	// whoever asked for the run does not count, and an answer counts only where it is proven who gave it.
	Approvers int `json:"approvers,omitempty"`
	// ExpiresMS is how long the gate waits, in milliseconds; 0 is for ever.
	ExpiresMS int64 `json:"expires_ms,omitempty"`
	// OnExpiry is what follows where it expires: "reject" (the default) is a no of no one, "fail" ends the run.
	OnExpiry string `json:"on_expiry,omitempty"`
	GateReminders
}

// GateReminders say when people are called again at a gate that no one answers. With the zero value they are not.
type GateReminders struct {
	// RemindMS is how long it waits before they are called again, and again after as long.
	RemindMS int64 `json:"remind_ms,omitempty"`
	// EscalateMS is how long it waits before EscalateTo are called, a person or a group by a word of the operator.
	EscalateMS int64  `json:"escalate_ms,omitempty"`
	EscalateTo string `json:"escalate_to,omitempty"`
}

// MaxReminders is how often people are called again at one gate.
const MaxReminders = 10

// Reminder is the call of a number: how long the gate waits before it, and who is called, "" for those who were called
// before. Numbers begin with 1; ok is false where there is none.
func (r GateReminders) Reminder(number int) (after time.Duration, to string, ok bool) {
	var all []int64
	if r.RemindMS > 0 {
		for n := range int64(MaxReminders) {
			all = append(all, (n+1)*r.RemindMS)
		}
	}
	if r.EscalateMS > 0 && !slices.Contains(all, r.EscalateMS) {
		all = append(all, r.EscalateMS)
		slices.Sort(all)
	}
	all = all[:min(len(all), MaxReminders)]
	if number < 1 || number > len(all) {
		return 0, "", false
	}
	at := all[number-1]
	if r.EscalateMS > 0 && at >= r.EscalateMS {
		to = r.EscalateTo
	}
	return time.Duration(at) * time.Millisecond, to, true
}

// sooner joins two: the shortest times.
func (r GateReminders) sooner(o GateReminders) GateReminders {
	if o.RemindMS > 0 && (r.RemindMS <= 0 || o.RemindMS < r.RemindMS) {
		r.RemindMS = o.RemindMS
	}
	if o.EscalateMS > 0 && (r.EscalateMS <= 0 || o.EscalateMS < r.EscalateMS) {
		r.EscalateMS, r.EscalateTo = o.EscalateMS, o.EscalateTo
	}
	return r
}

// GateRemindedData says that no one has answered a gate, and that people are called again. It changes nothing about who
// may answer.
type GateRemindedData struct {
	Event  string `json:"event"`
	Gate   string `json:"gate_id"`
	Step   string `json:"step_id"`
	Call   string `json:"call_id,omitempty"`
	Action string `json:"action"`
	// Number is that of the call, from 1; those that were due while no gatekeeper ran are left out.
	Number int `json:"number"`
	// To is who is called: empty for those who were called before.
	To           string `json:"to,omitempty"`
	ProposalHash string `json:"proposal_hash"`
	WaitMS       int64  `json:"wait_ms"`
}

// Kind implements Payload.
func (*GateRemindedData) Kind() Kind { return GateReminded }

func (d *GateRemindedData) line() string {
	text := fmt.Sprintf("gate %s still waits for an answer, reminder %d", d.Gate, d.Number)
	if d.To != "" {
		text += " goes to " + d.To
	}
	return text
}

// Outcomes of a gate that expired.
const (
	ExpiryRejects = "reject"
	ExpiryFails   = "fail"
	// ExpiryApproves goes on as after a yes. Only a step of the kind approval can have it.
	ExpiryApproves = "approve"
	// ExpiryEscalates asks others. Only a step of the kind approval can have it.
	ExpiryEscalates = "escalate"
)

// MaxApprovers bounds GateTerms.Approvers.
const MaxApprovers = 16

// Strictest joins the terms of two layers: the most approvers and the shortest wait, with the outcome that goes with
// it. No layer makes the terms of another one weaker.
func (t GateTerms) Strictest(o GateTerms) GateTerms {
	out := t
	out.Approvers = max(t.Approvers, o.Approvers)
	switch {
	case o.ExpiresMS <= 0:
	case t.ExpiresMS <= 0 || o.ExpiresMS < t.ExpiresMS, o.ExpiresMS == t.ExpiresMS && o.OnExpiry == ExpiryFails:
		out.ExpiresMS, out.OnExpiry = o.ExpiresMS, o.OnExpiry
	}
	out.GateReminders = t.sooner(o.GateReminders)
	return out
}

// GateVotedData is one yes of several that a gate needs: it still waits.
type GateVotedData struct{ GateAnswer }

// GateExpiredData ends a gate that no one answered in time.
type GateExpiredData struct {
	Event  string `json:"event"`
	Gate   string `json:"gate_id"`
	Step   string `json:"step_id"`
	Call   string `json:"call_id,omitempty"`
	Action string `json:"action"`
	// Outcome is "reject" or "fail"; see GateTerms.
	Outcome      string    `json:"outcome"`
	ExpiresAt    time.Time `json:"expires_at"`
	ProposalHash string    `json:"proposal_hash"`
	WaitMS       int64     `json:"wait_ms"`
	// Votes that it had, of Approvers that it needed.
	Votes     int `json:"votes,omitempty"`
	Approvers int `json:"approvers,omitempty"`
}

// Kind implements Payload.
func (*GateVotedData) Kind() Kind { return GateVoted }

// Kind implements Payload.
func (*GateExpiredData) Kind() Kind { return GateExpired }

// ErrEdited means that edited arguments cannot be taken.
var ErrEdited = errors.New("the edited arguments are not acceptable")

// EditedInput brings edited arguments of a call into the one form that is hashed, stored and run: a JSON object without
// spaces, of at most MaxInlineInput bytes. Its errors wrap ErrEdited.
func EditedInput(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > MaxInlineInput {
		return nil, fmt.Errorf("%w: they have %d bytes, the limit is %d", ErrEdited, len(raw), MaxInlineInput)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fmt.Errorf("%w: they are not a JSON object", ErrEdited)
	}
	whole, err := json.Marshal(json.RawMessage(bytes.TrimSpace(raw)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEdited, err)
	}
	if len(whole) > MaxInlineInput {
		return nil, fmt.Errorf("%w: they have %d bytes, the limit is %d", ErrEdited, len(whole), MaxInlineInput)
	}
	return whole, nil
}

// EditedHash names the action that a gate's proposal becomes with edited arguments, in the form of EditedInput: 64 hex
// digits. It binds the arguments to that very proposal, and follows from an answer's event alone.
func EditedHash(proposalHash string, input json.RawMessage) string {
	arguments := sha256.Sum256(input)
	h := sha256.Sum256([]byte("inspan edited action 1\n" + proposalHash + "\n" + hex.EncodeToString(arguments[:])))
	return hex.EncodeToString(h[:])
}

func (a *GateAnswer) answer() GateAnswer { return *a }

// AnswerOf returns the answer to a gate that an event records. Every event whose payload embeds a GateAnswer records
// one.
func AnswerOf(p Payload) (a GateAnswer, ok bool) {
	d, ok := p.(interface{ answer() GateAnswer })
	if !ok {
		return a, false
	}
	return d.answer(), true
}

// Approved is the hash of the action that an answer is about: the one proposed, or the one that it was edited to.
func (a *GateAnswer) Approved() string {
	if len(a.EditedInput) == 0 {
		return a.ProposalHash
	}
	return EditedHash(a.ProposalHash, a.EditedInput)
}
