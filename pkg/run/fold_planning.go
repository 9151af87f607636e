package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Planning is where the request for a plan stands. Shared between states: never written after it was made.
type Planning struct {
	// Try counts the requests from 1; Agents, Fault and Hint are as in the last one.
	Try    int      `json:"try"`
	Agents []string `json:"agents,omitempty"`
	Fault  string   `json:"fault,omitempty"`
	Hint   string   `json:"hint,omitempty"`
	// Owed is the sequence of the request that the model is to be asked for, 0 once it was answered. Only the delivery
	// of that very event acts on it.
	Owed uint64 `json:"owed,omitempty"`
	// Attempt counts the failed attempts of the request that is owed; NotBefore is when the next may be made.
	Attempt   int       `json:"attempt,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Outage is the provider that the request waits for; nil where it waits for none.
	Outage *Outage `json:"outage,omitempty"`
	// Answered is the sequence of the last answer, 0 before the first. Text is that of the model, Error why there is
	// none, and RunReason the finish reason of the run then.
	Answered     uint64      `json:"answered,omitempty"`
	Text         string      `json:"text,omitempty"`
	TextRef      *events.Ref `json:"textRef,omitempty"`
	FinishReason string      `json:"finishReason,omitempty"`
	Error        string      `json:"error,omitempty"`
	RunReason    string      `json:"runFinishReason,omitempty"`
}

// planningRules fold the events about a plan that a model makes.
var planningRules = []rule{
	on(func(s *State, f events.Event, d *events.PlanRequestedData) string {
		return s.planRequested(d, f.Sequence)
	}),
	on(func(s *State, f events.Event, d *events.PlanDeferredData) string {
		next, fault := s.planOwed(d.Try)
		if fault != "" {
			return fault
		}
		next.Attempt, next.NotBefore = d.Attempt, d.NotBefore
		next.Outage = s.failed(next.Outage, d.Outage, d.Class, d.Error, f)
		s.Planning = next
		s.lose(d.Lost)
		return ""
	}),
	on(func(s *State, f events.Event, d *events.PlanAnsweredData) string {
		next, fault := s.planOwed(d.Try)
		if fault != "" {
			return fault
		}
		next.Owed, next.Attempt, next.NotBefore, next.Outage, next.Answered = 0, 0, time.Time{}, nil, f.Sequence
		next.Text, next.TextRef, next.FinishReason, next.Error, next.RunReason = d.Text, d.TextRef, d.FinishReason, d.Error,
			d.RunReason
		s.Planning = next
		s.lose(d.Lost)
		s.spend(d.ModelRef, s.AgentName, d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
		return ""
	}),
}

func (s *State) planRequested(d *events.PlanRequestedData, seq uint64) string {
	next := Planning{}
	if s.Planning != nil {
		next = *s.Planning
	}
	switch {
	case s.Plan != nil:
		return "the run has a plan already"
	case s.Torn():
		return "the state that the run begins with is not whole"
	case s.Status != events.Running && s.Status != events.Paused:
		return fmt.Sprintf("the run is %s", s.Status)
	case next.Owed != 0:
		return "the request before was not answered"
	case d.Try != next.Try+1:
		return fmt.Sprintf("request %d for a plan does not follow %d", d.Try, next.Try)
	}
	next.Try, next.Agents, next.Fault, next.Hint, next.Owed = d.Try, d.Agents, d.Fault, d.Hint, seq
	s.Planning = &next
	return ""
}

// planOwed returns a copy of the request that the model is to be asked for, which must be that one.
func (s *State) planOwed(try int) (next *Planning, fault string) {
	switch {
	case s.Plan != nil:
		return nil, "the run has a plan already"
	case s.Planning == nil || s.Planning.Owed == 0:
		return nil, "no request for a plan is open"
	case s.Planning.Try != try:
		return nil, fmt.Sprintf("it is about request %d for a plan, the open one is %d", try, s.Planning.Try)
	}
	p := *s.Planning
	return &p, ""
}
