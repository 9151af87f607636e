package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Reply is a person's or program's answer to a gate.
type Reply struct {
	Gate     string
	Decision string
	Reason   string
	// By is who answered, Assurance how far that is proven.
	By, Assurance string
	// Hash of the proposal that was seen; empty means not named.
	Hash string
	// Key and Signature of an answer whose signature is verified; empty for others.
	Key, Signature string
	// Edited are the arguments that are approved instead of those proposed, in the form of events.EditedInput. Only
	// AnswerEdited takes them.
	Edited json.RawMessage
	// hooks are their answers about the edited arguments.
	hooks []events.HookAnswer
	// Always is the scope of the grant that is to be given with a yes, empty for none; Pattern and Term are what the
	// answer says of it. Only AnswerEdited takes them.
	Always  events.GrantScope
	Pattern string
	Term    time.Duration
	// grant is what Always comes to.
	grant *events.Grant
	// DeputyFor is in whose place the author wants to answer, Deputy what the log of deputies says of that.
	DeputyFor string
	Deputy    events.Deputy
	// deputy is who gave the answer where By is away.
	deputy *events.DeputyAnswer
	// Input is the position of the answer in the input stream.
	Input uint64
	// Stood is that of the station.
	Stood Stood
}

// Refused is an answer that does not count, and why.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason }

// Answer records the first valid answer to a gate. Later answers get a *Refused; a second look at the same answer says
// nothing. Where a gate needs several approvers, a yes that is not the last one is a vote: each counts once, for the
// action that it names, and one no is enough.
func Answer(s run.State, now time.Time, r Reply) ([]events.Payload, error) {
	if len(r.Edited) > 0 || r.Always != "" {
		return nil, notEditable("what is approved beyond the proposal was not judged")
	}
	return answer(s, now, r)
}

func answer(s run.State, now time.Time, r Reply) ([]events.Payload, error) {
	if s.Sequence == 0 {
		return nil, &Refused{"unknown_run", "no such run", "inspan gates lists the open gates"}
	}
	if s.Took(r.Input) {
		return nil, nil
	}
	g := s.Gate(r.Gate)
	switch {
	case g == nil:
		return nil, &Refused{"unknown_gate", fmt.Sprintf("run %s has no gate %s", s.HarnessID, r.Gate),
			"inspan gates lists the open gates"}
	case g.Status == run.GateExpired || g.Status == run.GatePending && r.Stood.late(g, now):
		return nil, &Refused{CodeExpired,
			fmt.Sprintf("gate %s expired at %s: the answer came too late", g.ID, g.ExpiresAt.Format(time.RFC3339)),
			"inspan inspect shows what followed; if the run is paused, inspan resume opens the gate again"}
	case g.Status == run.GateSuperseded:
		return nil, &Refused{"gate_closed",
			fmt.Sprintf("gate %s was closed when %s revised the plan: step %s is not executed as requested", g.ID, g.By,
				g.StepID),
			"nothing to do; inspan gates lists the open gates"}
	case g.Status != run.GatePending:
		return nil, &Refused{"gate_closed",
			fmt.Sprintf("gate %s was %s by %s before: the first answer wins", g.ID, g.Status, g.By),
			"nothing to do; inspan inspect shows what followed"}
	case s.Status.Ended():
		return nil, &Refused{"run_ended", fmt.Sprintf("run %s is %s", s.HarnessID, s.Status), "start a new run"}
	case r.Hash != "" && r.Hash != g.Hash:
		return nil, &Refused{"stale_answer", "the answer names another proposal than the open gate",
			"read the gate again and answer with its proposal_hash"}
	}
	r, refused := r.inPlace(now)
	if refused == nil {
		refused = mayDecide(s, g, r)
	}
	if refused != nil {
		return nil, refused
	}
	a := events.GateAnswer{Gate: g.ID, Step: g.StepID, Call: g.CallID, By: r.By, Assurance: r.Assurance, Reason: r.Reason,
		ProposalHash: g.Hash, Key: r.Key, Signature: r.Signature, WaitMS: now.Sub(g.CreatedAt).Milliseconds(), Input: r.Input,
		EditedInput: r.Edited, Hooks: r.hooks, Approvers: g.Approvers, Grant: r.grant,
		Deputy: r.deputy}
	if len(r.Edited) > 0 {
		a.EditedHash = events.EditedHash(g.Hash, r.Edited)
	}
	switch strings.ToLower(strings.TrimSpace(r.Decision)) {
	case "approve", "approved", "yes":
		if g.Approvers > 1 {
			if refused := mayVote(s, g, r); refused != nil {
				return nil, refused
			}
			if a.Votes = g.VotesFor(a.Approved()) + 1; a.Votes < g.Approvers {
				a.Event, a.Action = "gate_voted", events.GateHasVote
				return []events.Payload{&events.GateVotedData{GateAnswer: a}}, nil
			}
		}
		a.Event, a.Action = "gate_approved", events.GateWasApproved
		return []events.Payload{&events.GateApprovedData{GateAnswer: a}}, nil
	case "reject", "rejected", "no":
		a.Event, a.Action = "gate_rejected", events.GateWasRejected
		return []events.Payload{&events.GateRejectedData{GateAnswer: a}}, nil
	}
	return nil, &Refused{"bad_input", fmt.Sprintf("decision %q is neither approve nor reject", shorten(r.Decision)), `send {"decision":"approve"} or {"decision":"reject","reason":"..."}`}
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
