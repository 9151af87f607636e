// Package executor is the role that asks models, for turns, summaries and plans: it assembles the prompt, asks the
// model once, and says what the model said.
//
// Promises: a turn is taken by the delivery of the very event that made it owed, so that two deliveries never ask the
// model twice. A request that fails is made again later, with the attempt counted in the log and no worker held.
// Nothing of a run is kept here between two events but what can be made again of its events.
package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Models resolves "provider/name".
type Models interface {
	Model(ref string) (m llm.Model, name string, err error)
}

// Config holds what the role needs.
type Config struct {
	Ledger *runlog.Ledger
	Timers kernel.Timers
	Blobs  kernel.Blobs
	// Live takes what the model says as it comes; nil says nothing.
	Live *streaming.Feed
	// Ends may be nil; it ends model requests of runs that were stopped.
	Ends *runlog.Ends
	// Interrupts may be nil; it ends model requests of runs that a person interrupts.
	Interrupts *Interrupts
	Models     Models
	Tools      *tool.Registry
	// Hooks asks those who are to be asked before a turn; nil lets every hook of an agent block.
	Hooks *hooks.Asker
	// MaxWait is how long a request waits for a provider that does not answer before the run is paused; 0 is without a
	// limit. Timeout bounds one request, 0 bounds none.
	MaxWait, Timeout time.Duration
	// ToolsOf returns the tools of an agent, those of its servers too; nil means Tools for every agent.
	ToolsOf func(events.Agent) *tool.Registry
	// Mail reads the mailbox of an address; nil gives runs no mail.
	Mail func(ctx context.Context, address string) (Mailbox, error)
	// Talks is how many bytes of conversations are cached for the next turns; 0 means DefaultTalks.
	Talks int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Role is the executor.
type Role struct {
	cfg   Config
	known knownHistories
	talks talks
}

var (
	_ runlog.Role  = (*Role)(nil)
	_ runlog.Again = (*Role)(nil)
)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Timers == nil || cfg.Blobs == nil || cfg.Models == nil || cfg.Tools == nil {
		return nil, errors.New("executor needs a ledger, timers, blobs, models and tools")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ToolsOf == nil {
		cfg.ToolsOf = func(events.Agent) *tool.Registry { return cfg.Tools }
	}
	if cfg.Talks <= 0 {
		cfg.Talks = DefaultTalks
	}
	return &Role{cfg: cfg, talks: talks{most: cfg.Talks}}, nil
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Executor }

// Input implements runlog.Role; the executor receives no outsiders.
func (*Role) Input(context.Context, kernel.Message) error { return nil }

// Event implements runlog.Role.
func (r *Role) Event(ctx context.Context, h runlog.ReceivedEvent) error {
	if h.Kind == events.RunResumed || h.Kind == events.RunFunded {
		return r.resume(ctx, h)
	}
	if h.Kind == events.PlanRequested {
		if p := h.State.Planning; p == nil || p.Owed != h.Sequence {
			return nil // it was answered
		}
		return planning{r}.serve(ctx, h.State, lost(h.Deliveries))
	}
	if h.Kind == events.RunCreated {
		if !h.State.Direct() {
			return nil // its first turn comes with step.allowed
		}
		// The first event of a run is folded without a look at those behind it: the run may have been paused, ended, or
		// asked for its turn already.
		s, _, err := r.cfg.Ledger.State(ctx, h.Run)
		if err != nil {
			return err
		}
		h.State, h.Step = s, s.Plan.Steps[0].ID
	}
	st := h.State.Step(h.Step)
	if st == nil || st.Owed != h.Sequence && !st.Final && !turn.Mending(h.State, h.Step) {
		return nil // the turn is not owed yet, or owed to another delivery
	}
	return r.serve(ctx, h.Run, h.Step, h.State, lost(h.Deliveries))
}

// Due implements runlog.Role: a deferred request may be made again.
func (r *Role) Due(ctx context.Context, runID, family, step string, s run.State) error {
	return r.DueAgain(ctx, runID, family, step, s, 1)
}

// DueAgain implements runlog.Again.
func (r *Role) DueAgain(ctx context.Context, runID, _, step string, s run.State, deliveries uint64) error {
	if s.Plan == nil {
		return planning{r}.serve(ctx, s, lost(deliveries))
	}
	return r.serve(ctx, runID, step, s, lost(deliveries))
}

// maxLost bounds how many requests are counted as lost for one turn.
const maxLost = 5

// lost is how many requests may have been made by earlier deliveries of a message.
func lost(deliveries uint64) int {
	if deliveries <= 1 {
		return 0
	}
	return int(min(deliveries-1, maxLost))
}

// resume takes the turns that were owed when the run was paused, side by side, or asks for the plan that was; where the
// run may spend more, those that waited for that.
func (r *Role) resume(ctx context.Context, h runlog.ReceivedEvent) error {
	owed := func(at uint64) bool { return at <= h.Sequence && (h.Kind != events.RunFunded || at == h.Sequence) }
	if p := h.State.Planning; p != nil && owed(p.Owed) {
		return planning{r}.serve(ctx, h.State, lost(h.Deliveries))
	}
	if h.State.Plan == nil {
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, len(h.State.Plan.Steps))
	for i, st := range h.State.Plan.Steps {
		if st.Status != events.StepIsRunning || (st.Owed == 0 || !owed(st.Owed)) && (h.Kind == events.RunFunded ||
			!st.Final && !turn.Mending(h.State, st.ID)) {
			continue
		}
		wg.Go(func() { errs[i] = r.serve(ctx, h.Run, st.ID, h.State, lost(h.Deliveries)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serve does what is owed to one step. Where an answer came too late for the debt it was asked for, what the step is
// owed since then is looked at before the message is let go; a debt that came with another event is that event's. lost
// counts the earlier deliveries, whose requests no one knows of.
func (r *Role) serve(ctx context.Context, runID, step string, s run.State, lost int) error {
	for {
		duty := turn.NextAfter(s, step, r.cfg.Now(), lost)
		switch {
		case len(duty.Append) > 0:
			_, err := r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
				return turn.NextAfter(s, step, now, lost).Append, nil
			})
			return err
		case !duty.Wait.IsZero():
			return r.cfg.Timers.Set(ctx, runID, "turn."+step, duty.Wait, s.Sequence)
		case duty.Ask == nil:
			return nil
		}
		w, given, err := (postman{r}).give(ctx, s, *duty.Ask)
		if err != nil {
			return err
		}
		if given {
			s = w.State // what the turn may use is weighed again
			continue
		}
		w, looked, fits, err := r.compact(ctx, s, *duty.Ask)
		if err == nil && !looked {
			w, err = r.take(ctx, s, *duty.Ask, fits)
		}
		if err == nil && !looked && len(w.Events) > 0 && turn.Mending(w.State, step) {
			s, lost = w.State, 0
			continue
		}
		if err != nil || len(w.Events) > 0 && !looked {
			return err
		}
		if st := w.State.Step(step); st == nil || st.Owed != duty.Ask.Owed && !st.Final {
			return nil
		}
		s = w.State
	}
}

// take asks the model and says what came of it; nothing where the answer came too late. fits is the prompt where it has
// been assembled, else nil.
func (r *Role) take(ctx context.Context, s run.State, task turn.Task, fits *shown) (runlog.Written, error) {
	lives, done := r.cfg.Ends.Context(ctx, s.HarnessID)
	defer done()
	ask, noted := r.cfg.Interrupts.begin(lives, request{run: s.HarnessID, mailed: addressed(s, task)})
	defer noted()
	if w, waits, err := (postman{r}).waits(ctx, s, task); err != nil || waits {
		return w, err
	}
	answers, w, held, err := r.permitted(ctx, ask, s, task)
	if err != nil || held {
		return w, err
	}
	said := r.cfg.Live.Open(s.HarnessID, streaming.About{Step: task.Step.ID, Turn: s.Turns().Len() + 1, Owed: task.Owed,
		Attempt: task.Attempt})
	defer said.Close() // when the answer is stored, or never will be
	var so soFar
	answer, begun, err := r.ask(ask, s, task, fits, said, &so)
	said.Done(err)
	if err != nil && ctx.Err() == nil && lives.Err() == nil && spared(ask) {
		return interruption{r}.record(ctx, s, task, &so, answers, context.Cause(ask))
	}
	answer.Data.Hooks = answers
	if err != nil {
		return r.failed(ctx, ask, s, task, err, begun)
	}
	w, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return turn.Finish(s, task, answer), nil
	})
	r.talks.forget(w.State, task.Step.ID)
	if errors.Is(err, kernel.ErrTooLarge) {
		return r.failed(ctx, ask, s, task, &llm.Error{Class: llm.Invalid, Err: err, Hint: "ask for less at once"}, true)
	}
	return w, err
}

// permitted asks the hooks before a turn and says what follows where one does not let it be taken.
func (r *Role) permitted(ctx, ask context.Context, s run.State, task turn.Task) (answers []events.HookAnswer,
	w runlog.Written, held bool, err error) {
	agent, _ := s.Agent(task.Step.AssignedAgent)
	due := r.cfg.Hooks.Due(agent, events.OnTurn, "")
	if len(due) == 0 || task.Step.Passed {
		return nil, w, false, nil
	}
	answers, err = r.cfg.Hooks.Ask(ask, due, hook.Question{Run: s.HarnessID, Agent: agent.Name, Step: task.Step.ID,
		Turn: task.Number})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(context.Cause(ask), errMailed):
		w.State, err = r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		return nil, w, true, err // the turn stays owed, and is given the mail
	case err != nil && ctx.Err() == nil && ask.Err() != nil:
		return nil, w, true, nil // the run has ended: it has no turns any more
	case err != nil:
		return nil, w, true, err
	}
	if _, held = events.Decisive(answers); !held {
		return answers, w, false, nil
	}
	w, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		say, _ := turn.Held(s, task, answers, now)
		return say, nil
	})
	return answers, w, true, err
}

// failed records a request that was not answered; begun is true where the answer had begun. A request that ended
// because the run did, or this service, is not a failure of the model.
func (r *Role) failed(ctx, ask context.Context, s run.State, task turn.Task, cause error, begun bool) (runlog.Written,
	error) {
	if ctx.Err() != nil {
		return runlog.Written{}, cause
	}
	if ask.Err() != nil {
		return runlog.Written{}, nil // the run has ended: it has no steps any more
	}
	agent, _ := s.Agent(task.Step.AssignedAgent)
	f := r.failure(cause, agent.Model, begun)
	if f.Class == events.ClassTooLong && prompt.Shorter(agent, task.Step) {
		f.Retryable, f.Window = true, prompt.Smaller(s, agent, task.Step)
	}
	w, err := r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return turn.Fail(s, task, f, now), nil
	})
	if err != nil {
		return w, err
	}
	if st := w.State.Step(task.Step.ID); st != nil && !st.NotBefore.IsZero() && !w.State.Suspended(st.Outage) {
		return w, r.cfg.Timers.Set(ctx, s.HarnessID, "turn."+st.ID, st.NotBefore, w.State.Sequence)
	}
	return w, nil
}
