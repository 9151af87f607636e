package localstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Status of a branch.
type Status string

// The statuses of a branch.
const (
	// BranchOpen may grow, and is not yet in the primary log.
	BranchOpen Status = "open"
	// BranchHome has all its events in the primary log.
	BranchHome Status = "home"
	// BranchRefused: another event stands in the primary log where its next one should. The rest is evidence only.
	BranchRefused Status = "refused"
)

// Branch is a piece of a run's log that was written while the primary was away.
type Branch struct {
	ID     int64     `json:"id"`
	Run    string    `json:"run"`
	Status Status    `json:"status"`
	Reason string    `json:"reason,omitempty"`
	Opened time.Time `json:"opened"`
	// Fork is the position in the primary log of the event before it.
	Fork uint64 `json:"fork"`
	// Events on it, and those of them that are in the primary log.
	Events int `json:"facts"`
	Home   int `json:"home"`
}

// branch is an open one.
type branch struct {
	id   uint64
	run  string
	fork uint64
}

// branchRow is what is stored of a branch.
type branchRow struct {
	Run    string `json:"run"`
	Fork   uint64 `json:"fork,omitempty"`
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`
	Opened int64  `json:"opened"`
	Closed int64  `json:"closed,omitempty"`
}

// putBranch stores a branch, and notes what is still to be done about it. unreported is whether a dead letter must
// follow.
func putBranch(t putter, id uint64, row branchRow, unreported bool) error {
	value, err := json.Marshal(row)
	if err != nil {
		return err
	}
	if err := t.put(branchesBucket, number(id), value); err != nil {
		return err
	}
	if row.Status == BranchOpen {
		return t.put(openBucket, []byte(row.Run), number(id))
	}
	if unreported {
		return t.put(reportBucket, number(id), nil)
	}
	return nil
}

// branchAt returns a branch.
func branchAt(t *tx, id uint64) (row branchRow, err error) {
	value, err := t.get(branchesBucket, number(id))
	if err != nil {
		return row, err
	}
	if err := json.Unmarshal(value, &row); err != nil {
		return row, fmt.Errorf("%w: branch %d: %w", ErrDamaged, id, err)
	}
	return row, nil
}

// onBranch calls f with the position of each event of a branch, and with that in the primary log, 0 where it is not
// there, in order.
func onBranch(t *tx, id uint64, f func(seq, home uint64) error) error {
	return t.scan(branchedBucket, number(id), nil, func(key, _ []byte) error {
		seq, err := numberAt(key[8:])
		if err != nil {
			return err
		}
		home, err := homeAt(t, seq)
		if err != nil {
			return err
		}
		return f(seq, home)
	})
}

// homeAt returns the position of an event in the primary log, 0 where it is not known to be there.
func homeAt(t *tx, seq uint64) (uint64, error) {
	at, err := t.get(homeBucket, number(seq))
	if err != nil || at == nil {
		return 0, err
	}
	return numberAt(at)
}

// counted returns a branch for people.
func counted(t *tx, id uint64) (Branch, error) {
	row, err := branchAt(t, id)
	if err != nil {
		return Branch{}, err
	}
	b := Branch{ID: int64(id), Run: row.Run, Status: row.Status, Reason: row.Reason,
		Opened: time.Unix(0, row.Opened).UTC(), Fork: row.Fork}
	err = onBranch(t, id, func(_, home uint64) error {
		b.Events++
		if home > 0 {
			b.Home++
		}
		return nil
	})
	return b, err
}

// Branches lists those of a status, oldest first; an empty status means all.
func (s *Station) Branches(ctx context.Context, status Status) ([]Branch, error) {
	var all []Branch
	err := s.store.view(ctx, func(t *tx) error {
		ids, err := branchIDs(t, status)
		for _, id := range ids {
			b, err := counted(t, id)
			if err != nil {
				return err
			}
			if status == "" || b.Status == status {
				all = append(all, b)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("branches of the local store: %w", err)
	}
	return all, nil
}

// branchIDs returns the numbers of the branches that may have a status, in order.
func branchIDs(t *tx, status Status) (ids []uint64, err error) {
	take := func(b []byte) error {
		id, err := numberAt(b)
		ids = append(ids, id)
		return err
	}
	if status == BranchOpen { // which is asked for often
		err = t.scan(openBucket, nil, nil, func(_, id []byte) error { return take(id) })
		slices.Sort(ids)
		return ids, err
	}
	err = t.scan(branchesBucket, nil, nil, func(id, _ []byte) error { return take(id) })
	return ids, err
}

// Evidence returns the events of a branch, in order.
func (s *Station) Evidence(ctx context.Context, id int64) ([]kernel.Record, error) {
	return s.records(ctx, branchedBucket, number(uint64(id)), 0, math.MaxInt)
}

func (s *Station) openBranch(ctx context.Context, run string) (b *branch, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		value, err := t.get(openBucket, []byte(run))
		if err != nil || value == nil {
			return err
		}
		id, err := numberAt(value)
		if err != nil {
			return err
		}
		row, err := branchAt(t, id)
		b = &branch{id: id, run: run, fork: row.Fork}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("branch of run %s: %w", run, err)
	}
	return b, nil
}

// readBranch returns the events of a branch after its fork or a local position.
func (s *Station) readBranch(ctx context.Context, b *branch, after uint64) ([]kernel.Record, bool, error) {
	if isLocal(after) {
		after -= localSeq
	} else {
		after = 0
	}
	evs, err := s.records(ctx, branchedBucket, number(b.id), after, batch+1)
	if err != nil {
		return nil, false, fmt.Errorf("read the branch of run %s: %w", b.run, err)
	}
	for i := range evs {
		evs[i].Seq += localSeq
	}
	if len(evs) > batch {
		return evs[:batch], true, nil
	}
	return evs, false, nil
}

func (s *Station) lastOf(ctx context.Context, b *branch) (kernel.Record, bool, error) {
	r, ok, err := s.lastRecord(ctx, branchedBucket, number(b.id))
	if err != nil || !ok {
		return kernel.Record{}, false, err
	}
	r.Seq += localSeq
	return r, true, nil
}

// fork begins a branch with an event that the primary did not confirm, and warns behind it. The event comes first: the
// primary may have it already, and then has it at this very place.
func (f *Fallback) fork(e kernel.Entry, why error) kernel.Ack {
	said := []kernel.Entry{e}
	if e.Kind != events.RunCompleted && e.Kind != events.RunFailed { // after which nothing is said
		warning, err := warn(e, why)
		if err != nil {
			return kernel.Ack{Outcome: kernel.Denied, Err: err}
		}
		said = append(said, warning)
	}
	var put []stored
	f.setOpen(e.ID, true)
	err := f.local.store.write(context.Background(), func(t *tx) error {
		put = nil
		id, err := t.next(branchesBucket)
		if err != nil {
			return err
		}
		row := branchRow{Run: e.ID, Fork: e.Head, Status: BranchOpen, Reason: why.Error(), Opened: time.Now().UnixNano()}
		if err := putBranch(t, id, row, false); err != nil {
			return err
		}
		for _, s := range said {
			one, err := insert(t, s, id)
			if err != nil {
				return err
			}
			put = append(put, one)
		}
		return nil
	})
	if err != nil {
		return outcome(err)
	}
	for _, p := range put {
		f.local.deliver(p, localSeq+p.seq)
	}
	f.notify(Notice{Run: e.ID, Status: BranchOpen, Events: len(put), Reason: why.Error()})
	return kernel.Ack{Outcome: kernel.Stored, Seq: localSeq + put[0].seq}
}

func (f *Fallback) notify(n Notice) {
	if f.primary.Notify != nil {
		f.primary.Notify(n)
	}
}

// maxReason bounds what a warning says of the reason, in bytes.
const maxReason = 1 << 10

// warn makes the event that follows e: that the local store keeps the run. It is the persister's word, which is a role
// of this process.
func warn(e kernel.Entry, why error) (kernel.Entry, error) {
	before, err := events.Decode(e.Bytes)
	if err != nil {
		return kernel.Entry{}, err
	}
	word, _ := events.Lookup(events.CheckpointFallback)
	reason := why.Error()
	data, err := json.Marshal(&events.CheckpointFallbackData{Event: word.Event, Store: "local", Since: before.Sequence,
		Reason: reason[:min(len(reason), maxReason)]})
	if err != nil {
		return kernel.Entry{}, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	at := time.Now().UTC().Round(0)
	if at.Before(before.Time) {
		at = before.Time
	}
	next := events.Event{SpecVersion: "1.0", ID: fmt.Sprintf("%x", id), Source: events.Source(before.Station, word.Author),
		Type:    events.CheckpointFallback.Type(),
		Subject: before.Subject, Time: at, ContentType: "application/json", Identity: before.Identity,
		Sequence: before.Sequence + 1, PrevHash: run.HashOf(e.Bytes), Data: data}
	b, err := next.Encode()
	return kernel.Entry{Aggregate: e.Aggregate, ID: e.ID, Kind: events.CheckpointFallback, Bytes: b}, err
}

// extend puts an event behind the last one of a branch.
func (f *Fallback) extend(e kernel.Entry, b *branch) kernel.Ack {
	var put stored
	err := f.local.store.write(context.Background(), func(t *tx) error {
		last, err := t.last(branchedBucket, number(b.id))
		if err != nil {
			return err
		}
		if last += localSeq; last != e.Head {
			return errConflict{last}
		}
		put, err = insert(t, e, b.id)
		return err
	})
	if err != nil {
		return outcome(err)
	}
	f.local.deliver(put, localSeq+put.seq)
	return kernel.Ack{Outcome: kernel.Stored, Seq: localSeq + put.seq}
}
