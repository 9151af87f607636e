package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Approvers say which signed answers to gates are good. The zero value verifies none and asks for none.
type Approvers struct {
	// Keys of the approvers, also of those who have left: what they signed is in the log for ever.
	Keys approval.Keys
	// OnlySigned finds every answer wrong that is not signed with one of them.
	OnlySigned bool
}

// signed verifies the answer that an event records, from the event alone. An answer that says it was signed is wrong
// where the signature is gone, also on a station that takes others.
func (by Approvers) signed(_ run.State, f events.Event, p events.Payload) string {
	a, ok := events.AnswerOf(p)
	claims := a.Signature != "" || a.Key != "" || a.Assurance == events.AssuranceSignature
	if !ok || !claims && !by.OnlySigned || by.Keys.Len() == 0 && !by.OnlySigned {
		return ""
	}
	_, err := by.Keys.VerifyEvent(f)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, approval.ErrUnknownKey):
		return fmt.Sprintf("the answer of %s to gate %s: %v; if an approver has left, retain the public key among the approver keys", a.By, a.Gate, err)
	}
	return fmt.Sprintf("the answer of %s to gate %s: %v", a.By, a.Gate, err)
}

// proposed checks that a gate shows the action whose hash is signed and run.
func proposed(_ run.State, _ events.Event, p events.Payload) string {
	d, ok := p.(*events.GateOpenedData)
	if !ok {
		return ""
	}
	if sum := sha256.Sum256(d.Proposal); hex.EncodeToString(sum[:]) != d.ProposalHash {
		return fmt.Sprintf("gate %s: proposal_hash does not match the action shown", d.Gate)
	}
	return ""
}
