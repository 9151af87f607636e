package localstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Run brings branches home as soon as the primary answers, until ctx ends.
func (f *Fallback) Run(ctx context.Context) error {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = f.Settle(ctx) // what could not be done is done with the next tick
		}
	}
}

// Settle brings home what is here, as far as the primary takes it. It returns nil where nothing is left to do, and what
// stands in the way otherwise.
func (f *Fallback) Settle(ctx context.Context) error {
	open, err := f.local.Branches(ctx, BranchOpen)
	if err != nil {
		return err
	}
	untold, err := f.untold(ctx)
	if err != nil || len(open)+len(untold) == 0 {
		return err
	}
	if err := f.reach(ctx); err != nil {
		return fmt.Errorf("%d branches wait for the station's log: %w: %w", len(open), errAway, err)
	}
	var errs []error
	for _, b := range open {
		errs = append(errs, f.settleRun(ctx, b.Run))
	}
	if untold, err = f.untold(ctx); err != nil {
		return err
	}
	for _, id := range untold {
		errs = append(errs, f.deadLetter(ctx, id))
	}
	return errors.Join(errs...)
}

func (f *Fallback) settleRun(ctx context.Context, run string) error {
	defer f.lock(run)()
	b, err := f.local.openBranch(ctx, run)
	if err != nil || b == nil {
		return err
	}
	return f.settle(ctx, b)
}

// settle brings an open branch home. Each event is marked once the primary has it, so a crash in between leaves a
// shorter rest; one that was stored and not marked is known by its bytes. It returns nil once the branch has ended,
// in either way. The lane of the run is held.
func (f *Fallback) settle(ctx context.Context, b *branch) error {
	if err := f.homeObjects(ctx); err != nil {
		return err
	}
	rest, head, err := f.rest(ctx, b)
	if err != nil {
		return err
	}
	for _, e := range rest {
		e.Head = head
		at, why, err := f.bring(ctx, e.Entry)
		if err != nil {
			return fmt.Errorf("copy run %s to the station: %w", b.run, err)
		}
		if why != "" {
			return f.end(ctx, b, BranchRefused, why)
		}
		if err := f.mark(ctx, e.seq, at); err != nil {
			return err
		}
		head = at
	}
	return f.end(ctx, b, BranchHome, "")
}

// rest returns what is not yet known to be in the primary log, and the position there of the event before it.
func (f *Fallback) rest(ctx context.Context, b *branch) (rest []stored, head uint64, err error) {
	head = b.fork
	err = f.local.store.view(ctx, func(t *tx) error {
		return onBranch(t, b.id, func(seq, home uint64) error {
			if home > 0 {
				head = home
				return nil
			}
			s, _, ok, err := eventAt(t, seq)
			if err == nil && !ok {
				err = fmt.Errorf("%w: event %d is missing", ErrDamaged, seq)
			}
			s.Whole = 0 // what it is in the primary log, the primary works out
			rest = append(rest, s)
			return err
		})
	})
	return rest, head, err
}

// bringTries bounds how often one append is made again because no one knew, or for a reason that passes.
const bringTries = 50

// bring appends one event to the primary log. It returns the position where the event stands now, or the reason why it
// never will; an error means that it may be tried again.
func (f *Fallback) bring(ctx context.Context, e kernel.Entry) (at uint64, why string, err error) {
	for range bringTries {
		ack := f.primary.Journal.Append(ctx, e)
		switch ack.Outcome {
		case kernel.Stored:
			return ack.Seq, "", nil
		case kernel.Conflict, kernel.Unknown:
			if at, why, err = f.standing(ctx, e); at > 0 || why != "" || err != nil {
				return at, why, err
			}
		case kernel.Denied, kernel.TooLarge:
			return 0, fmt.Sprintf("the log does not take %s: %v", e.Kind, ack.Err), nil
		case kernel.Full:
			return 0, "", fmt.Errorf("%w: %w", kernel.ErrFull, ack.Err)
		case kernel.Transient:
		}
		if err = ack.Err; err == nil {
			err = fmt.Errorf("append %s: %s", e.Kind, ack.Outcome)
		}
		if kernel.Sleep(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	return 0, "", err
}

// standing looks what the primary has where an event belongs. All zero means that nothing is there yet.
func (f *Fallback) standing(ctx context.Context, e kernel.Entry) (at uint64, why string, err error) {
	after, _, err := f.primary.Journal.Read(ctx, e.ID, e.Head)
	if err != nil {
		return 0, "", err
	}
	if len(after) > 0 {
		if bytes.Equal(after[0].Bytes, e.Bytes) {
			return after[0].Seq, "", nil
		}
		return 0, fmt.Sprintf("another event stands at position %d of the log, where the branch has its %s", after[0].Seq,
			e.Kind), nil
	}
	last, ok, err := f.primary.Journal.Last(ctx, e.ID)
	if err != nil || e.Head == 0 || ok && last.Seq >= e.Head {
		return 0, "", err
	}
	// A leader that was deposed says so too, for a moment. A log that was put back to an earlier day says so always:
	// then the branch stays here, open and known by its age, until a person decides.
	return 0, "", fmt.Errorf("the log ends at position %d, the branch begins behind %d: the log has lost events, restore it", last.Seq, e.Head)
}

func (f *Fallback) mark(ctx context.Context, seq, home uint64) error {
	return f.local.store.write(context.WithoutCancel(ctx), func(t *tx) error {
		return t.put(homeBucket, number(seq), number(home))
	})
}

// end closes a branch. Nothing of it is delivered any more.
func (f *Fallback) end(ctx context.Context, b *branch, status Status, why string) error {
	var ended Branch
	err := f.local.store.write(context.WithoutCancel(ctx), func(t *tx) error {
		row, err := branchAt(t, b.id)
		if err != nil {
			return err
		}
		row.Status, row.Reason, row.Closed = status, why, time.Now().UnixNano()
		if err := putBranch(t, b.id, row, status == BranchRefused); err != nil {
			return err
		}
		if err := t.remove(openBucket, []byte(b.run)); err != nil {
			return err
		}
		err = onBranch(t, b.id, func(seq, _ uint64) error { return t.removeAll(pendingBucket, number(seq)) })
		if err != nil {
			return err
		}
		ended, err = counted(t, b.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("close the branch of run %s: %w", b.run, err)
	}
	f.setOpen(b.run, false)
	f.notify(Notice{Run: b.run, Status: status, Reason: why, Events: ended.Events, Home: ended.Home})
	return nil
}

// untold returns the refused branches that no dead letter tells of yet.
func (f *Fallback) untold(ctx context.Context) (ids []uint64, err error) {
	err = f.local.store.view(ctx, func(t *tx) error {
		return t.scan(reportBucket, nil, nil, func(key, _ []byte) error {
			id, err := numberAt(key)
			ids = append(ids, id)
			return err
		})
	})
	return ids, err
}

// deadLetter puts a refused branch on the dead-letter list.
func (f *Fallback) deadLetter(ctx context.Context, id uint64) error {
	evs, err := f.local.Evidence(ctx, int64(id))
	if err != nil || len(evs) == 0 {
		return err
	}
	d := kernel.DeadLetter{Time: time.Now().UTC(), Code: "fallback_refused",
		Hint: "the log goes on without these facts; what they did outside was done: compare them with the run, they stay in the local store"}
	var b Branch
	err = f.local.store.view(ctx, func(t *tx) error {
		b, err = counted(t, id)
		return err
	})
	if err != nil {
		return err
	}
	d.Run = b.Run
	first := evs[min(b.Home, len(evs)-1)]
	d.Subject, d.Seq = events.RunEvents(f.local.name, d.Run), localSeq+first.Seq
	d.Reason = fmt.Sprintf("%d of %d facts that were written while the log was away cannot be added to it: %s",
		len(evs)-b.Home, len(evs), b.Reason)
	d.Data, d.DataBytes = string(first.Bytes[:min(len(first.Bytes), maxDead)]), len(first.Bytes)
	if err := f.primary.Refusals.Refuse(ctx, events.Persister, d); err != nil {
		return fmt.Errorf("tell of the branch of run %s: %w", d.Run, err)
	}
	return f.local.store.write(context.WithoutCancel(ctx), func(t *tx) error { return t.remove(reportBucket, number(id)) })
}

// maxDead is how much of a refused event a dead letter shows, in bytes.
const maxDead = 8 << 10

// homeObjects brings the objects home that were put while the primary was away: events refer to them.
func (f *Fallback) homeObjects(ctx context.Context) error {
	f.objects.Lock()
	defer f.objects.Unlock()
	for {
		sum, kind, data, err := f.object(ctx)
		if err != nil {
			return fmt.Errorf("objects of the local store: %w", err)
		}
		if sum == "" {
			return nil
		}
		if _, err := f.primary.Blobs.Put(ctx, kind, data); err != nil {
			return fmt.Errorf("copy object %s to the station: %w", sum, err)
		}
		err = f.local.store.write(ctx, func(t *tx) error { return t.remove(objectsBucket, []byte(sum)) })
		if err != nil {
			return fmt.Errorf("object %s is at the station: %w", sum, err)
		}
	}
}

// object returns one of those that are here, with an empty sum where there is none.
func (f *Fallback) object(ctx context.Context) (sum, kind string, data []byte, err error) {
	err = f.local.store.view(ctx, func(t *tx) error {
		return t.scan(objectsBucket, nil, nil, func(key, value []byte) error {
			var head objectHead
			if data, err = split(value, &head); err != nil {
				return err
			}
			sum, kind = string(key), head.Kind
			return errEnough
		})
	})
	return sum, kind, data, err
}
