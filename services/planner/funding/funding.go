// Package funding is the part of the planner that reserves of the budgets of the station for runs.
//
// Promises: what runs use together stays within each budget that is set for them, a run that there is no room for is
// paused and goes on once there is, and what an ended run did not use is free again. It owns nothing: all it does
// follows from the log of the budgets and those of the runs, so whatever one planner leaves undone another one does.
package funding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Config is where the part has the budgets of the station.
type Config struct {
	// Ledger writes their log, Rows holds the view of it that people read, Timers wakes runs that wait for a budget.
	Ledger *budgets.Ledger
	Rows   kernel.KV
	Timers kernel.Timers
	// Prices of models: with a budget of money every model must have one.
	Prices part.Prices
	// Now is the clock that months are counted by; nil means time.Now.
	Now func() time.Time
}

// Treasurer is the part.
type Treasurer struct {
	Config
	part.Viewed[budgets.State]
	runs part.Runs
	// turn is held while this planner decides on the log of the budgets: two of its decisions at a time would only make
	// each other decide again.
	turn chan struct{}
}

var _ kernel.Role[budgets.State] = (*Treasurer)(nil)

// fullAgain is how soon a task is looked at again where as many runs with budgets live as may.
const fullAgain = 10 * time.Second

// New checks the configuration. Without a ledger the station has no budgets, and all that the part does is to let runs
// go on that come from a station that has.
func New(cfg Config, runs part.Runs) (*Treasurer, error) {
	t := &Treasurer{Config: cfg, runs: runs, turn: make(chan struct{}, 1)}
	if cfg.Ledger == nil {
		return t, nil
	}
	if t.Rows == nil {
		return nil, errors.New("planner needs the log and the row of budgets")
	}
	if t.Now == nil {
		t.Now = time.Now
	}
	t.Viewed = part.NewViewed(budgets.View(), t.Ledger, t.Rows)
	return t, nil
}

// Handlers handle what is received of budgets.
func (t *Treasurer) Handlers() []kernel.Handler {
	if t.Ledger == nil {
		return nil
	}
	return []kernel.Handler{kernel.Handle(t.Ledger, kernel.Role[budgets.State](t))}
}

// Service implements kernel.Role.
func (*Treasurer) Service() events.Service { return events.Planner }

// Event implements kernel.Role. What follows from an event of the budgets is done by whoever appended it, before the
// message that led to it is acknowledged.
func (*Treasurer) Event(context.Context, kernel.Received[budgets.State]) error { return nil }

// Due implements kernel.Role: the timers are those of the runs that wait.
func (*Treasurer) Due(context.Context, kernel.Due[budgets.State]) error { return nil }

// Input implements kernel.Role: a control of a user. Runs that wait are looked at also where the control was carried
// out before: whoever did that may have died in between.
func (t *Treasurer) Input(ctx context.Context, m kernel.Message) error {
	var c events.BudgetControl
	_, err := ce.Read(m.Data(), m.Header, events.BudgetType, &c)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return kernel.Refuse("bad_input",
			`send {"action":"set","scope":"project","of":"NAME","cost_micro_usd":50000000} or {"action":"remove","scope":"project","of":"NAME"}; docs/budgets.md shows what there is`,
			"%v", err)
	}
	c.By = part.OrUnknown(c.By)
	_, err = t.decide(ctx, func(s budgets.State) (budgets.State, error) {
		return budgets.Steer(s, budgets.Wish{BudgetControl: c, Input: m.Seq()}, t.Now().UTC())
	})
	if no, ok := errors.AsType[*budgets.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err == nil {
		err = t.reconcile(ctx)
	}
	if err != nil {
		return err
	}
	return t.wake(ctx)
}

// decide makes one change of the budgets.
func (t *Treasurer) decide(ctx context.Context, change func(budgets.State) (budgets.State, error)) (budgets.State,
	error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return budgets.State{}, context.Cause(ctx)
	}
	return t.Change(ctx, events.BudgetID, change)
}

// Fund reserves for a run that is about to be created, where a budget is set for it. A fork has used what the run had
// that it comes from, which is zero for any other. What was reserved for a run that
// was not created after all is freed by settle. A run that exists gets no hold by this: its task has come once more,
// and it may have ended and been charged. That is looked at after the state of the budgets was read, and the append is
// refused where they have changed since, so no run is settled between the two.
func (t *Treasurer) Fund(ctx context.Context, runID string, c *events.RunCreatedData, from run.State) error {
	if t.Ledger == nil {
		return nil
	}
	s, _, err := t.Ledger.State(ctx, events.BudgetID)
	if err != nil {
		return fmt.Errorf("budgets: %w", err)
	}
	apply := budgets.Applying(s, events.BudgetsOf(c.Project, c.By))
	if len(apply) == 0 {
		return nil
	}
	for _, b := range s.Budgets.Budgets {
		if slices.Contains(apply, b.Name) && b.Cost > 0 && c.ChildOf == nil {
			with := c.Options
			with.Funds = &events.Funds{Cost: &b.Cost}
			if _, err := part.PriceOf(t.Prices, c.Agents, with); err != nil {
				return err
			}
		}
	}
	base := useOf(budget.Alone(from))
	s, err = t.decide(ctx, func(s budgets.State) (budgets.State, error) {
		if _, held := s.Hold(runID); !held {
			if there, err := t.runs.Fresh(ctx, runID); err != nil || there.Sequence > 0 {
				return s, err
			}
		}
		return budgets.Reserve(s, budgets.Ask{Run: runID, Budgets: apply, Child: c.ChildOf != nil, Base: base,
			Used: base}, t.Now().UTC())
	})
	if errors.Is(err, budgets.ErrFull) {
		return &kernel.RetryAfter{After: fullAgain}
	}
	if err != nil {
		return err
	}
	c.Options.Funds = budgets.Funds(s, runID)
	return nil
}

// Unborn frees what was reserved for a run that is not created.
func (t *Treasurer) Unborn(ctx context.Context, runID string) error {
	if t.Ledger == nil {
		return nil
	}
	if there, err := t.runs.Fresh(ctx, runID); err != nil || there.Sequence > 0 {
		return err
	}
	return t.settle(ctx, runID, budget.Amount{})
}

// Look does what is owed to a run whose turn waits for its budgets: more is reserved and the run goes on, or it is
// paused until there is room and returns what it does not need. Each part follows from the two logs, so that it is done
// once, however often it is tried. The pause comes before the refusal: a budget that is raised in between is seen by
// the decision about the refusal, and one that is raised after it finds the run among those that wait.
func (t *Treasurer) Look(ctx context.Context, runID string) error {
	s, err := t.runs.Fresh(ctx, runID)
	switch {
	case err != nil:
		return err
	case s.Status.Ended():
		return t.Ended(ctx, s)
	case s.AwaitsBudget() == nil || s.Options.Funds == nil:
		return nil
	case s.Status != events.Running && !lifecycle.PausedForBudget(s):
		return nil
	case t.Ledger == nil: // it came from a station that has budgets
		return t.grant(ctx, s, &events.Funds{Budgets: s.Options.Funds.Budgets})
	}
	if s.Status == events.Running {
		b, h, err := t.reserve(ctx, s, false)
		if err != nil {
			return err
		}
		if h.Waiting == nil {
			return t.grant(ctx, s, budgets.Funds(b, runID))
		}
		if s, err = t.pause(ctx, s, h.Waiting); err != nil || !lifecycle.PausedForBudget(s) {
			return err
		}
	}
	b, h, err := t.reserve(ctx, s, true)
	if err != nil {
		return err
	}
	if h.Waiting == nil {
		return t.grant(ctx, s, budgets.Funds(b, runID))
	}
	return t.Timers.Set(ctx, runID, "run."+part.BudgetTimer, events.NextMonth(t.Now()), s.Sequence)
}

// reserve asks for what a run needs, and returns the hold that it has then. Where there is no room, a refusal is
// recorded if refuse is true, else nothing is. A run that was settled since s was read has no hold, and gets none.
func (t *Treasurer) reserve(ctx context.Context, s run.State, refuse bool) (b budgets.State, h events.BudgetHold,
	err error) {
	q := budgets.Ask{Run: s.HarnessID, Budgets: s.Options.Funds.Budgets,
		Child: s.Created != nil && s.Created.ChildOf != nil, Used: useOf(budget.Alone(s)), Need: useOf(budget.Need(s)),
		Keep: keptOf(s.Options.Funds)}
	known, lost := false, false
	ask := func(b budgets.State) (budgets.State, error) {
		if _, known = b.Hold(q.Run); !known && !lost {
			h = events.BudgetHold{}
			return b, nil
		}
		next, err := budgets.Reserve(b, q, t.Now().UTC())
		if h, _ = next.Hold(q.Run); h.Waiting != nil && !refuse {
			return b, err
		}
		return next, err
	}
	if b, err = t.decide(ctx, ask); err == nil && !known {
		// Its hold is settled, once it has ended, or it came without one from another station.
		if s, err = t.runs.Fresh(ctx, q.Run); err != nil || s.Status.Ended() {
			return b, h, err
		}
		lost = true
		b, err = t.decide(ctx, ask)
	}
	switch {
	case errors.Is(err, budgets.ErrFull):
		return b, h, &kernel.RetryAfter{After: fullAgain}
	case err != nil || known:
		return b, h, err
	}
	// It has its first hold here, and may have ended before it had one.
	if s, err = t.runs.Fresh(ctx, q.Run); err == nil && s.Status.Ended() {
		err = t.settle(ctx, q.Run, budget.Alone(s))
	}
	return b, h, err
}

// pause pauses a run that a budget has no room for.
func (t *Treasurer) pause(ctx context.Context, s run.State, of *events.BudgetWaiting) (run.State, error) {
	why := fmt.Sprintf("%s has no room: %s; it begins anew at %s, or raise it with inspan budget set", of.By,
		of.Reason, events.NextMonth(t.Now()).Format(time.RFC3339))
	w, err := t.runs.Change(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return lifecycle.Unfunded(s, why), nil
	})
	if err != nil {
		return w.State, err
	}
	return t.runs.Fresh(ctx, s.HarnessID)
}

// keptOf is what a run may use in all.
func keptOf(f *events.Funds) (u events.BudgetUse) {
	if f.Tokens != nil {
		u.Tokens = *f.Tokens
	}
	if f.Cost != nil {
		u.Cost = *f.Cost
	}
	return u
}

// grant gives a run what was reserved for it; nil is nothing, for a run that has ended.
func (t *Treasurer) grant(ctx context.Context, s run.State, f *events.Funds) error {
	if f == nil {
		return nil
	}
	_, err := t.runs.Change(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return lifecycle.Funded(s, *f), nil
	})
	return err
}

// Ended charges what a run that has ended used, and lets those go on that there is room for now.
func (t *Treasurer) Ended(ctx context.Context, s run.State) error {
	if t.Ledger == nil || s.Options.Funds == nil {
		return nil
	}
	if err := t.settle(ctx, s.HarnessID, budget.Alone(s)); err != nil {
		return err
	}
	return t.wake(ctx)
}

func (t *Treasurer) settle(ctx context.Context, runID string, used budget.Amount) error {
	_, err := t.decide(ctx, func(s budgets.State) (budgets.State, error) {
		return budgets.Settle(s, runID, useOf(used), t.Now().UTC()), nil
	})
	return err
}

// wake looks at the runs that wait and that there is room for, those that waited longest first.
func (t *Treasurer) wake(ctx context.Context) error {
	s, err := t.Ledger.Fresh(ctx, events.BudgetID)
	if err != nil {
		return fmt.Errorf("budgets: %w", err)
	}
	for _, h := range budgets.Waiting(s) {
		if !budgets.Fits(s, h, t.Now().UTC()) {
			continue
		}
		if err := t.Look(ctx, h.Run); err != nil {
			return err
		}
		if s, err = t.Ledger.Fresh(ctx, events.BudgetID); err != nil {
			return fmt.Errorf("budgets: %w", err)
		}
	}
	return nil
}

// reconcile settles what is held for runs that have ended or that do not exist. No run needs it: it is for what a
// restored backup or a lost log left behind.
func (t *Treasurer) reconcile(ctx context.Context) error {
	s, err := t.Ledger.Fresh(ctx, events.BudgetID)
	if err != nil {
		return fmt.Errorf("budgets: %w", err)
	}
	for _, h := range s.Holds {
		of, err := t.runs.State(ctx, h.Run)
		switch {
		case errors.Is(err, kernel.ErrHeld):
			continue
		case err != nil:
			return err
		case of.Sequence == 0 && t.Now().Sub(h.Since) > time.Hour, of.Status.Ended():
			if err := t.settle(ctx, h.Run, budget.Alone(of)); err != nil {
				return err
			}
		}
	}
	return nil
}

func useOf(a budget.Amount) events.BudgetUse { return events.BudgetUse{Tokens: a.Tokens, Cost: a.Cost} }
