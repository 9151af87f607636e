package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// audit judges a play by rules of its own: it reads the events as they are stored and the journal of effects, and uses
// none of the program's decisions.
type audit struct {
	w *world
	// broken is the first rule that did not hold.
	broken string
	runs   map[string]*ledger
	kids   map[string]*kidAudit
	item   itemAudit
	box    boxAudit
	grove  grove
}

// ledger is what the audit knows of a run.
type ledger struct {
	// partOf names what a step was made of, outcome how the plan ended a step.
	partOf   map[string]string
	outcome  map[string]events.StepStatus
	sequence uint64
	last     [32]byte
	ended    events.Kind
	autonomy int
	budget   int
	allowed  int
	turns    int
	plan     map[string]events.PlanStep
	steps    map[string]events.Kind
	gates    map[string]*gateAudit
	calls    map[string]*callAudit
	inputs   map[uint64]bool
	// session it works in with the fence of its lock; through is the last turn that was compacted, by step.
	session string
	fence   uint64
	history *events.Ref
	// in is true once it has begun to work in its session.
	in      bool
	through map[string]int
	// direct is true for a run on the direct path, others for one whose task is that of somebody who took its id.
	direct, others bool
	// resumed is the sequence of the last time that somebody resumed it.
	resumed uint64
	clock   clockAudit
	grants  map[string]*grantAudit
	// claims by step; passes counts the checks that passed, by name.
	claims map[string]*claimAudit
	passes map[string]int
	// trees are those of a commit that checks have passed on.
	trees map[string]bool
	// held are the tool calls that are held for children, and those that they made; stopping is true once it waits for
	// their ends.
	held     int
	stopping bool
	// begin is the commit that a child in a worktree begins with, left what its calls left in the tree; branches are the
	// steps that it gives to such children.
	begin    string
	left     files
	branches map[string]*branchAudit
	// item is that of its agent, which it was created with.
	item  *events.WorkRef
	dream dreamAudit
	cuts  cutAudit
	wake  wakeAudit
}

type gateAudit struct {
	opened *events.GateOpenedData
	answer events.Kind
	// votes by person, each for an action; edited is what was approved in place of the proposed arguments.
	votes  map[string]string
	edited string
}

type callAudit struct {
	ref            events.ToolRef
	inputHash      string
	allowed, ended bool
	granted        bool
	effect         string
	fence          uint64
	attempts       int
	starts         int
	key            string
	effects        int
}

func newAudit(w *world) *audit {
	return &audit{w: w, runs: map[string]*ledger{}, kids: map[string]*kidAudit{}, item: itemAudit{inputs: map[uint64]bool{}}, box: newBoxAudit(), grove: newGrove()}
}

// breaks notes the first rule that does not hold.
func (a *audit) breaks(format string, args ...any) {
	if a.broken == "" {
		a.broken = fmt.Sprintf(format, args...)
	}
}

// event judges one stored event.
func (a *audit) event(runID string, r kernel.Record) {
	f, err := events.Decode(r.Bytes)
	if err != nil {
		a.breaks("run %s: a stored event cannot be read: %v", runID, err)
		return
	}
	k, _ := f.Kind() // Decode checked it
	p, err := f.Payload()
	if err != nil {
		a.breaks("run %s: %v", runID, err)
		return
	}
	a.w.tale.line("", fmt.Sprintf("= %s#%d %s %s", runID, f.Sequence, k, about(p)))
	a.w.tale.counts["facts"]++
	l := a.runs[runID]
	if l == nil {
		l = &ledger{plan: map[string]events.PlanStep{}, steps: map[string]events.Kind{}, gates: map[string]*gateAudit{},
			calls: map[string]*callAudit{}, inputs: map[uint64]bool{}, through: map[string]int{},
			grants: map[string]*grantAudit{},
			claims: map[string]*claimAudit{}, passes: map[string]int{}, trees: map[string]bool{}, partOf: map[string]string{}, outcome: map[string]events.StepStatus{},
			cuts: cutAudit{said: map[string]uint64{}, half: map[string]bool{}}}
		a.runs[runID] = l
	}
	if fault := l.chain(f, k, r.Bytes); fault != "" {
		a.breaks("run %s#%d %s: %s", runID, f.Sequence, k, fault)
		return
	}
	a.grows(runID, p)
	fault := a.judge(runID, l, f, p)
	if fault == "" {
		fault = a.hooked(runID, l, p)
	}
	if fault == "" {
		fault = a.outage(l, f, p)
	}
	if fault == "" {
		fault = a.accepted(runID, l, p)
	}
	if fault == "" {
		fault = a.family(runID, l, p)
	}
	if fault == "" {
		fault = a.branched(runID, l, p)
	}
	if fault == "" {
		fault = a.given(runID, l, p)
	}
	if fault == "" {
		fault = a.dreamt(l, f, p)
	}
	if fault == "" {
		fault = a.cut(l, f, p)
	}
	if fault != "" {
		a.breaks("run %s#%d %s: %s", runID, f.Sequence, k, fault)
	}
}

// chain holds SAFE-2: no gap, the right hash, the right author, nothing after the end.
func (l *ledger) chain(f events.Event, k events.Kind, stored []byte) string {
	l.sequence++
	want := ""
	if l.sequence > 1 {
		want = hex.EncodeToString(l.last[:])
	}
	l.last = sha256.Sum256(stored)
	word, _ := events.Lookup(k)
	switch {
	case f.Sequence != l.sequence:
		return fmt.Sprintf("sequence %d where %d is next", f.Sequence, l.sequence)
	case f.PrevHash != want:
		return "it does not name the event before it"
	case f.Author() != word.Author:
		return fmt.Sprintf("said by %s", f.Author())
	case l.ended != "":
		return fmt.Sprintf("said after %s", l.ended)
	}
	return l.around(k)
}

// judge holds the rules of one event after the other. It returns what is wrong.
func (a *audit) judge(runID string, l *ledger, f events.Event, p events.Payload) string {
	switch d := p.(type) {
	case *events.RunCreatedData:
		l.autonomy, l.budget, l.others = d.Options.Autonomy, d.Options.MaxToolCalls, d.Task == anotherTask
		if fault := a.birth(runID, l, d); fault != "" {
			return fault
		}
		return a.bound(l, d)
	case *events.RunAdjustedData:
		l.autonomy = d.Autonomy
		l.inputs[d.Input] = true
	case *events.RunPausedData:
		l.inputs[d.Input] = true
	case *events.RunResumedData:
		l.inputs[d.Input] = true
	case *events.PlanMadeData:
		if len(l.plan) > 0 {
			return "a second plan"
		}
		for _, st := range d.Steps {
			l.plan[st.ID] = st
		}
		if fault := a.holds(runID, l); fault != "" {
			return fault
		}
		return a.entered(runID, l)
	case *events.StepReadyData:
		if fault := l.asleep(d.Step, f.Time); fault != "" {
			return fault
		}
		return l.stepReady(d.Step)
	case *events.StepAllowedData:
		return l.stepAllowed(d)
	case *events.StepFinishedData:
		return l.stepMoves(d.Step, events.StepFinished, events.StepAllowed)
	case *events.StepFailedData:
		return l.stepMoves(d.Step, events.StepFailed, events.StepAllowed)
	case *events.StepExpandedData:
		a.w.tale.counts["steps expanded"]++
		if fault := l.wakes(d, f.Time); fault != "" {
			return fault
		}
		return l.expanded(d)
	case *events.StepSettledData:
		a.w.tale.counts["steps "+string(d.Status)]++
		return l.settled(d)
	case *events.TurnFinishedData:
		return l.turn(d)
	case *events.GateOpenedData:
		if fault := a.escalated(l, d); fault != "" {
			return fault
		}
		return l.gateOpened(d)
	case *events.GateApprovedData:
		if d.Grant != nil {
			l.grants[d.Gate] = &grantAudit{until: d.Grant.Until, session: d.Grant.Scope == events.GrantSession}
		}
		return a.answered(runID, l, f, d.GateAnswer, events.GateApproved)
	case *events.GrantRevokedData:
		return a.revoked(l, d)
	case *events.GateRejectedData:
		return a.answered(runID, l, f, d.GateAnswer, events.GateRejected)
	case *events.GateVotedData:
		return a.voted(runID, l, f, d.GateAnswer)
	case *events.GateExpiredData:
		return a.expired(l, f, d)
	case *events.HistoryCompactedData:
		return a.compacted(l, d)
	case *events.RunCompletedData:
		l.ended, l.inputs[d.Input] = events.RunCompleted, true
		for id := range l.plan {
			if l.steps[id] != events.StepFinished && !l.over(id) {
				return "step " + id + " is not finished"
			}
		}
		return a.delivered(runID, l.ended, d.Result)
	case *events.RunFailedData:
		l.ended, l.inputs[d.Input] = events.RunFailed, true
		return a.delivered(runID, l.ended, d.Result)
	default:
		return a.call(l, f, p)
	}
	return ""
}

func (l *ledger) stepReady(id string) string {
	st, ok := l.plan[id]
	if !ok || l.steps[id] != "" {
		return "step " + id + " is not in the plan, or ready twice"
	}
	for _, dep := range st.Dependencies {
		if l.steps[dep] != events.StepFinished && !l.over(dep) && st.Kind != events.StepDeliver {
			return fmt.Sprintf("step %s before %s is finished", id, dep)
		}
	}
	l.steps[id] = events.StepReady
	return ""
}

// stepAllowed holds GATE-1 to 3: where the autonomy level asks, a person has said yes to this very step.
func (l *ledger) stepAllowed(d *events.StepAllowedData) string {
	if l.steps[d.Step] != events.StepReady {
		return "step " + d.Step + " is not ready"
	}
	asks := l.autonomy <= 2 || l.autonomy == 3 && l.plan[d.Step].Critical
	if g := l.gates[d.Gate]; asks && (g == nil || g.answer != events.GateApproved || g.opened.Step != d.Step || g.opened.Scope != "step") {
		return "step " + d.Step + " has no approval"
	}
	l.steps[d.Step] = events.StepAllowed
	return ""
}

func (l *ledger) stepMoves(id string, to, from events.Kind) string {
	if l.steps[id] != from {
		return fmt.Sprintf("step %s was %s", id, l.steps[id])
	}
	for _, c := range l.calls {
		if c.ref.Step == id && !c.ended && to == events.StepFinished {
			return "call " + c.ref.Call + " is open"
		}
	}
	l.steps[id] = to
	return ""
}

func (l *ledger) turn(d *events.TurnFinishedData) string {
	l.turns++
	if d.Turn != l.turns || l.steps[d.Step] != events.StepAllowed {
		return fmt.Sprintf("turn %d of step %s, %d is next", d.Turn, d.Step, l.turns)
	}
	for _, c := range l.calls {
		if c.ref.Step == d.Step && !c.ended {
			return "a turn while call " + c.ref.Call + " is open"
		}
	}
	for _, c := range d.Calls {
		l.calls[c.ID] = &callAudit{ref: events.ToolRef{Step: d.Step, Call: c.ID, Tool: c.Tool}, inputHash: sum(c.Input)}
	}
	return ""
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (l *ledger) gateOpened(d *events.GateOpenedData) string {
	for id, g := range l.gates {
		if id == d.Gate || g.answer == "" && g.opened.Step == d.Step && g.opened.Call == d.Call {
			return "a second gate at the same place"
		}
	}
	if d.ProposalHash != sum(d.Proposal) {
		return "the hash is not that of the proposal"
	}
	l.gates[d.Gate] = &gateAudit{opened: d, votes: map[string]string{}}
	return ""
}

// answered holds GATE-8, SAFE-9 and SAFE-10: the first valid answer in the log counts, it is one that somebody gave in
// time for the proposal that waited, and a yes has the votes of as many people as the gate needs.
func (a *audit) answered(runID string, l *ledger, f events.Event, d events.GateAnswer, k events.Kind) string {
	g, decision := l.gates[d.Gate], "reject"
	if k == events.GateApproved {
		decision = "approve"
	}
	if fault := a.said(runID, g, f, d, decision); fault != "" {
		return fault
	}
	if k == events.GateApproved && g.opened.Approvers > 1 {
		if fault := g.vote(d, a.w.person.answers[d.Input]); fault != "" {
			return fault
		}
		if n := g.votesFor(actionOf(d)); n < g.opened.Approvers {
			return fmt.Sprintf("%d of %d have said yes to this", n, g.opened.Approvers)
		}
	}
	if g.answer, l.inputs[d.Input] = k, true; len(d.EditedInput) > 0 {
		g.edited = sum(d.EditedInput)
		a.w.tale.counts["approved with other arguments"]++
	}
	return ""
}

// said returns what is wrong with an answer to a gate, whatever follows from it.
func (a *audit) said(runID string, g *gateAudit, f events.Event, d events.GateAnswer, decision string) string {
	if g == nil || g.answer != "" {
		return "gate " + d.Gate + " is not open"
	}
	said, ok := a.w.person.answers[d.Input]
	edited, errEdited := events.EditedInput(json.RawMessage(said.edited))
	switch {
	case !ok || said.run != runID || said.gate != d.Gate:
		return "no one gave this answer"
	case said.decision != decision:
		return fmt.Sprintf("somebody said %s", said.decision)
	case d.ProposalHash != g.opened.ProposalHash || said.hash != "" && said.hash != d.ProposalHash:
		return "the answer was for another proposal"
	case !g.opened.ExpiresAt.IsZero() && !f.Time.Before(g.opened.ExpiresAt):
		return "the answer came after the gate's time"
	case said.edited == "" && len(d.EditedInput) > 0, said.edited != "" && (errEdited != nil || string(edited) != string(d.EditedInput)):
		return fmt.Sprintf("the answer was for %q", said.edited)
	case len(d.EditedInput) > 0 && (g.opened.Call == "" || decision != "approve"):
		return "there are no arguments to edit"
	}
	return ""
}

func about(p events.Payload) string {
	b, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	var d struct {
		Step    string `json:"step_id"`
		Call    string `json:"call_id"`
		Tool    string `json:"tool_id"`
		Gate    string `json:"gate_id"`
		Class   string `json:"class"`
		Code    string `json:"code"`
		Attempt int    `json:"attempt"`
		Fence   int    `json:"fence"`
		Reason  string `json:"finish_reason"`
	}
	_ = json.Unmarshal(b, &d) // for people only
	out := ""
	for _, s := range []string{d.Step, d.Call, d.Tool, d.Gate, d.Class, d.Code, d.Reason} {
		if s != "" {
			out += s + " "
		}
	}
	if d.Attempt > 0 {
		out += fmt.Sprintf("attempt %d ", d.Attempt)
	}
	if d.Fence > 0 {
		out += fmt.Sprintf("fence %d", d.Fence)
	}
	return out
}

// rank orders ids for messages that must not depend on the order of a map.
func rank[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
