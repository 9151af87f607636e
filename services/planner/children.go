package planner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// childTimer is the timer of a run whose children live: should all that brings word of their ends be lost, it is looked
// at again.
const childTimer = "children"

// Limits of looking after children.
const (
	// minChildLook and maxChildLook bound how long a run with children is not looked at.
	minChildLook, maxChildLook = time.Minute, time.Hour
	// maxTended bounds how often a run that changes meanwhile is looked at for one message.
	maxTended = 64
)

// relatives keeps parents and children up to what the others of them did.
type relatives struct {
	cfg  Config
	role *Role
}

// tend does what is owed between a run and its children: those that are waited for are spawned and begun, those that
// have ended are settled, all others follow the run, and a run that waits for the last of them ends. Whatever is
// missing of that is done by whoever looks next: all of it follows from the two logs.
func (r *relatives) tend(ctx context.Context, parent string) error {
	s, err := r.cfg.Ledger.Fresh(ctx, parent)
	if err != nil {
		return err
	}
	for _, c := range s.Living() {
		if _, _, err := r.cfg.Ledger.State(ctx, c.ID); err != nil {
			return fmt.Errorf("child %s of run %s: %w", c.ID, parent, err)
		}
	}
	return r.tendTo(ctx, parent, func(*run.Child) bool { return true })
}

// at is what was given to a child.
type at struct{ step, call string }

func (p at) is(c *run.Child) bool { return c.Step == p.step && c.Call == p.call }

// tendTo is tend for some of the children, and for those that it spawns: of a thousand, one that ends is no reason to
// look at all the others. What is in memory must have what led here: an event of the parent, or that of a child and the
// parent's of spawning it. It need not have more: a decision on an older state loses its race and is made again.
func (r *relatives) tendTo(ctx context.Context, parent string, some func(*run.Child) bool) error {
	for range maxTended {
		w, err := r.role.write(ctx, parent, func(s run.State, now time.Time) ([]events.Payload, error) {
			if say := child.Next(s, now, r.cfg.Names.Child); len(say) > 0 {
				return say, nil
			}
			return lifecycle.Childless(s, now)
		})
		if err != nil {
			return err
		}
		follows := false
		for _, c := range w.State.Living() {
			if !some(c) && !spawnedBy(w, c) {
				continue
			}
			lives, err := r.tendOne(ctx, w.State, c)
			if err != nil {
				return fmt.Errorf("child %s of run %s: %w", c.ID, parent, err)
			}
			follows = follows || lives
		}
		now, _, err := r.cfg.Ledger.Reach(ctx, parent, w.State.Sequence)
		if follows { // a child that lives must not miss what happened to its parent meanwhile
			now, err = r.cfg.Ledger.Fresh(ctx, parent)
		}
		if err != nil {
			return err
		}
		// Where nothing was to be written, and nothing has been since, nothing is owed.
		quiet := len(w.Events) == 0 && now.Sequence == w.State.Sequence
		if quiet || child.Steady(w.State, now, some) {
			return r.wakeForChildren(ctx, now, some)
		}
	}
	return &kernel.RetryAfter{After: time.Second}
}

// spawnedBy reports whether a write spawned a child.
func spawnedBy(w runlog.Written, c *run.Child) bool {
	said, _ := w.Wrote(events.ChildSpawned)
	d, ok := said.Payload.(*events.ChildSpawnedData)
	return ok && d.Child == c.ID
}

// tendOne does what is owed to one child that lives as far as its parent knows, and reports whether it does.
func (r *relatives) tendOne(ctx context.Context, parent run.State, c *run.Child) (lives bool, err error) {
	s, _, err := r.cfg.Ledger.Reach(ctx, c.ID, 1)
	if err != nil {
		return false, err
	}
	switch {
	case s.Sequence == 0 && c.Moved:
		return false, r.settleChild(ctx, parent.HarnessID, func(p run.State) []events.Payload {
			return child.Missing(p, c, "the run was moved here while this child lived, and the child was not moved along")
		})
	case s.Sequence > 0 && !c.Is(parent.HarnessID, s):
		return false, r.settleChild(ctx, parent.HarnessID, func(p run.State) []events.Payload {
			return child.Missing(p, c, "another run has the id "+c.ID)
		})
	case s.Sequence == 0 || s.Status == events.Created || s.Status == events.Running && s.Plan == nil && s.Planning == nil:
		if s, err = r.bear(ctx, parent, c, s); err != nil {
			return false, err
		}
	}
	w, err := r.role.write(ctx, c.ID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return child.Follow(parent, c, s, now)
	})
	if err != nil {
		return false, err
	}
	if len(w.State.Living()) > 0 && len(w.Events) > 0 {
		if err := r.tend(ctx, c.ID); err != nil {
			return false, err
		}
		if w.State, err = r.cfg.Ledger.Fresh(ctx, c.ID); err != nil {
			return false, err
		}
	}
	if !w.State.Status.Ended() {
		return true, nil
	}
	return false, r.settleChild(ctx, parent.HarnessID, func(p run.State) []events.Payload {
		return child.Settle(p, c, w.State)
	})
}

func (r *relatives) settleChild(ctx context.Context, parent string, decide func(run.State) []events.Payload) error {
	_, err := r.role.write(ctx, parent, func(s run.State, _ time.Time) ([]events.Payload, error) { return decide(s), nil })
	return err
}

// bear begins a child, or goes on with a beginning that somebody did not finish.
func (r *relatives) bear(ctx context.Context, parent run.State, c *run.Child, there run.State) (run.State, error) {
	sum := sha256.Sum256([]byte(parent.HarnessID + "|" + c.ID))
	created, err := child.Born(parent, c, hex.EncodeToString(sum[:]))
	if err != nil {
		return there, err
	}
	var made *events.PlanMadeData
	if created.PlanOrigin == events.OriginSingle {
		made = plan.Single(created.TaskID, created.Task, created.Agent)
	}
	answers, err := r.role.starting(ctx, there, c.ID, created)
	if err != nil {
		return there, err
	}
	created.Direct = r.cfg.Resolve.ChildDirect(created, made, answers)
	if there.Sequence == 0 {
		if err := r.role.parts.Budgets.Fund(ctx, c.ID, created, run.State{}); err != nil {
			return there, err
		}
	}
	w, err := r.role.begin(ctx, c.ID, created, made, answers)
	if err == nil && w.State.Plan == nil && w.State.Status == events.Running {
		w, err = r.role.fromModel(ctx, w.State)
	}
	if err != nil {
		return w.State, err
	}
	return w.State, r.role.remind.setDeadline(ctx, w.State)
}

// wakeForChildren sets the timer of a run of which some children live. The longer they do, the rarer it is looked at.
// Whoever looks after the oldest sets it: when it is due, all are looked at, and it is set again.
func (r *relatives) wakeForChildren(ctx context.Context, s run.State, some func(*run.Child) bool) error {
	living := s.Living()
	if len(living) == 0 || !some(living[0]) || s.Status.Ended() {
		return nil
	}
	now := time.Now().UTC()
	after := min(max(minChildLook, now.Sub(living[0].SpawnedAt)), maxChildLook)
	return r.cfg.Timers.Set(ctx, s.HarnessID, "run."+childTimer, now.Add(after), s.Sequence)
}

// event looks after the family of a run after one of its events, where it has one.
func (r *relatives) event(ctx context.Context, h runlog.ReceivedEvent) error {
	switch h.Kind {
	case events.StepAllowed, events.StepBranched, events.CallDelegated:
		if st := h.State.Step(h.Step); h.Kind == events.StepAllowed && (st == nil || st.Child == "") {
			return nil
		}
		if h.Deliveries > 1 { // whoever had it before may have done half of it
			return r.tend(ctx, h.Run)
		}
		return r.tendTo(ctx, h.Run, at{h.Step, h.Call}.is)
	case events.StepClaimed, events.CheckPassed:
		// One that lives may be a reviewer that was spawned and not begun: whoever did that may have died.
		ofStep := func(c *run.Child) bool { return c.Step == h.Step }
		if !child.Owes(h.State) && !slices.ContainsFunc(h.State.Living(), ofStep) {
			return nil
		}
		return r.tend(ctx, h.Run)
	case events.RunCreated, events.RunCompleted, events.RunFailed, events.RunPruned:
		if h.State.Created == nil {
			return nil
		}
		if h.Kind != events.RunCreated {
			if ours, err := r.role.parts.Schedules.Ended(ctx, h.State); ours || err != nil {
				return err
			}
			if ours, err := r.role.parts.Team.Ended(ctx, h.State); ours || err != nil {
				return err
			}
		}
		of := h.State.Created.ChildOf
		if of == nil || h.Kind == events.RunCreated && h.State.Plan != nil { // born sees to the rest
			return nil
		}
		if s, _, err := r.cfg.Ledger.Reach(ctx, of.Parent, 1); err != nil || !s.Has(h.Run) {
			if _, err = r.cfg.Ledger.Fresh(ctx, of.Parent); err != nil {
				return err
			}
		}
		return r.tendTo(ctx, of.Parent, at{of.Step, of.Call}.is)
	default: // no other event changes what a family owes
		return nil
	}
}

// following lets the plan of a run that was written to go on, and looks after its children: they follow it.
func (r *relatives) following(ctx context.Context, w runlog.Written, err error) error {
	if err == nil {
		w.State, err = r.role.advance(ctx, w.State)
	}
	idle := len(w.State.Living()) == 0 && w.State.Stopping == nil && !child.Owes(w.State)
	if err != nil || idle || w.State.Status.Ended() {
		return err
	}
	return r.tend(ctx, w.State.HarnessID)
}
