package harness

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Class says what may happen to an effect whose program was lost before its outcome was recorded.
type Class string

// The classes of effects, the strictest last. It is the default.
const (
	// Read changes nothing: it is carried out again.
	Read Class = "read"
	// Idempotent is carried out again with the same key; what it talks to drops the second one by the key.
	Idempotent Class = "idempotent"
	// Reconcilable is asked first whether it happened, with Effect.Verify, and carried out again only if not.
	Reconcilable Class = "reconcilable"
	// Once is never carried out again: Do returns ErrUnknownOutcome, and Execute decides what follows.
	Once Class = "once"
)

// Effect is something that Execute does in the world, or asks of it.
type Effect[T any] struct {
	// Name is of people and of the record; the same name may come any number of times.
	Name string
	// Class is Once where it is empty.
	Class Class
	// Do carries it out. An error means that it did not happen.
	Do func(ctx context.Context, c Call) (T, error)
	// Verify goes with Reconcilable: it reports whether the effect happened, and with what result.
	Verify func(ctx context.Context, c Call) (result T, happened bool, err error)
}

// Call is one effect of one step.
type Call struct {
	// Key is the same each time that this effect is carried out, and no other effect has it.
	Key string
	// Step and Number name the effect. Epoch counts the programs that were attached: what the effect changes may refuse
	// one that is smaller than the last it has seen.
	Step, Number, Epoch int
}

// Do carries out an effect and returns what it returned, in a step that is recorded without carrying it out. Results
// are recorded as JSON, with the step, and of effects of class Reconcilable and Once at once; an error of the effect is
// recorded as its text and comes as an *EffectError.
func Do[T, S, I, O any](ctx context.Context, x *Execution[S, I, O], e Effect[T]) (T, error) {
	var none T
	e.Class = cmp.Or(e.Class, Once)
	if x.err != nil {
		return none, x.err
	}
	if err := e.check(); err != nil {
		return none, x.fail(err)
	}
	x.asked++
	call := x.call(e.Name)
	past, known := x.journal.effect(call.Step, call.Number)
	switch {
	case known && (past.Name != e.Name || past.Class != string(e.Class)):
		return none, x.diverged(fmt.Sprintf("effect %d", call.Number), e.Name+" ("+string(e.Class)+")",
			past.Name+" ("+past.Class+")")
	case known && past.done:
		return outcome[T](call.Step, past.HarnessEffect)
	case !known && x.Replaying():
		return none, x.diverged(fmt.Sprintf("effect %d", call.Number), e.Name, "none")
	case known:
		return resume(ctx, x, e, call)
	}
	record := events.HarnessEffect{Number: call.Number, Name: e.Name, Class: string(e.Class)}
	if e.Class.begins() {
		if err := x.begin(ctx, call.Step, record); err != nil {
			return none, err
		}
	}
	return carryOut(ctx, x, e, call)
}

// begins reports whether the beginning of an effect is recorded before it is carried out.
func (c Class) begins() bool { return c == Once || c == Reconcilable }

func (e Effect[T]) check() error {
	switch {
	case e.Name == "" || len(e.Name) > events.MaxHarnessText:
		return fmt.Errorf("an effect needs a name of at most %d bytes", events.MaxHarnessText)
	case !slices.Contains([]Class{Read, Idempotent, Reconcilable, Once}, e.Class):
		return fmt.Errorf("effect %s: class %q: want read, idempotent, reconcilable or once", e.Name, e.Class)
	case e.Do == nil:
		return fmt.Errorf("effect %s has no Do", e.Name)
	case (e.Class == Reconcilable) != (e.Verify != nil):
		return fmt.Errorf("effect %s: Verify goes with the class reconcilable, which needs one", e.Name)
	}
	return nil
}

// call names the effect that was asked for last.
func (x *Execution[S, I, O]) call(name string) Call {
	c := Call{Step: x.Step(), Number: x.asked, Epoch: x.journal.epoch}
	sum := sha256.Sum256(fmt.Appendf(nil, "harness|%s|%d|%d|%s", x.journal.id, c.Step, c.Number, name))
	c.Key = hex.EncodeToString(sum[:16])
	return c
}

// begin records that an effect is about to begin, with the results of those before it that it may depend on.
func (x *Execution[S, I, O]) begin(ctx context.Context, step int, e events.HarnessEffect) error {
	err := x.journal.record(ctx, Control{Action: events.HarnessBegin, Epoch: x.journal.epoch, StepNumber: step,
		Effect: &e, Before: x.results})
	if err != nil {
		return x.fail(err)
	}
	x.results = nil
	return nil
}

// carryOut carries an effect out and records its outcome. Where Run is ending, that is left open.
func carryOut[T, S, I, O any](ctx context.Context, x *Execution[S, I, O], e Effect[T], call Call) (T, error) {
	result, err := e.Do(ctx, call)
	if err != nil && x.alive() != nil {
		var none T
		return none, x.fail(err)
	}
	return settle(ctx, x, e, call, result, err)
}

// resume goes on with an effect that was begun by a program that was lost.
func resume[T, S, I, O any](ctx context.Context, x *Execution[S, I, O], e Effect[T], call Call) (T, error) {
	var none T
	if e.Class == Once {
		return settle(ctx, x, e, call, none, ErrUnknownOutcome)
	}
	result, happened, err := e.Verify(ctx, call)
	switch {
	case err != nil:
		return none, x.fail(fmt.Errorf("step %d: verify %s: %w", call.Step, e.Name, err))
	case happened:
		return settle(ctx, x, e, call, result, nil)
	}
	return carryOut(ctx, x, e, call)
}

// settle records the outcome of an effect: at once where its beginning is recorded, else with the step.
func settle[T, S, I, O any](ctx context.Context, x *Execution[S, I, O], e Effect[T], call Call, result T,
	failed error) (T, error) {
	var none T
	r := events.HarnessEffect{Number: call.Number, Name: e.Name, Class: string(e.Class)}
	switch {
	case failed == ErrUnknownOutcome: //nolint:errorlint // an effect that wraps it has failed
		r.Unknown = true
	case failed != nil:
		r.Error = clip(cmp.Or(failed.Error(), "it failed"))
	default:
		b, err := json.Marshal(result)
		if err != nil {
			return none, x.fail(fmt.Errorf("step %d: encode the result of %s: %w", call.Step, e.Name, err))
		}
		r.Result = b
	}
	if e.Class.begins() {
		err := x.journal.record(ctx, Control{Action: events.HarnessSettle, Epoch: x.journal.epoch, StepNumber: call.Step,
			Effect: &r})
		if err != nil {
			return none, x.fail(err)
		}
	} else {
		x.results = append(slices.Clip(x.results), r)
	}
	return outcome[T](call.Step, r)
}

// clip bounds the text of an error.
func clip(text string) string { return text[:min(len(text), events.MaxHarnessText)] }

// outcome is what an effect returned, as it is recorded.
func outcome[T any](step int, e events.HarnessEffect) (T, error) {
	var result T
	switch {
	case e.Unknown:
		return result, &UnknownOutcomeError{step, e.Name}
	case e.Error != "":
		return result, &EffectError{step, e.Name, e.Error}
	}
	if err := json.Unmarshal(e.Result, &result); err != nil {
		return result, errors.Join(&EffectError{step, e.Name, "its result cannot be read"}, err)
	}
	return result, nil
}
