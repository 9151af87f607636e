package harness

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// journal is what is recorded of one harness, and the one way to record more.
type journal struct {
	settings
	epoch  int
	ended  bool
	opened json.RawMessage
	steps  []events.HarnessStep
	// under are the effects of the step under way, by number.
	under map[int]effectRecord
}

// effectRecord is an effect and whether its outcome is recorded.
type effectRecord struct {
	events.HarnessEffect
	done bool
}

// load reads all records.
func (j *journal) load(ctx context.Context) error {
	all, err := j.store.Load(ctx, j.id)
	if err != nil {
		return fmt.Errorf("load harness %s: %w", j.id, err)
	}
	j.epoch, j.ended, j.opened, j.steps, j.under = 0, false, nil, nil, map[int]effectRecord{}
	for _, r := range all {
		j.fold(r.Payload)
	}
	return nil
}

func (j *journal) fold(p events.Payload) {
	switch d := p.(type) {
	case *events.HarnessOpenedData:
		j.opened = d.State
	case *events.HarnessAttachedData:
		j.epoch = d.Epoch
	case *events.HarnessBegunData:
		for _, e := range d.Before {
			j.under[e.Number] = effectRecord{e, true}
		}
		j.under[d.Effect.Number] = effectRecord{d.Effect, false}
	case *events.HarnessSettledData:
		j.under[d.Effect.Number] = effectRecord{d.Effect, true}
	case *events.HarnessSteppedData:
		s := d.HarnessStep
		s.Effects = slices.Clone(s.Effects)
		for _, e := range j.under {
			s.Effects = append(s.Effects, e.HarnessEffect)
		}
		sort.Slice(s.Effects, func(i, j int) bool { return s.Effects[i].Number < s.Effects[j].Number })
		j.steps, j.under = append(j.steps, s), map[int]effectRecord{}
	case *events.HarnessEndedData:
		j.ended = true
	}
}

// attach makes this program the one that records, and reads what was recorded up to then. Nothing can be added by
// others afterwards.
func (j *journal) attach(ctx context.Context, initial json.RawMessage) error {
	token := rand.Text()
	for range maxAttach {
		if err := j.load(ctx); err != nil || j.ended {
			return err
		}
		c := Control{Action: events.HarnessAttach, Epoch: j.epoch, Name: j.name, Holder: j.holder, Token: token,
			TakeOver: j.takeOver.String()}
		if j.epoch == 0 {
			c.State = initial
		}
		err := j.record(ctx, c)
		no, refused := errors.AsType[*RefusedError](err)
		switch {
		case err == nil:
			return j.load(ctx)
		case refused && (no.Code == codeReplaced || no.Code == codeEnded):
			continue // another one was faster: look again
		case errors.Is(err, ErrBusy) && j.standby:
			if err := (SystemClock{}).Sleep(ctx, standbyWait); err != nil {
				return err
			}
		default:
			return fmt.Errorf("attach to harness %s: %w", j.id, err)
		}
	}
	return fmt.Errorf("attach to harness %s: %w", j.id, ErrBusy)
}

const (
	// maxAttach bounds how often a program tries to attach: with WithStandby for weeks.
	maxAttach = 1 << 22
	// standbyWait is how often a program on standby looks.
	standbyWait = 500 * time.Millisecond
	// againFirst and againMost are the waits between two tries of a record.
	againFirst = 50 * time.Millisecond
	againMost  = 5 * time.Second
)

// record has the store record something. Where the answer is lost it asks again: a control is recorded once.
func (j *journal) record(ctx context.Context, c Control) error {
	began := time.Now()
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		err := j.store.Record(ctx, j.id, c)
		if _, refused := errors.AsType[*RefusedError](err); err == nil || refused {
			return err
		}
		if _, final := errors.AsType[*finalError](err); final || ctx.Err() != nil || time.Since(began) > j.patience {
			return err
		}
		if err := (SystemClock{}).Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// finalError is one that does not go away by itself.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// last is the number of the last step that is recorded.
func (j *journal) last() int { return len(j.steps) }

// effect returns what is recorded of an effect of a step.
func (j *journal) effect(step, number int) (e effectRecord, ok bool) {
	if step > j.last() {
		e, ok = j.under[number]
		return e, ok
	}
	for _, e := range j.steps[step-1].Effects {
		if e.Number == number {
			return effectRecord{e, true}, true
		}
	}
	return e, false
}

// effects returns how many effects of a step are recorded.
func (j *journal) effects(step int) int {
	if step > j.last() {
		return len(j.under)
	}
	return len(j.steps[step-1].Effects)
}
