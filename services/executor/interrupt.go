package executor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Causes of the end of a request.
var (
	// errInterrupted: a person paused its run so that the answer ends.
	errInterrupted = errors.New("a person interrupted the answer")
	// errMailed: mail has come for the agent that may interrupt it.
	errMailed = errors.New("mail interrupted the answer")
)

// spared reports whether somebody ended a request, and left its run to go on.
func spared(ask context.Context) bool {
	cause := context.Cause(ask)
	return errors.Is(cause, errInterrupted) || errors.Is(cause, errMailed)
}

// Interrupts ends requests of runs that a person pauses so that the answer ends, and of agents that mail interrupts. A
// nil Interrupts ends none.
type Interrupts struct {
	mu sync.Mutex
	// open are the requests that this process makes now, guarded by mu.
	open map[*context.CancelCauseFunc]request
}

// request is one that is made of a run. mailed is true where mail may end it: the turn is of the agent with the
// address.
type request struct {
	run    string
	mailed bool
}

// NewInterrupts returns an Interrupts that must be given what is republished.
func NewInterrupts() *Interrupts { return &Interrupts{open: map[*context.CancelCauseFunc]request{}} }

// begin notes a request of a run until done is called.
func (i *Interrupts) begin(ctx context.Context, of request) (ask context.Context, done func()) {
	if i == nil {
		return ctx, func() {}
	}
	ask, end := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open[&end] = of
	return ask, func() {
		i.mu.Lock()
		delete(i.open, &end)
		i.mu.Unlock()
		end(nil)
	}
}

// Republished takes an event of any run as it is stored. A pause that interrupts, and mail that does, end the requests
// of their run which this process makes; one that is missed leaves them to end by themselves. It never waits.
func (i *Interrupts) Republished(runID string, rec kernel.Record) {
	switch rec.Kind {
	case events.RunPaused:
		_, p, err := events.Read(rec.Bytes)
		if err != nil {
			return // its message will be judged
		}
		if d, ok := p.(*events.RunPausedData); ok && d.Interrupt {
			i.end(errInterrupted, func(of request) bool { return of.run == runID })
		}
	case events.MailInterrupted:
		i.end(errMailed, func(of request) bool { return of.run == runID && of.mailed })
	default:
	}
}

// end ends some of the open requests.
func (i *Interrupts) end(cause error, which func(request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for end, of := range i.open {
		if which(of) {
			(*end)(cause)
		}
	}
}

// soFar is what a model has said of an answer, and what it was asked.
type soFar struct {
	text  strings.Builder
	asked llm.Request
	began time.Time
}

// interruption records what came of a request that a person, or mail, ended.
type interruption struct{ *Role }

// record stores what was said of the answer; where that is nothing, the turn stays owed. ctx is not that of the
// request, which has ended.
func (r interruption) record(ctx context.Context, s run.State, task turn.Task, so *soFar, answers []events.HookAnswer,
	cause error) (runlog.Written, error) {
	if strings.TrimSpace(so.text.String()) == "" {
		fresh, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		return runlog.Written{State: fresh}, err
	}
	reason := llm.Finish(events.FinishInterrupted)
	if errors.Is(cause, errMailed) {
		reason = events.FinishMailed
	}
	agent, _ := s.Agent(task.Step.AssignedAgent)
	first, _, _ := strings.Cut(agent.Model, ",")
	provider, _, _ := strings.Cut(strings.TrimSpace(first), "/")
	a, err := r.keep(ctx, llm.Answer{Text: so.text.String(), Finish: reason, Model: so.asked.Model, Provider: provider,
		Usage: llm.Usage{Input: tokensOf(so.asked), Output: prompt.Tokens(so.text.String())}}, task, time.Since(so.began))
	if err != nil {
		return runlog.Written{}, err
	}
	a.Data.Interrupted, a.Data.Estimated, a.Data.Hooks = true, true, answers
	w, err := r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return turn.Finish(s, task, a), nil
	})
	r.talks.forget(w.State, task.Step.ID)
	return w, err
}

// tokensOf estimates what a request is counted as.
func tokensOf(req llm.Request) int {
	n := prompt.Tokens(req.System)
	for _, t := range req.Tools {
		n += prompt.Tokens(t.Name) + prompt.Tokens(t.Description) + prompt.Tokens(string(t.Input))
	}
	for _, m := range req.Messages {
		n += prompt.Tokens(m.Text)
		for _, c := range m.Calls {
			n += prompt.Tokens(c.Name) + prompt.Tokens(string(c.Input))
		}
		for _, res := range m.Results {
			n += prompt.Tokens(res.Output)
		}
	}
	return n
}
