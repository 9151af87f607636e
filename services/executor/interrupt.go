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

// errInterrupted ends a request because a person paused its run so that the answer ends.
var errInterrupted = errors.New("a person interrupted the answer")

// Interrupts ends requests of runs that a person pauses so that the answer ends. A nil Interrupts ends none.
type Interrupts struct {
	mu sync.Mutex
	// open are the requests that this process makes now, each with its run, guarded by mu.
	open map[*context.CancelCauseFunc]string
}

// NewInterrupts returns an Interrupts that must be given what is republished.
func NewInterrupts() *Interrupts { return &Interrupts{open: map[*context.CancelCauseFunc]string{}} }

// begin notes a request of a run until done is called.
func (i *Interrupts) begin(ctx context.Context, runID string) (ask context.Context, done func()) {
	if i == nil {
		return ctx, func() {}
	}
	ask, end := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open[&end] = runID
	return ask, func() {
		i.mu.Lock()
		delete(i.open, &end)
		i.mu.Unlock()
		end(nil)
	}
}

// Republished takes an event of any run as it is stored. A pause that interrupts ends the requests of its run which this
// process makes; one that is missed leaves them to end by themselves. It never waits.
func (i *Interrupts) Republished(runID string, rec kernel.Record) {
	if rec.Kind != events.RunPaused {
		return
	}
	_, p, err := events.Read(rec.Bytes)
	if err != nil {
		return // its message will be judged
	}
	d, ok := p.(*events.RunPausedData)
	if !ok || !d.Interrupt {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for end, of := range i.open {
		if of == runID {
			(*end)(errInterrupted)
		}
	}
}

// soFar is what a model has said of an answer, and what it was asked.
type soFar struct {
	text  strings.Builder
	asked llm.Request
	began time.Time
}

// interruption records what came of a request that a person ended.
type interruption struct{ *Role }

// record stores what was said of the answer; where that is nothing, the turn stays owed. ctx is not that of the request,
// which has ended.
func (r interruption) record(ctx context.Context, s run.State, task turn.Task, so *soFar,
	answers []events.HookAnswer) (runlog.Written, error) {
	if strings.TrimSpace(so.text.String()) == "" {
		fresh, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		return runlog.Written{State: fresh}, err
	}
	agent, _ := s.Agent(task.Step.AssignedAgent)
	first, _, _ := strings.Cut(agent.Model, ",")
	provider, _, _ := strings.Cut(strings.TrimSpace(first), "/")
	a, err := r.keep(ctx, llm.Answer{Text: so.text.String(), Finish: events.FinishInterrupted, Model: so.asked.Model, Provider: provider,
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
