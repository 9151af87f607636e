package sim

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// call holds the rules of tool calls.
func (a *audit) call(l *ledger, f events.Event, p events.Payload) string {
	switch d := p.(type) {
	case *events.CallAllowedData:
		if fault := a.rests(l, d, f.Time); fault != "" {
			return fault
		}
		return a.callAllowed(l, d)
	case *events.CallRefusedData:
		return l.ends(d.ToolRef, 0, false)
	case *events.CallStartedData:
		c := l.calls[d.Call]
		switch {
		case c == nil || !c.allowed || c.ended || c.ref != d.ToolRef:
			return "a start of a call that was not allowed"
		case d.Attempt <= c.attempts:
			return fmt.Sprintf("attempt %d after attempt %d", d.Attempt, c.attempts)
		case c.effect == "once" && c.starts > 0 && c.fence != 0:
			return "a once call begins again although its outcome is not known"
		}
		c.attempts, c.fence = d.Attempt, f.Sequence
		c.starts++
	case *events.CallDelegatedData:
		c := l.calls[d.Call]
		if c == nil || !c.allowed || c.ended || c.ref != d.ToolRef || c.starts > 0 || d.Tool != events.ToolDelegate {
			return "a call is given away that was not allowed, or twice"
		}
		c.attempts, c.fence = d.Attempt, f.Sequence
		c.starts++
	case *events.CallDeferredData:
		c := l.calls[d.Call]
		if c == nil || !c.allowed || c.ended || d.Fence != c.fence {
			return "a failed attempt that is not the current one"
		}
		c.attempts, c.fence = d.Attempt, 0
	case *events.CallFinishedData:
		return l.ends(d.ToolRef, d.Fence, true)
	case *events.CallFailedData:
		if d.Class == events.OutcomeUnknown {
			a.w.tale.counts["unknown outcomes"]++
		}
		return l.ends(d.ToolRef, d.Fence, true)
	}
	return ""
}

// callAllowed holds law 2: what is permitted is the very call that was asked for, within the budget, with an approval
// where a rule asks for one.
func (a *audit) callAllowed(l *ledger, d *events.CallAllowedData) string {
	c := l.calls[d.Call]
	if c == nil || c.allowed || c.ended || c.ref != d.ToolRef {
		return "the call was not asked for, or has its verdict"
	}
	if g := l.gates[d.Gate]; d.Edited {
		if g == nil || g.opened.Call != d.Call || g.edited == "" {
			return "no one approved other arguments"
		}
		c.inputHash = g.edited
	} else if g != nil && g.edited != "" {
		return "it was approved with other arguments"
	}
	if d.InputHash != c.inputHash {
		return "other arguments than were asked for"
	}
	if st := l.plan[c.ref.Step]; st.Kind == "" && st.Child != events.ChildWorktree { // else it is one of the harness
		l.allowed++
	}
	if l.allowed > l.budget {
		return fmt.Sprintf("call %d of a budget of %d", l.allowed, l.budget)
	}
	if want := string(classOf(c.ref.Tool)); d.Effect != want {
		return fmt.Sprintf("effect class %s, the tool's is %s", d.Effect, want)
	}
	if d.Gate != "" {
		g := l.gates[d.Gate]
		if g == nil || g.answer != events.GateApproved || g.opened.Call != d.Call {
			return "the gate it names did not approve it"
		}
	}
	c.allowed, c.effect = true, d.Effect
	return ""
}

// ends closes a call, once, with the fence of its current attempt.
func (l *ledger) ends(ref events.ToolRef, fence uint64, ran bool) string {
	c := l.calls[ref.Call]
	switch {
	case c == nil || c.ended || c.ref != ref:
		return "the call is not open"
	case ran && !c.allowed:
		return "the call was not allowed"
	case ran && c.effect != "read" && fence != c.fence:
		return fmt.Sprintf("fence %d, the current attempt has %d", fence, c.fence)
	}
	c.ended = true
	return ""
}

// effect judges something that happened in the outside world, the moment it happens.
func (a *audit) effect(e effect) {
	a.w.news() // what is stored counts, judged or not
	l := a.runs[e.run]
	if l == nil || l.calls[e.call] == nil {
		a.breaks("%s %s of run %s happened and is not in the log", e.tool, e.call, e.run)
		return
	}
	c := l.calls[e.call]
	switch {
	case !c.allowed:
		a.breaks("%s %s of run %s happened without permission", e.tool, e.call, e.run)
	case sum([]byte(e.input)) != c.inputHash:
		a.breaks("%s %s of run %s happened with other arguments than were allowed", e.tool, e.call, e.run)
	case c.effect != "read" && c.starts == 0:
		a.breaks("%s %s of run %s happened before its call.started", e.tool, e.call, e.run)
	case c.key != "" && c.key != e.key:
		a.breaks("%s %s of run %s has another idempotency key in another attempt", e.tool, e.call, e.run)
	}
	c.key = e.key
	if c.effects++; c.effects > 1 && classOf(e.tool) == tool.Once {
		a.breaks("%s %s of run %s happened %d times", e.tool, e.call, e.run, c.effects)
	}
	run := a.w.play.Scene.run(e.run)
	if e.tool == "pay" && run.Asks && !l.approved(e.call) && !c.granted {
		a.breaks("%s %s of run %s happened without the approval that a rule asks for", e.tool, e.call, e.run)
	}
	if e.tool == events.GitPush && !l.approved(e.call) {
		a.breaks("%s of run %s happened and no one approved it", e.call, e.run)
	}
	a.again(e)
}

// again holds that a reconcilable call is made again only after somebody looked and did not find its effect.
func (a *audit) again(e effect) {
	if classOf(e.tool) != tool.Reconcilable {
		return
	}
	looked, done := false, 0
	for _, old := range a.w.tools.effects {
		if old.run != e.run || old.call != e.call {
			continue
		}
		if old.verify {
			looked = true
			continue
		}
		done++
	}
	if done > 1 && !looked {
		a.breaks("%s %s of run %s was made again and no one looked before", e.tool, e.call, e.run)
	}
}

func (l *ledger) approved(call string) bool {
	for _, g := range l.gates {
		if g.opened.Call == call && g.answer == events.GateApproved {
			return true
		}
	}
	return false
}
