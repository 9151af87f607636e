package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Gates are the gates of the station's runs: where a person decides.
type Gates struct{ c *Client }

// Gates returns the gates of the station.
func (c *Client) Gates() Gates { return Gates{c} }

// Waiting is a gate that waits, with its run.
type Waiting struct {
	Run  run.Info  `json:"run"`
	Gate *run.Gate `json:"gate"`
}

// List lists the gates that wait for an answer, the oldest first (GATE-14).
func (gs Gates) List(ctx context.Context) ([]Waiting, error) {
	infos, err := gs.c.Runs().List(ctx)
	if err != nil {
		return nil, err
	}
	waiting := []Waiting{}
	for _, i := range infos {
		for _, g := range i.Gates {
			waiting = append(waiting, Waiting{Run: i, Gate: g})
		}
	}
	sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].Gate.CreatedAt.Before(waiting[j].Gate.CreatedAt) })
	return waiting, nil
}

// Decision is an answer to a gate.
type Decision struct {
	Run, Gate string
	// By is who answers: part of the subject, which permissions can bind to a user. Where this user may not answer in
	// that name it is only claimed, which the event says too. Empty answers in no one's name.
	By string
	// Asserted says that By is only what the gateway says of who answers, which is what the event records. Only the
	// gateway's own user may answer so.
	Asserted bool
	Reason   string
	// DeputyFor is who is away and named By as deputy: the answer then counts as theirs. It needs the own name of By.
	DeputyFor string
	// Hash is the proposal_hash that was seen; the answer is refused where another proposal waits. Empty takes any.
	Hash string
	// Edit approves these arguments, a JSON object, instead of those proposed. They are judged like any call's.
	Edit json.RawMessage
	// Always approves later calls of the scope, too: those that the gate offers, or that begin as Pattern does, for as
	// long as For at most; 0 is events.DefaultGrant.
	Always  events.GrantScope
	Pattern string
	For     time.Duration
	// Sign signs the answer, where it is not nil. Without a Hash the one that waits now is signed.
	Sign *approval.Key
}

// Approve answers a gate with yes and returns the run's state with the answer recorded (GATE-9). The first answer to a
// gate wins: where it was a yes of somebody else the gate in the state names them, where it was a no, and for a gate
// that does not exist, Approve returns a *RefusedError. Where the gate needs several approvers the answer may be one
// vote of them: the gate in the state is then still pending.
func (gs Gates) Approve(ctx context.Context, d Decision) (run.State, error) {
	return gs.decide(ctx, d, "approve")
}

// Reject answers a gate with no and returns the run's state with the run paused. Its errors are those of Approve.
func (gs Gates) Reject(ctx context.Context, d Decision) (run.State, error) {
	return gs.decide(ctx, d, "reject")
}

func (gs Gates) decide(ctx context.Context, d Decision, word string) (run.State, error) {
	answer := events.Answer{Decision: word, Reason: d.Reason, ProposalHash: d.Hash,
		DeputyFor: d.DeputyFor}
	if d.Always != "" {
		answer.Always, answer.Pattern = d.Always, d.Pattern
		if d.For != 0 {
			answer.For = d.For.String()
		}
	}
	subject, err := gs.prepare(ctx, d, &answer)
	if err != nil {
		return run.State{}, err
	}
	done := func(s run.State, input uint64) bool {
		g := s.Gate(d.Gate)
		if g != nil && g.Status == run.GatePending {
			return slices.ContainsFunc(g.Votes, func(v run.Vote) bool { return v.Input == input })
		}
		return g != nil && g.Input == input && (word == "approve" || s.Status != events.Running ||
			g.Resolution <= s.ResumedAt)
	}
	input, letters, err := gs.send(ctx, subject, d, answer)
	if err != nil {
		return run.State{}, err
	}
	defer letters.stop()
	s, err := publisher{gs.c}.await(ctx, d.Run, letters, func(s run.State) bool { return done(s, input) })
	if r, ok := errors.AsType[*RefusedError](err); ok && r.Code == "gate_closed" && len(d.Edit) == 0 && d.Always == "" {
		return gs.agreed(ctx, d, word, err)
	}
	return s, err
}

// send publishes an answer in the name of whoever gives it.
func (gs Gates) send(ctx context.Context, subject string, d Decision, a events.Answer) (uint64, *letters, error) {
	if d.Asserted {
		a.By = d.By
		return publisher{gs.c}.send(ctx, subject+"."+events.Gateway, a)
	}
	return publisher{gs.c}.sendAs(ctx, subject, d.By, a)
}

// prepare checks an answer, fills in what it has more than a decision, and returns the subject of its gate.
func (gs Gates) prepare(ctx context.Context, d Decision, a *events.Answer) (subject string, err error) {
	ids := []struct{ what, id string }{{"run", d.Run}, {"gate", d.Gate}}
	if d.By != "" {
		ids = append(ids, struct{ what, id string }{"approver", d.By})
	}
	for _, i := range ids {
		if err := events.CheckID(i.what, i.id); err != nil {
			return "", err
		}
	}
	if len(d.Edit) > 0 {
		if a.EditedInput, err = events.EditedInput(d.Edit); err != nil {
			return "", err
		}
	}
	if err := a.Check(); err != nil {
		return "", err
	}
	if d.Sign != nil {
		err = gs.sign(ctx, d, a)
	}
	return events.GateSubject(gs.c.st.Name(), d.Run, d.Gate), err
}

// sign fills in what a signed answer has more.
func (gs Gates) sign(ctx context.Context, d Decision, a *events.Answer) (err error) {
	if a.ProposalHash == "" {
		s, err := gs.c.State(ctx, d.Run)
		if err != nil {
			return err
		}
		g := s.Gate(d.Gate)
		if g == nil {
			return notFound("gate", d.Gate)
		}
		a.ProposalHash = g.Hash
	}
	hash := a.ProposalHash
	if len(a.EditedInput) > 0 {
		hash = events.EditedHash(hash, a.EditedInput)
	}
	a.Key = d.Sign.ID()
	a.Signature, err = d.Sign.Sign(approval.Statement{Station: gs.c.st.Name(), Run: d.Run, Gate: d.Gate,
		Decision:     a.Decision,
		ProposalHash: hash, Reason: a.Reason, Always: a.Always, Pattern: a.Pattern, Term: d.For})
	return err
}

// agreed returns the state of a run whose gate was answered before: in the same way is as good as by this answer.
func (gs Gates) agreed(ctx context.Context, d Decision, word string, refusal error) (run.State, error) {
	s, err := gs.c.State(ctx, d.Run)
	if err != nil {
		return s, err
	}
	want := map[string]run.GateStatus{"approve": run.GateApproved, "reject": run.GateRejected}[word]
	if g := s.Gate(d.Gate); g == nil || g.Status != want || len(g.Edited) > 0 {
		return run.State{}, refusal
	}
	return s, nil
}
