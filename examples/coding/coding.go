// Package main is a harness that is done when its tickets are: a coder works each off, and a reviewer looks at it. It
// shows two agents in one Execute, and an end of its own.
//
//	go run ./examples/coding
//	go run ./examples/coding -station nats://127.0.0.1:4222 -id coding-1 -agent coder
package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/inspan/inspan/pkg/harness"
)

// CodingState is what is left to do, and what is done.
type CodingState struct {
	TicketsRemaining int      `json:"ticketsRemaining"`
	Completed        []string `json:"completed"`
}

// Ticket is one piece of work.
type Ticket struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// CodeResult is what came of a ticket.
type CodeResult struct {
	Success      bool     `json:"success"`
	FilesChanged []string `json:"filesChanged"`
}

// Agent is an agent of this harness, Execution what Execute gets.
type (
	Agent     = harness.Agent[CodingState, Ticket, CodeResult]
	Execution = harness.Execution[CodingState, Ticket, CodeResult]
	params    = harness.AgentRunParams[CodingState, Ticket, CodeResult]
)

// CodingHarness works off tickets.
type CodingHarness struct {
	harness.BaseHarness[CodingState, Ticket, CodeResult]
	tickets         []Ticket
	coder, reviewer Agent
	// agent is the agent of the station that works the tickets off, in place of coder; may be empty.
	agent string
}

// tickets are those of the example.
func tickets() []Ticket {
	return []Ticket{{"T-1", "Add a login page"}, {"T-2", "Fix the date picker"}, {"T-3", "Write the release notes"}}
}

// config is what the harness begins with.
func config(todo []Ticket) harness.HarnessConfig[CodingState] {
	return harness.HarnessConfig[CodingState]{InitialState: CodingState{TicketsRemaining: len(todo),
		Completed: []string{}}}
}

// IsComplete implements harness.Harness.
func (h *CodingHarness) IsComplete() bool { return h.State().TicketsRemaining == 0 }

// Execute implements harness.Harness.
func (h *CodingHarness) Execute(ctx context.Context, x *Execution) iter.Seq2[harness.StepYield[Ticket, CodeResult],
	error] {
	return func(yield func(harness.StepYield[Ticket, CodeResult], error) bool) {
		for _, ticket := range h.tickets {
			result, err := h.work(ctx, x, ticket)
			if err == nil && !result.Success {
				err = fmt.Errorf("%s is not done: the reviewer refused it", ticket.ID)
			}
			if err == nil {
				x.Update(func(s CodingState) CodingState {
					s.TicketsRemaining--
					s.Completed = append(s.Completed, ticket.ID)
					return s
				})
			}
			if !yield(harness.Pair(ticket, result), err) {
				return
			}
		}
	}
}

// work has one ticket worked off and reviewed.
func (h *CodingHarness) work(ctx context.Context, x *Execution, t Ticket) (CodeResult, error) {
	if h.agent != "" {
		r, err := x.Dispatch(ctx, harness.Task{Agent: h.agent, Task: t.Title})
		return CodeResult{Success: r.Success, FilesChanged: []string{}}, err
	}
	code, err := x.Ask(ctx, h.coder, t, nil)
	if err != nil || !code.Success {
		return code, err
	}
	review, err := x.Ask(ctx, h.reviewer, t, harness.Constraints{"files": code.FilesChanged})
	code.Success = review.Success
	return code, err
}

// coder and reviewer are rules here; in a program of one's own they ask a model.
func coder() Agent {
	return harness.NewAgent(harness.AgentConfig[CodingState, Ticket, CodeResult]{Name: "Coder", Effect: harness.Idempotent,
		Run: func(_ context.Context, p params) (CodeResult, error) {
			return CodeResult{true, []string{strings.ToLower(p.Input.ID) + ".go"}}, nil
		}})
}

func reviewer() Agent {
	return harness.NewAgent(harness.AgentConfig[CodingState, Ticket, CodeResult]{Name: "Reviewer", Effect: harness.Read,
		Run: func(_ context.Context, p params) (CodeResult, error) {
			files, _ := p.Constraints["files"].([]string)
			return CodeResult{Success: len(files) > 0}, nil
		}})
}
