package runtest

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Progressed gives the program that carries out a call its work, in a session.
func Progressed(c *run.Call, session string) *events.CallProgressedData {
	return &events.CallProgressedData{Event: eventOf(events.CallProgressed), ToolRef: Ref(c.Step, c.ID, c.Tool),
		Fence:   c.Fence,
		Session: session}
}

// Requested asks for the next call inside of one that a program carries out.
func Requested(p *run.Call, tool, input string) *events.CallRequestedData {
	return &events.CallRequestedData{Event: eventOf(events.CallRequested),
		ToolRef: InnerRef(p.Step, run.InnerID(p), tool, p.ID),
		Fence:   p.Fence, ProgramID: "tool-1", Title: "I want to", Input: []byte(input)}
}

// Reserved sets aside tokens for the next request of the program of a call.
func Reserved(c *run.Call, tokens int64) *events.CallReservedData {
	n := 1
	if c.Asking != nil {
		n += c.Asking.Requests
	}
	return &events.CallReservedData{Event: eventOf(events.CallReserved), ToolRef: Ref(c.Step, c.ID, c.Tool),
		Fence: c.Fence, Request: n,
		Model: "m", Tokens: tokens}
}

// Answered says what a request of the program of a call used.
func Answered(c *run.Call, request, in, out int) *events.CallSettledData {
	return &events.CallSettledData{Event: eventOf(events.CallSettled), ToolRef: Ref(c.Step, c.ID, c.Tool), Fence: c.Fence,
		Request:     request,
		InputTokens: in, OutputTokens: out}
}

// InnerRef names a call inside of another one.
func InnerRef(step, call, tool, parent string) events.ToolRef {
	ref := Ref(step, call, tool)
	ref.Parent = parent
	return ref
}

// InnerDone is what a program says that became of a call inside.
func InnerDone(c *run.Call, output string) *events.CallFinishedData {
	d := CallDone(InnerRef(c.Step, c.ID, c.Tool, c.Parent), c.Fence, output)
	d.Reported = true
	return d
}

// maxInner is how many calls random histories have open inside of one.
const maxInner = 2

// innerMoves are those of a program that carries out a call, and of what it asks for.
func innerMoves(s run.State, p *run.Call) []events.Payload {
	if p.Program == nil {
		return slices.Repeat([]events.Payload{Progressed(p, ""), Progressed(p, "session-1")}, 4)
	}
	open := s.InnerOf(p.ID)
	m := []events.Payload{Progressed(p, "session-1")}
	if p.Asking == nil || len(p.Asking.Held) < maxInner {
		m = append(m, Reserved(p, 100))
	}
	if p.Asking != nil {
		for _, h := range p.Asking.Held {
			unknown := Answered(p, h.Request, 0, 0)
			unknown.Unknown = true
			m = append(m, Answered(p, h.Request, 40, 10), unknown)
		}
	}
	if len(open) < maxInner {
		m = append(m, slices.Repeat([]events.Payload{Requested(p, "bash", `{"command":"make"}`), Requested(p, "edit", `{"paths":["a.txt"]}`)}, 4)...)
	}
	for _, c := range open {
		ref := InnerRef(c.Step, c.ID, c.Tool, p.ID)
		switch c.Phase {
		case run.CallRequested:
			m = append(m, CallNo(ref), CallBad(ref, 0, "permanent"))
			if s.GateFor(c.Step, c.ID) == nil {
				m = append(m, GateAt("g-"+c.ID, c.Step, c.ID))
			}
			if s.BudgetLeft() > 0 && s.Status == events.Running {
				m = append(m, CallYes(ref, "once"))
			}
		case run.CallAllowed:
			m = append(m, CallBegun(ref, 1), CallBad(ref, 0, "permanent"))
		case run.CallStarted:
			m = append(m, InnerDone(c, "ok"), CallBad(ref, c.Fence, events.OutcomeUnknown))
		case run.CallDeferred, run.CallDelegated, run.CallMailed:
		}
	}
	return m
}
