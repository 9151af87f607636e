package harness

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/inspan/inspan/pkg/events"
)

// Run runs a harness until its Execute ends or it is complete. With a store that outlives the program it goes on after
// the last recorded step; of a harness that was completed before it returns at once, with its steps and its state.
//
// An error leaves the harness as it is recorded: Run again goes on. ErrReplaced and ErrBusy mean that another program
// has it, a *DivergedError that Execute is not what recorded the steps, and the cause of ctx that ctx ended.
func Run[S, I, O any](ctx context.Context, h Harness[S, I, O], cfg HarnessConfig[S], options ...Option) error {
	j := &journal{}
	for _, set := range options {
		set(&j.settings)
	}
	if err := j.fill(kindOf(h)); err != nil {
		return err
	}
	state, err := NewPersistentState[S, I, O](cfg)
	if err != nil {
		return err
	}
	if err := j.attach(ctx, state.encoded()); err != nil {
		return err
	}
	if err := state.set(j.opened); err != nil {
		return err
	}
	h.base().begin(state)
	x := &Execution[S, I, O]{journal: j, state: state, before: state.encoded(), alive: ctx.Err}
	if j.afresh || j.ended {
		if err := x.skip(); err != nil || j.ended {
			return err
		}
	}
	return x.run(ctx, h)
}

// kindOf is the name of the type of a harness.
func kindOf(h any) string {
	t := reflect.TypeOf(h)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

func (x *Execution[S, I, O]) run(ctx context.Context, h Harness[S, I, O]) error {
	reason := ""
	if x.state.len() == 0 || !h.IsComplete() {
		for y, err := range h.Execute(ctx, x) {
			switch {
			case x.err != nil:
				err = x.err
			case err == nil:
				err = x.yielded(ctx, y)
			}
			if err != nil {
				return x.ended(err)
			}
			if h.IsComplete() {
				reason = "complete"
				break
			}
		}
	}
	switch {
	case x.err != nil:
		return x.ended(x.err)
	case ctx.Err() != nil:
		return x.ended(context.Cause(ctx))
	case x.Replaying():
		return x.ended(x.diverged("the number of steps", strconv.Itoa(x.state.len()), strconv.Itoa(x.journal.last())))
	}
	err := x.journal.record(ctx, Control{Action: events.HarnessEnd, Epoch: x.journal.epoch, Steps: x.state.len(),
		Reason: reason})
	if err != nil {
		return x.ended(err)
	}
	return nil
}

// ended is the error that Run ends with.
func (x *Execution[S, I, O]) ended(err error) error {
	if _, diverged := errors.AsType[*DivergedError](err); diverged {
		return err
	}
	return fmt.Errorf("harness %s, step %d: %w", x.journal.id, x.Step(), err)
}
