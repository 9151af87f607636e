package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// CodeExpired is the code of an answer that came too late.
const CodeExpired = "gate_expired"

// setTerms writes into a gate that is opened how it is answered.
func setTerms(g *events.GateOpenedData, now time.Time, t events.GateTerms) {
	if t.Approvers > 1 {
		g.Approvers = t.Approvers
	}
	g.GateReminders = t.GateReminders
	if t.ExpiresMS <= 0 {
		return
	}
	g.ExpiresAt, g.OnExpiry = now.UTC().Add(time.Duration(t.ExpiresMS)*time.Millisecond), events.ExpiryRejects
	if t.OnExpiry == events.ExpiryFails {
		g.OnExpiry = events.ExpiryFails
	}
}

// Stood returns how long the station was halted between two times, which counts towards no term. Nil is not at all.
type Stood func(since, now time.Time) time.Duration

// EndOf is when the time of a gate is up; ok is false for one without a limit.
func (f Stood) EndOf(g *run.Gate, now time.Time) (at time.Time, ok bool) {
	if g.ExpiresAt.IsZero() {
		return at, false
	}
	if f == nil {
		return g.ExpiresAt, true
	}
	return g.ExpiresAt.Add(f(g.CreatedAt, now)), true
}

func (f Stood) late(g *run.Gate, now time.Time) bool {
	at, ok := f.EndOf(g, now)
	return ok && !now.Before(at)
}

// Expired ends the gates that wait although their time is up. Before that, and looked at again, it says nothing.
func Expired(s run.State, now time.Time, stood Stood) []events.Payload {
	var say []events.Payload
	for _, g := range s.Waiting() {
		if !stood.late(g, now) {
			continue
		}
		d := &events.GateExpiredData{Event: "gate_expired", Gate: g.ID, Step: g.StepID, Call: g.CallID,
			Action: events.GateRanOut, Outcome: g.OnExpiry,
			ExpiresAt: g.ExpiresAt, ProposalHash: g.Hash, WaitMS: now.Sub(g.CreatedAt).Milliseconds(), Approvers: g.Approvers}
		for _, v := range g.Votes {
			d.Votes = max(d.Votes, g.VotesFor(v.Action))
		}
		say = append(say, d)
	}
	return say
}

// mayVote returns why somebody's yes does not count at a gate that needs several, or nil.
func mayVote(s run.State, g *run.Gate, r Reply) *Refused {
	switch {
	case r.Assurance != events.AssuranceSignature && r.Assurance != events.AssuranceSubject:
		return &Refused{"unproven_answer",
			fmt.Sprintf("gate %s needs %d approvers, and the author of this answer is not proven", g.ID, g.Approvers),
			"answer on your own subject (inspan approve --by NAME), or sign the answer"}
	case requester(s, r.By):
		return &Refused{"own_request", fmt.Sprintf("gate %s needs %d approvers, and %s started the run", g.ID, g.Approvers,
			r.By), "another person must approve; your reject counts"}
	case r.deputy != nil && requester(s, r.deputy.By):
		return &Refused{"own_request", fmt.Sprintf("gate %s needs %d approvers, and %s started the run", g.ID, g.Approvers,
			r.deputy.By), "another person must approve, also in the place of somebody else; your reject counts"}
	case r.deputy != nil && g.Voted(r.By, r.deputy.By):
		return &Refused{"already_voted",
			fmt.Sprintf("gate %s: %s or %s has already approved: a person and a deputy count once", g.ID, r.By, r.deputy.By),
			fmt.Sprintf("%d different people must approve the same action; one reject rejects the gate", g.Approvers)}
	case g.Voted(r.By):
		return &Refused{"already_voted",
			fmt.Sprintf("gate %s: %s has already approved: a second approval of the same person has no effect", g.ID, r.By),
			fmt.Sprintf("%d different people must approve the same action; one reject rejects the gate", g.Approvers)}
	}
	return nil
}

// requester reports whether somebody asked for the run, as far as that was said.
func requester(s run.State, by string) bool {
	return s.Created != nil && by != "" && (strings.EqualFold(by, s.Created.By) || strings.EqualFold(by,
		s.Created.Project))
}

func notEditable(reason string) *Refused {
	return &Refused{"not_editable", reason,
		"approve or reject the gate as it is; a reject can state in its reason what should be done instead"}
}

// AnswerEdited is Answer for a yes with other arguments than those proposed. They are checked and judged as those of
// any call: what may not be done stays undone, whoever approves it. It says nothing while law.Hooks still has to be
// asked.
func AnswerEdited(s run.State, now time.Time, r Reply, law Policy) ([]events.Payload, error) {
	g := s.Gate(r.Gate)
	if s.Took(r.Input) || g == nil || g.Status != run.GatePending || r.Stood.late(g, now) {
		return answer(s, now, r)
	}
	if r.Always != "" {
		var unread bool
		var refused *Refused
		switch r.grant, unread, refused = grant(s, now, g, r, law); {
		case refused != nil:
			return nil, refused
		case unread:
			return nil, nil
		}
	}
	if len(r.Edited) == 0 {
		return answer(s, now, r)
	}
	c := s.Open[g.CallID]
	switch strings.ToLower(strings.TrimSpace(r.Decision)) {
	case "approve", "approved", "yes":
	default:
		return nil, notEditable("only an approval can have edited arguments")
	}
	if c == nil {
		return nil, notEditable(fmt.Sprintf("gate %s is for step %s, which has no arguments to edit", g.ID, g.StepID))
	}
	hooks, unasked, refused := judgeEdited(s, c, r, law)
	switch {
	case refused != nil:
		return nil, refused
	case unasked:
		return nil, nil
	}
	r.hooks = hooks
	return answer(s, now, r)
}

// judgeEdited returns why the call may not be made with the edited arguments, or nil and what the hooks answered about
// them.
func judgeEdited(s run.State, c *run.Call, r Reply,
	law Policy) (answers []events.HookAnswer, unasked bool, no *Refused) {
	denied := func(code, reason, hint string) ([]events.HookAnswer, bool, *Refused) {
		return nil, false, &Refused{code, "the edited call: " + reason, hint}
	}
	st := s.Step(c.Step)
	if st == nil {
		return denied(events.RefusedPermission, "it has no step", "")
	}
	agent, _ := s.Agent(st.AssignedAgent)
	tool, ok := law.Tool(agent, c.Tool)
	if !ok {
		return denied(events.RefusedUnknown, fmt.Sprintf("this station has no tool %q", c.Tool), "reject the gate")
	}
	if err := law.Check(agent, c.Tool, r.Edited); err != nil {
		return denied(events.RefusedInput, err.Error(), "fix the arguments and answer again; the gate is still open")
	}
	rules, err := law.Rules(agent)
	if err != nil {
		return denied(events.RefusedGuard, "the guard rules are unreadable: "+err.Error(),
			"an operator must fix the agent's guard rules")
	}
	name := tool.Rule
	if name == "" {
		name = c.Tool
	}
	if v := rules.Judge(law.of(s).Action(name, r.Edited)); v.Action == guard.Deny {
		return denied(events.RefusedGuard, fmt.Sprintf("rule %s denies it: %s", v.Rule, v.Reason),
			"a denied action cannot be approved; edit the arguments differently, or reject the gate")
	}
	if law.Hooks != nil {
		var asked bool
		if answers, asked = law.Hooks(agent, c, tool.Effect, r.Edited); !asked {
			return nil, true, nil
		}
	}
	if a, held := events.Decisive(answers); held && a.Answer != events.HookInterrupt {
		return denied(events.RefusedHook, hook.Why(a),
			"a blocked action cannot be approved; edit the arguments differently, or reject the gate")
	}
	return answers, false, nil
}
