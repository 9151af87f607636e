// Package answers reads the answers of people to gates.
//
// Promises: who answered is what the subject or the key vouches for, or what the answer claims, and the reply says
// which. A signed answer that does not verify is refused, never taken for an unsigned one.
package answers

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// Config says which answers are taken.
type Config struct {
	// Approvers are the keys whose signed answers are believed. With OnlySigned an answer without a signature is
	// refused.
	Approvers  approval.Keys
	OnlySigned bool
	// PerMinute bounds the answers in the name of one approver that this instance takes; 0 is no limit.
	PerMinute int
}

// Reader reads answers.
type Reader struct {
	cfg Config
	mu  sync.Mutex
	// approvers is guarded by mu.
	approvers *quota.Rate
}

// New returns a reader that has taken no answers yet.
func New(cfg Config) *Reader { return &Reader{cfg: cfg, approvers: quota.NewRate(cfg.PerMinute)} }

// Read returns what an answer says, or a *kernel.Refusal. Its time is not judged: stood is for whoever does.
func (r *Reader) Read(m kernel.Message, sub events.RunSubject, stood gate.Stood) (gate.Reply, error) {
	reply, err := r.reply(m, sub)
	if err != nil {
		return reply, err
	}
	reply.Stood = stood
	if no := r.often(m, reply.By); no != nil {
		no.Run = sub.Run
		return reply, no
	}
	return reply, nil
}

// often refuses an answer where too many came in the same name; nil is no refusal. One that comes again was counted.
func (r *Reader) often(m kernel.Message, by string) *kernel.Refusal {
	if m.Deliveries() > 1 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	again, ok := r.approvers.Take(by, time.Now())
	if ok {
		return nil
	}
	q := quota.Often("answers", by, r.cfg.PerMinute, again)
	return &kernel.Refusal{Code: q.Code, Reason: q.Reason, Hint: q.Hint}
}

func (r *Reader) reply(m kernel.Message, sub events.RunSubject) (gate.Reply, error) {
	var a events.Answer
	_, err := ce.Read(m.Data(), m.Header, events.AnswerType, &a)
	if err == nil {
		err = a.Check()
	}
	if err == nil && len(sub.Rest) == 3 {
		err = events.CheckID("approver", sub.Rest[2])
	}
	if err != nil {
		return gate.Reply{}, &kernel.Refusal{Code: "bad_input", Run: sub.Run, Reason: err.Error(),
			Hint: `send {"decision":"approve"} or {"decision":"reject","reason":"..."}`}
	}
	reply := gate.Reply{Gate: sub.Rest[1], Decision: a.Decision, Reason: a.Reason, By: a.By,
		Assurance: events.AssuranceNone, Hash: a.ProposalHash, Input: m.Seq(), Always: a.Always, Pattern: a.Pattern,
		DeputyFor: a.DeputyFor}
	reply.Term, _ = events.GrantTerm(a.For) // it was checked
	if len(a.EditedInput) > 0 && string(a.EditedInput) != "null" {
		if reply.Edited, err = events.EditedInput(a.EditedInput); err != nil {
			return gate.Reply{}, &kernel.Refusal{Code: "bad_input", Run: sub.Run, Reason: err.Error(),
				Hint: "send edited_input as a JSON object with all arguments of the call"}
		}
	}
	switch {
	case len(sub.Rest) < 3:
	case sub.Rest[2] == events.Gateway: // whose word it is, is known; whose token it was, is what that says
		reply.Assurance = events.AssuranceGateway
	default:
		reply.By, reply.Assurance = sub.Rest[2], events.AssuranceSubject
	}
	if a.Signature != "" || a.Key != "" {
		return r.signed(reply, a, sub)
	}
	if r.cfg.OnlySigned {
		return gate.Reply{}, &kernel.Refusal{Code: "unsigned_answer", Run: sub.Run,
			Reason: "this station takes signed answers only",
			Hint:   "answer with inspan approve or inspan reject and --sign KEYFILE"}
	}
	if reply.By == "" {
		reply.By = "unknown"
	}
	return reply, nil
}

// signed verifies a signed answer. Who answered is then told by the key; an answer sent in another's name is refused.
func (r *Reader) signed(reply gate.Reply, a events.Answer, sub events.RunSubject) (gate.Reply, error) {
	refuse := func(code, hint string, err error) (gate.Reply, error) {
		return gate.Reply{}, &kernel.Refusal{Code: code, Run: sub.Run, Reason: err.Error(), Hint: hint}
	}
	hash := a.ProposalHash
	if len(reply.Edited) > 0 {
		hash = events.EditedHash(a.ProposalHash, reply.Edited)
	}
	name, err := r.cfg.Approvers.Verify(approval.Statement{Station: sub.Station, Run: sub.Run, Gate: reply.Gate,
		Decision:     a.Decision,
		ProposalHash: hash, Reason: a.Reason, Always: a.Always, Pattern: a.Pattern, Term: reply.Term}, a.Key, a.Signature)
	switch {
	case errors.Is(err, approval.ErrUnknownKey):
		return refuse("unknown_signer", "an operator can add the public key to INSPAN_APPROVER_KEYS", err)
	case err != nil:
		return refuse("bad_signature", "sign the answer to this very gate again, with the proposal_hash that it shows", err)
	case reply.Assurance == events.AssuranceSubject && reply.By != name:
		return refuse("bad_signature", "answer in the name of the key's owner",
			fmt.Errorf("signed by %s and sent in the name of %s", name, reply.By))
	}
	reply.By, reply.Assurance, reply.Key, reply.Signature = name, events.AssuranceSignature, a.Key, a.Signature
	return reply, nil
}
