package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// modelRules fold the requests of programs of others for their models.
var modelRules = []rule{on(callReserved), on(callSettled)}

// Asking are the requests for its model of a program that carries out a call. Shared between states: never written
// after it was made.
type Asking struct {
	// Requests counts them, Held are those of the attempt under way whose use is not known yet.
	Requests int           `json:"requests"`
	Held     []HeldRequest `json:"held,omitempty"`
}

// HeldRequest is what is set aside for a request.
type HeldRequest struct {
	Request int             `json:"request"`
	Tokens  int64           `json:"tokens"`
	Cost    events.MicroUSD `json:"cost,omitempty"`
}

// HeldForPrograms is what is set aside for the requests of programs whose use is not known yet.
func (s *State) HeldForPrograms() events.Reserve {
	var all events.Reserve
	for _, c := range s.Open {
		if c.Asking == nil {
			continue
		}
		for _, h := range c.Asking.Held {
			all.Tokens += h.Tokens
			all.Cost += h.Cost
		}
	}
	return all
}

func callReserved(s *State, _ events.Event, d *events.CallReservedData) string {
	c, fault := s.carried(d.Call, d.Fence)
	if fault != "" {
		return fault
	}
	next := Asking{}
	if c.Asking != nil {
		next = *c.Asking
	}
	switch {
	case d.Step != c.Step || d.Tool != c.Tool:
		return fmt.Sprintf("call %s is %s in step %s", d.Call, c.Tool, c.Step)
	case c.Program == nil:
		return fmt.Sprintf("the program of call %s was given no work", c.ID)
	case d.Request != next.Requests+1:
		return fmt.Sprintf("request %d of call %s does not follow %d", d.Request, c.ID, next.Requests)
	case d.Tokens < 0 || d.Cost < 0:
		return fmt.Sprintf("request %d of call %s sets aside less than nothing", d.Request, c.ID)
	case len(next.Held) >= MaxInner:
		return fmt.Sprintf("more than %d requests of call %s are open", MaxInner, c.ID)
	}
	next.Requests = d.Request
	next.Held = append(next.Held[:len(next.Held):len(next.Held)], HeldRequest{d.Request, d.Tokens, d.Cost})
	c.Asking = &next
	s.setOpen(d.Call, &c)
	return ""
}

func callSettled(s *State, _ events.Event, d *events.CallSettledData) string {
	c, fault := s.carried(d.Call, d.Fence)
	if fault != "" {
		return fault
	}
	if d.InputTokens < 0 || d.OutputTokens < 0 || d.CachedTokens < 0 || d.CachedTokens > d.InputTokens || d.Cost < 0 {
		return fmt.Sprintf("request %d of call %s used less than nothing", d.Request, c.ID)
	}
	next := Asking{}
	var held *HeldRequest
	if c.Asking != nil {
		next.Requests = c.Asking.Requests
		for _, h := range c.Asking.Held {
			if h.Request == d.Request {
				held = &h
			} else {
				next.Held = append(next.Held, h)
			}
		}
	}
	if held == nil {
		return fmt.Sprintf("request %d of call %s is not open", d.Request, c.ID)
	}
	if d.Unknown {
		s.lose(&events.Lost{Requests: 1, Tokens: held.Tokens, Cost: held.Cost})
	} else {
		a := s.Agents[s.agentOf(c.Step)]
		s.spend(a.Model, a.Name, d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
	}
	c.Asking = &next
	s.setOpen(d.Call, &c)
	return ""
}

// agentOf is the agent that a step is assigned to.
func (s *State) agentOf(step string) string {
	if st := s.Step(step); st != nil {
		return st.AssignedAgent
	}
	return ""
}

// forsake counts what is set aside for requests of an attempt that is over: no one knows what they used.
func (s *State) forsake(c *Call) {
	if c.Asking == nil || len(c.Asking.Held) == 0 {
		return
	}
	for _, h := range c.Asking.Held {
		s.lose(&events.Lost{Requests: 1, Tokens: h.Tokens, Cost: h.Cost})
	}
	c.Asking = &Asking{Requests: c.Asking.Requests}
}
