// Package audit checks that the log of a run is what was said.
//
// Promises: it names the first event that is wrong and why, and never says sound of a log in which an event up to the
// newest anchor was changed, dropped, repeated, swapped or cut off (SAFE-3), nor of one with an answer to a gate that
// none of the approvers named has signed although it says so (SAFE-9). What it could not look at is said in the
// report and is never taken for sound. It reads events, changes nothing and keeps none.
package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Config of an audit. The zero value checks the chain, the authors and the fold of whatever run comes.
type Config struct {
	// Run the events must be of; empty for that of the first event.
	Run string
	// Anchors of the run, in any order; without one, no one can tell whether the end of the log was cut off.
	Anchors []run.Anchor
	// Reached is a sequence that the log is known to have had, 0 for none: the index is made from the log and cannot be
	// ahead of it.
	Reached uint64
	// Keys that may have signed them. Without any, what anchors say is compared and their signatures are not.
	Keys []ed25519.PublicKey
	// Ends are the last positions of the station's log at which anchors of keys count that were replaced, by run.KeyID.
	Ends map[string]uint64
	// Approvers of gates whose signed answers are verified.
	Approvers Approvers
	// Object returns nil where the object is there with its digest and size; nil leaves objects unseen.
	Object func(context.Context, events.Ref) error
}

// Check looks at one event that fits, with the state after it, and returns what is wrong, or "". What is known of a
// single event beyond the fold is checked here, and nowhere else.
type Check func(s run.State, f events.Event, p events.Payload) (fault string)

// checks are made of every event, in this order.
func checks(cfg Config) []Check {
	return []Check{
		func(s run.State, _ events.Event, _ events.Payload) string { return s.Broken() },
		proposed,
		cfg.Approvers.signed,
	}
}

// Fault is the first thing that is wrong.
type Fault struct {
	// Sequence of the event, 0 where it is the log as a whole; Seq is its position in the station's log, where known.
	Sequence uint64      `json:"sequence"`
	Seq      uint64      `json:"seq,omitempty"`
	Kind     events.Kind `json:"kind,omitempty"`
	Why      string      `json:"why"`
}

func (f Fault) Error() string {
	at := "the log"
	if f.Sequence > 0 {
		at = fmt.Sprintf("event %d", f.Sequence)
	}
	if f.Kind != "" {
		at += fmt.Sprintf(" (%s)", f.Kind)
	}
	if f.Seq > 0 {
		at += fmt.Sprintf(" at position %d", f.Seq)
	}
	return at + ": " + f.Why
}

// Report says what was looked at and what was found.
type Report struct {
	Run     string `json:"run"`
	Station string `json:"station,omitempty"`
	// Sound says that no fault was found. The last event is proven by nothing but an anchor: see SoundUpTo.
	Sound bool `json:"sound"`
	// SoundUpTo is the last event that something vouches for: the hash in the event behind it, or an anchor.
	SoundUpTo uint64        `json:"sound_up_to"`
	First     *Fault        `json:"first_wrong,omitempty"`
	Status    events.Status `json:"status,omitempty"`
	// Events that are in order, and the hash of the last one.
	Events uint64 `json:"facts"`
	Head   string `json:"head,omitempty"`
	// Objects seen whole; Unseen were referred to and not looked at.
	Objects int `json:"objects"`
	Unseen  int `json:"objects_unseen"`
	// Anchored is the sequence of the newest anchor that agrees, 0 for none; Signed says that signatures were checked.
	Anchored uint64 `json:"anchored"`
	Signed   bool   `json:"anchors_signed"`
	// Answers to gates; of those with a signature Verified were signed by an approver, Unverified were not looked at.
	Answers    int `json:"answers"`
	Verified   int `json:"answers_verified"`
	Unverified int `json:"answers_unverified"`
}

// Vouched reports whether no fault was found and every event is vouched for, the last one too.
func (r Report) Vouched() bool { return r.Sound && r.SoundUpTo == r.Events }

// Audit takes the events of one run in order.
type Audit struct {
	cfg     Config
	checks  []Check
	state   run.State
	anchors map[uint64][]run.Anchor
	// forged is what is wrong with the signature of an anchor; such a one is not compared with the log.
	forged *Fault
	report Report
}

// New begins an audit.
func New(cfg Config) *Audit {
	a := &Audit{cfg: cfg, checks: checks(cfg), anchors: map[uint64][]run.Anchor{}, report: Report{Run: cfg.Run,
		Signed: len(cfg.Keys) > 0 && len(cfg.Anchors) > 0}}
	for _, an := range cfg.Anchors {
		if err := a.signed(an); err != nil {
			a.forged = &Fault{Sequence: an.Sequence, Seq: an.Seq, Why: err.Error()}
			continue
		}
		a.anchors[an.Sequence] = append(a.anchors[an.Sequence], an)
	}
	return a
}

func (a *Audit) signed(an run.Anchor) error {
	if len(a.cfg.Keys) == 0 {
		return nil
	}
	i := slices.IndexFunc(a.cfg.Keys, func(k ed25519.PublicKey) bool { return run.KeyID(k) == an.Key })
	if i < 0 {
		return fmt.Errorf("its anchor was signed with key %.16s, which is not a trusted key", an.Key)
	}
	if err := an.Verify(a.cfg.Keys[i]); err != nil {
		return err
	}
	return a.inForce(an.Key, an.Seq)
}

// inForce returns an error where a key had been replaced before a position of the log. A position that is not known is
// 0, and before every other.
func (a *Audit) inForce(key string, seq uint64) error {
	if end, replaced := a.cfg.Ends[key]; replaced && seq > end {
		return fmt.Errorf("its anchor was signed with key %.16s at position %d of the log, and that key is not accepted after position %d: it was replaced",
			key, seq, end)
	}
	return nil
}

func (a *Audit) wrong(f Fault) {
	if a.report.First == nil {
		a.report.First = &f
	}
}

// Event takes the next event. It reports whether there is a reason to go on: nothing can be said of what comes after a
// event that is wrong.
func (a *Audit) Event(ctx context.Context, r kernel.Record) bool {
	if a.report.First != nil {
		return false
	}
	if a.report.Run == "" {
		if f, err := events.Decode(r.Bytes); err == nil {
			a.report.Run = f.Run
		}
	}
	f, p, err := runlog.Read(a.report.Run, r)
	if err == nil {
		var next run.State
		if next, err = a.state.ApplyEvent(f, p, run.HashOf(r.Bytes)); err == nil {
			a.state = next
			a.look(ctx, r, f, p)
			return a.report.First == nil
		}
	}
	fault := Fault{Sequence: a.state.Sequence + 1, Seq: r.Seq, Kind: r.Kind, Why: err.Error()}
	if fe, ok := errors.AsType[*run.FoldError](err); ok {
		fault.Why = fe.Fault
		if fe.Err != nil {
			fault.Why += ": " + fe.Err.Error()
		}
		if fe.Kind != "" {
			fault.Kind = fe.Kind
		}
	}
	a.wrong(fault)
	return false
}

// look checks what the fold does not: the anchors at this event, the objects it refers to, and the checks of the table.
func (a *Audit) look(ctx context.Context, r kernel.Record, f events.Event, p events.Payload) {
	fault := Fault{Sequence: f.Sequence, Seq: r.Seq, Kind: p.Kind()}
	if d, ok := p.(*events.RunPrunedData); ok {
		for _, an := range a.anchors[d.Covered] {
			if an.Hash != f.PrevHash {
				fault.Why = fmt.Sprintf("it stands for other events than those of the anchor of %s",
					an.At.Format("2006-01-02 15:04:05"))
				a.wrong(fault)
				return
			}
		}
	}
	for _, an := range a.anchors[f.Sequence] {
		if an.Run != f.Run || an.Station != a.state.Identity.Station || an.Hash != a.state.Hash {
			fault.Why = fmt.Sprintf("the anchor of %s has another event at this position: the log was changed",
				an.At.Format("2006-01-02 15:04:05"))
			a.wrong(fault)
			return
		}
		if err := a.inForce(an.Key, r.Seq); err != nil { // whoever has an old key can sign any position with it
			fault.Why = err.Error()
			a.wrong(fault)
			return
		}
		a.report.Anchored = f.Sequence
	}
	for _, check := range a.checks {
		if why := check(a.state, f, p); why != "" {
			fault.Why = why
			a.wrong(fault)
			return
		}
	}
	a.count(p)
	for _, ref := range events.Refs(p) {
		if a.cfg.Object == nil {
			a.report.Unseen++
			continue
		}
		if err := a.cfg.Object(ctx, ref); err != nil {
			fault.Why = fmt.Sprintf("refers to object %.16s (%s): %v", ref.SHA256, ref.Type, err)
			a.wrong(fault)
			return
		}
		a.report.Objects++
	}
}

// count counts the answers to gates, whose checks were passed.
func (a *Audit) count(p events.Payload) {
	answer, ok := events.AnswerOf(p)
	if !ok {
		return
	}
	a.report.Answers++
	switch {
	case answer.Assurance != events.AssuranceSignature:
	case a.cfg.Approvers.Keys.Len() > 0:
		a.report.Verified++
	default:
		a.report.Unverified++
	}
}

// Log notes a fault of the log as a whole that was seen beside its events.
func (a *Audit) Log(why string) { a.wrong(Fault{Why: why}) }

// End says what was found. A log that ends before one of its anchors was cut off.
func (a *Audit) End() Report {
	for sequence, all := range a.anchors {
		if sequence > a.state.Sequence && a.report.First == nil {
			a.wrong(Fault{Sequence: a.state.Sequence + 1,
				Why: fmt.Sprintf("is missing: the log ends with event %d, the anchor of %s is at event %d: its end was truncated",
					a.state.Sequence, all[0].At.Format("2006-01-02 15:04:05"), sequence)})
		}
	}
	if a.forged != nil {
		a.wrong(*a.forged)
	}
	if a.cfg.Reached > a.state.Sequence {
		a.wrong(Fault{Sequence: a.state.Sequence + 1,
			Why: fmt.Sprintf("is missing: the log ends with event %d, the index has event %d: its end was truncated",
				a.state.Sequence, a.cfg.Reached)})
	}
	if a.state.Sequence == 0 {
		a.wrong(Fault{Sequence: 1, Why: "no events: the log is empty"})
	}
	r := a.report
	r.SoundUpTo = max(a.report.Anchored, a.state.Sequence-min(a.state.Sequence, 1))
	if r.First != nil {
		r.SoundUpTo = min(r.SoundUpTo, r.First.Sequence-min(r.First.Sequence, 1))
	}
	r.Sound, r.Events, r.Head, r.Station, r.Status = r.First == nil, a.state.Sequence, a.state.Hash,
		a.state.Identity.Station, a.state.Status
	return r
}
