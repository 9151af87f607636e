package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// hooked holds GUARD-2, GUARD-3, GUARD-4 and GUARD-9 of every event: an answer that it records is one that was given,
// and nothing goes on past a hook that did not let it.
func (a *audit) hooked(runID string, l *ledger, p events.Payload) string {
	r := a.w.play.Scene.run(runID)
	if _, ok := p.(*events.RunResumedData); ok {
		l.resumed = l.sequence
	}
	if len(r.Hooks) == 0 || l.others {
		return ""
	}
	if fault := a.answersAreReal(runID, p); fault != "" {
		return fault
	}
	q := hook.Question{Run: runID}
	switch d := p.(type) {
	case *events.RunCreatedData:
		if !d.Direct {
			return ""
		}
		q.On = events.OnRunStart
	case *events.StepAllowedData:
		q.On = events.OnRunStart
	case *events.TurnFinishedData:
		q.On = events.OnRunStart
	case *events.CallAllowedData:
		q.On, q.Step, q.Turn, q.Call = events.OnPreTool, d.Step, 0, &hook.Call{ID: d.Call, Tool: d.Tool, InputHash: d.InputHash}
	case *events.CallFinishedData:
		if _, output := cutNews(d.Output); !strings.HasPrefix(output, "effect ") {
			return ""
		}
		q.On, q.Step, q.Call = events.OnPostTool, d.Step, &hook.Call{ID: d.Call, Tool: d.Tool}
	case *events.RunCompletedData:
		q.On, q.End = events.OnRunStop, &hook.End{Status: string(events.Completed)}
	default:
		return ""
	}
	return a.letGo(l, r, q)
}

// letGo returns who did not let something go on: each hook that is asked about it has said continue, or interrupt and a
// person went on.
func (a *audit) letGo(l *ledger, r *SceneRun, q hook.Question) string {
	for _, h := range r.Hooks {
		if h.On != q.On || q.Call != nil && h.Tool != "" && h.Tool != q.Call.Tool {
			continue
		}
		if !slices.ContainsFunc(a.w.asked, func(old asking) bool { return old.name == "agent:"+h.ID && a.counts(l, old, q) }) {
			return fmt.Sprintf("hook %s did not let it go on (%s)", h.ID, q.On)
		}
		a.w.tale.counts["hooks that let go on"]++
	}
	return ""
}

// counts reports whether what a hook once said lets a thing go on.
func (a *audit) counts(l *ledger, old asking, q hook.Question) bool {
	if !old.received || old.run != q.Run || old.q.On != q.On {
		return false
	}
	switch q.On {
	case events.OnTurn:
		if old.q.Step != q.Step || old.q.Turn != q.Turn {
			return false
		}
	case events.OnPreTool:
		if callOfQuestion(old.q) != q.Call.ID || old.q.Call.InputHash != q.Call.InputHash {
			return false
		}
		if old.said == events.HookInterrupt {
			return l.approved(q.Call.ID)
		}
	case events.OnPostTool:
		return callOfQuestion(old.q) == q.Call.ID && (old.said == events.HookContinue || old.said == events.HookInterrupt)
	case events.OnRunStop:
		if endOf(old.q) != endOf(q) {
			return false
		}
	}
	return old.said == events.HookContinue || old.said == events.HookInterrupt && l.resumed > old.events
}

// answersAreReal holds that the answers in an event were given, and that who gave none has blocked.
func (a *audit) answersAreReal(runID string, p events.Payload) string {
	b, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	var d struct {
		Call  string `json:"call_id"`
		Hooks []events.HookAnswer
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err.Error()
	}
	for i, answer := range d.Hooks {
		switch {
		case answer.Fault != "" && answer.Answer != events.HookBlock:
			return fmt.Sprintf("hook %s gave no answer (%s), and that counts as %s", answer.Hook, answer.Fault, answer.Answer)
		case answer.Answer == events.HookBlock && i < len(d.Hooks)-1:
			return fmt.Sprintf("somebody was asked after hook %s had blocked", answer.Hook)
		case answer.Fault == "" && !slices.ContainsFunc(a.w.asked, func(old asking) bool {
			return old.received && old.run == runID && old.name == answer.Hook && old.q.On == answer.On && old.said == answer.Answer && (d.Call == "" || callOfQuestion(old.q) == d.Call)
		}):
			return fmt.Sprintf("hook %s never said %s", answer.Hook, answer.Answer)
		}
	}
	return ""
}

// turnPermitted holds that a model is asked only where the hooks of the turn let it be.
func (a *audit) turnPermitted(req llm.Request) {
	m := req.Meta
	r := a.w.play.Scene.run(m.Run)
	if m.Purpose != "turn" || r == nil || len(r.Hooks) == 0 || a.runs[m.Run] == nil || a.runs[m.Run].others {
		return
	}
	a.w.news()
	if fault := a.letGo(a.runs[m.Run], r, hook.Question{Run: m.Run, On: events.OnTurn, Step: m.Step, Turn: m.Turn}); fault != "" {
		a.breaks("run %s step %s turn %d: a model is asked: %s", m.Run, m.Step, m.Turn, fault)
	}
}
