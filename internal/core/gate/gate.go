// Package gate decides what may go on, and where a person must stand.
//
// Promises: it never waits and never writes. No verdict, no call: an error while judging is a refusal (closed by
// default). A gate binds to the hash of the exact action; the first valid answer in log order wins. A step gate
// depends on the autonomy level alone; a call gate on the guard rules alone.
package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Policy is what a verdict needs besides the state. Its functions are pure.
type Policy struct {
	// Tool returns what is known of a tool of an agent; ok is false where it has none of that name.
	Tool func(a events.Agent, name string) (t Tool, ok bool)
	// Check returns why the arguments do not fit the schema of an agent's tool, or nil.
	Check func(a events.Agent, tool string, input json.RawMessage) error
	// Input returns the whole arguments of a call. With ErrNotFetched the call stays without a verdict until they are
	// there.
	Input func(c *run.Call) (json.RawMessage, error)
	// Rules returns the rule set in force for an agent.
	Rules func(a events.Agent) (guard.Set, error)
	// Action reads a call for the guards: shell texts are taken apart, paths are resolved.
	Action func(tool string, input json.RawMessage) guard.Action
	// ActionIn is Action for a call of a run, where what its earlier calls wrote is known; nil means Action.
	ActionIn func(s run.State, tool string, input json.RawMessage) guard.Action
	// Hooks returns what the hooks answered about a call; asked is false where they still have to be, and the call
	// stays without a verdict until they were. Nil asks no one.
	Hooks func(a events.Agent, c *run.Call, effect string, input json.RawMessage) (answers []events.HookAnswer, asked bool)
	// Grants returns the standing grants of the session that a run works in; known is false where they still have to be
	// read, and the call stays without a verdict until they were. Nil knows none.
	Grants func(session string) (grants []events.GrantUse, known bool)
	// MaxGates bounds the gates of a run that stand open at the same time, 0 for no limit. What is above it stays
	// without a verdict until a gate is answered, which is when the run is looked at again.
	MaxGates int
	// Terms of the station for all gates.
	Terms events.GateTerms
	// Stood is how long the station was halted.
	Stood Stood

	// rounds of the state that is looked at.
	rounds *loop.Rounds
}

// of is the law for the calls of a run.
func (l Policy) of(s run.State) Policy {
	if l.ActionIn != nil {
		l.Action = func(tool string, input json.RawMessage) guard.Action { return l.ActionIn(s, tool, input) }
	}
	return l
}

// ErrNotFetched is returned by Law.Input for arguments that are to be fetched first.
var ErrNotFetched = errors.New("the arguments are not loaded yet")

// Tool is what the gatekeeper knows of a tool.
type Tool struct {
	// Rule is the name that guard rules know it by; empty means its own.
	Rule      string
	Effect    string
	TimeoutMS int64
}

// Look says what the gatekeeper owes: the end of every gate whose time is up, reminders at those that wait, and a
// verdict on every ready step and every requested call. A run that is not running is owed no verdicts; it is looked at
// again when it resumes.
func Look(s run.State, now time.Time, law Policy) ([]events.Payload, error) {
	say := append(Expired(s, now, law.Stood), Reminded(s, now, law.Stood)...)
	if s.Status != events.Running || s.Plan == nil {
		return say, nil
	}
	law = law.of(s)
	law.rounds = loop.RoundsOf(s)
	room := law.quota(s)
	for _, st := range s.Plan.Steps {
		if st.Status == events.StepIsReady {
			say = append(say, room.bound(judgeStep(s, st, now, law.Terms))...)
		}
		say = append(say, room.bound(askCheck(s, st, now, law.Terms))...)
	}
	left, unasked := s.BudgetLeft(), false
	for _, c := range requested(s) {
		harness := s.Harness(c.Step)
		if unasked && left <= 0 && !harness {
			break // what is left of the budget depends on answers that are not there yet
		}
		verdict, waits := judgeCall(s, c, now, law, left)
		if waits {
			unasked = true
			if !harness {
				left--
			}
		}
		verdict = room.bound(verdict)
		for _, p := range verdict {
			if a, ok := p.(*events.CallAllowedData); ok {
				left = a.BudgetLeft
			}
		}
		say = append(say, verdict...)
	}
	return say, nil
}

// quota is how many more gates a run may open.
type quota struct {
	bounded bool
	left    int
}

func (l Policy) quota(s run.State) *quota {
	return &quota{bounded: l.MaxGates > 0, left: l.MaxGates - len(s.Waiting())}
}

// bound leaves out a verdict that opens a gate for which there is no room.
func (r *quota) bound(verdict []events.Payload) []events.Payload {
	for _, p := range verdict {
		if p.Kind() != events.GateOpened {
			continue
		}
		if r.bounded && r.left <= 0 {
			return nil
		}
		r.left--
	}
	return verdict
}

// requested returns the calls without a verdict, in the order they were asked for.
func requested(s run.State) []*run.Call {
	var calls []*run.Call
	for _, c := range s.Open {
		if c.Phase == run.CallRequested {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *run.Call) int {
		if a.Turn != b.Turn {
			return a.Turn - b.Turn
		}
		if len(a.ID) != len(b.ID) {
			return len(a.ID) - len(b.ID)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return calls
}

// NeedsGate is the autonomy rule: 1 and 2 before every step, 3 before critical ones, 4 and 5 never (GATE-1 to 3).
func NeedsGate(autonomy int, critical bool) bool {
	return autonomy <= 2 || autonomy == 3 && critical
}

func judgeStep(s run.State, st *run.Step, now time.Time, terms events.GateTerms) []events.Payload {
	allowed := &events.StepAllowedData{Event: "step_start", Step: st.ID, Agent: st.AssignedAgent,
		Autonomy: s.Options.Autonomy}
	before := s.GateFor(st.ID, "")
	switch g := before; {
	case g != nil && g.Status == run.GatePending:
		return nil
	case g != nil && (g.Status == run.GateApproved || g.Status == run.GateExpired && g.OnExpiry == events.ExpiryApproves):
		allowed.Gate = g.ID
		return []events.Payload{allowed}
	case escalates(g):
	case g != nil && g.Resolution > s.ResumedAt:
		return nil // rejected, and the run not yet paused for it
	case !NeedsGate(s.Options.Autonomy, st.Critical) && approval(st) == nil:
		return []events.Payload{allowed}
	}
	proposal, _ := json.Marshal(stepProposal{Run: s.HarnessID, Step: st.ID, Description: st.Description,
		Agent:       st.AssignedAgent,
		AgentDigest: s.Agents[st.AssignedAgent].Digest, Critical: st.Critical, Approval: approval(st)})
	why := fmt.Sprintf("autonomy %d asks before every step", s.Options.Autonomy)
	if s.Options.Autonomy == 3 {
		why = "the step is critical (autonomy 3)"
	}
	terms = terms.Strictest(s.Agents[st.AssignedAgent].Gates)
	own := approval(st)
	if own != nil {
		why = "the plan asks a person here"
		if !escalates(before) {
			terms = terms.Strictest(events.GateTerms{ExpiresMS: own.TimeoutMS, OnExpiry: own.OnTimeout})
		} else {
			why = fmt.Sprintf("no one answered gate %s in time: %s may answer now, too", before.ID,
				strings.Join(own.EscalateTo, ", "))
		}
	}
	g := open(s, position{step: st.ID}, proposal, st.Description, why, "")
	setTerms(g, now, terms)
	if own != nil && own.OnTimeout == events.ExpiryApproves && terms.ExpiresMS == own.TimeoutMS && terms.Approvers < 2 {
		g.OnExpiry = events.ExpiryApproves
	}
	if own != nil && own.OnTimeout == events.ExpiryEscalates && terms.ExpiresMS == own.TimeoutMS && !escalates(before) {
		g.OnExpiry = events.ExpiryEscalates
	}
	return []events.Payload{g}
}

// escalates reports whether others are to be asked because no one answered a gate in time.
func escalates(g *run.Gate) bool {
	return g != nil && g.Status == run.GateExpired && g.OnExpiry == events.ExpiryEscalates
}

// escalated reports whether a gate asks others because no one answered the one before it in time.
func escalated(s run.State, g *run.Gate) bool {
	var before *run.Gate
	for _, one := range s.Gates {
		if one.ID == g.ID {
			return escalates(before)
		}
		if one.StepID == g.StepID && one.CallID == g.CallID {
			before = one
		}
	}
	return false
}

// approval is what a step of the kind approval asks; nil for all others.
func approval(st *run.Step) *events.StepApproval {
	if st == nil || st.Flow == nil {
		return nil
	}
	return st.Flow.Approval
}

type stepProposal struct {
	Run         string `json:"run"`
	Step        string `json:"step"`
	Description string `json:"description"`
	Agent       string `json:"agent"`
	AgentDigest string `json:"agent_digest"`
	Critical    bool   `json:"critical"`
	// Approval is what a step asks that does nothing else.
	Approval *events.StepApproval `json:"approval,omitempty"`
}

type callProposal struct {
	Run       string          `json:"run"`
	Step      string          `json:"step"`
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input,omitempty"`
	InputHash string          `json:"input_hash"`
	Workspace string          `json:"workspace"`
}

type position struct{ step, call string }

// open opens a gate. Its id follows from the run, the place and how many stood there before, so that every replica
// that looks at the same state opens the same gate.
func open(s run.State, at position, proposal []byte, description, reason, rule string) *events.GateOpenedData {
	n := 0
	for _, g := range s.Gates {
		if g.StepID == at.step && g.CallID == at.call {
			n++
		}
	}
	id := "g-" + digest([]byte(fmt.Sprintf("%s|%s|%s|%d", s.HarnessID, at.step, at.call, n)))[:12]
	scope := "step"
	if at.call != "" {
		scope = "call"
	}
	if events.IsCheckPlace(at.call) {
		scope = events.ScopeCheck
	}
	done, total := s.StepsCompleted()
	return &events.GateOpenedData{Event: "waiting_for_human", Gate: id, Scope: scope, Step: at.step, Call: at.call,
		Action: events.GateWaiting, Description: description, Reason: reason, Rule: rule, Proposal: proposal,
		ProposalHash: digest(proposal), AnswerSubject: events.GateSubject(s.Identity.Station, s.HarnessID, id),
		StepsCompleted: done, StepsTotal: total}
}

func digest(b []byte) string { return events.HashOf(b) }
