package localstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// batch is the most events that one Read returns.
const batch = 256

type journal struct {
	s         *Station
	aggregate string
}

// errConflict ends a write whose guard does not hold.
type errConflict struct{ last uint64 }

func (e errConflict) Error() string { return fmt.Sprintf("the last event is at %d", e.last) }

// refused judges an entry that no journal of an aggregate takes.
func refused(ctx context.Context, aggregate string, e kernel.Entry) (kernel.Ack, bool) {
	if ctx.Err() != nil {
		return kernel.Ack{Outcome: kernel.Unknown, Err: context.Cause(ctx)}, true
	}
	if err := e.Of(aggregate); err != nil {
		return kernel.Ack{Outcome: kernel.Denied, Err: err}, true
	}
	if len(e.Bytes) > events.MaxEvent {
		return kernel.Ack{Outcome: kernel.TooLarge, Err: fmt.Errorf("%d bytes, the limit is %d", len(e.Bytes),
			events.MaxEvent)}, true
	}
	return kernel.Ack{}, false
}

// Append implements kernel.Journal. The event, and who has to receive it, are stored in one transaction.
func (j journal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if ack, no := refused(ctx, j.aggregate, e); no {
		return ack
	}
	e.Aggregate = j.aggregate
	var put stored
	err := j.s.store.write(ctx, func(t *tx) error {
		last, err := t.last(logsBucket, group(keyOf(e)))
		if err != nil {
			return err
		}
		if last != e.Head {
			return errConflict{last}
		}
		put, err = insert(t, e, 0)
		return err
	})
	if err != nil {
		return outcome(err)
	}
	j.s.deliver(put, put.seq)
	return kernel.Ack{Outcome: kernel.Stored, Seq: put.seq}
}

// outcome tells what a failed write means for an append.
func outcome(err error) kernel.Ack {
	if c, ok := errors.AsType[errConflict](err); ok {
		return kernel.Ack{Outcome: kernel.Conflict, Seq: c.last, Err: err}
	}
	if isFull(err) {
		return kernel.Ack{Outcome: kernel.Full, Err: err}
	}
	return kernel.Ack{Outcome: kernel.Unknown, Err: err}
}

// keyOf is what an aggregate is called in the keys of the file.
func keyOf(e kernel.Entry) string { return kernel.Key(e.Aggregate, e.ID) }

// stored is an event that is in the file.
type stored struct {
	kernel.Entry
	seq uint64
	at  time.Time
}

// eventHead is what is stored of an event before its bytes.
type eventHead struct {
	// Key is the kernel.Key of the aggregate.
	Key   string      `json:"key"`
	Kind  events.Kind `json:"kind"`
	At    int64       `json:"at"`
	Whole uint64      `json:"whole,omitempty"`
	// Branch is 0 for an event of the station's own log.
	Branch uint64 `json:"branch,omitempty"`
}

// insert stores an event, and who has to receive it, behind all others. branch is 0 for an event of the station's own
// log.
func insert(t *tx, e kernel.Entry, branch uint64) (stored, error) {
	seq, err := t.next(eventsBucket)
	if err != nil {
		return stored{}, err
	}
	at := time.Now()
	err = putEvent(t, seq, eventHead{Key: keyOf(e), Kind: e.Kind, At: at.UnixNano(), Whole: e.Whole, Branch: branch},
		e.Bytes)
	for _, role := range topology.Receivers(e.Aggregate, e.Kind) {
		if err == nil {
			err = t.put(pendingBucket, append(number(seq), role...), nil)
		}
	}
	return stored{Entry: e, seq: seq, at: at}, err
}

func putEvent(t putter, seq uint64, head eventHead, b []byte) error {
	value, err := join(head, b)
	if err != nil {
		return err
	}
	if err := t.put(eventsBucket, number(seq), value); err != nil {
		return err
	}
	if err := t.put(logsBucket, append(group(head.Key), number(seq)...), nil); err != nil || head.Branch == 0 {
		return err
	}
	return t.put(branchedBucket, append(number(head.Branch), number(seq)...), nil)
}

// eventAt returns an event; ok is false where there is none at that position.
func eventAt(t *tx, seq uint64) (f stored, branch uint64, ok bool, err error) {
	value, err := t.get(eventsBucket, number(seq))
	if err != nil || value == nil {
		return f, 0, false, err
	}
	var head eventHead
	if f.Bytes, err = split(value, &head); err != nil {
		return f, 0, false, err
	}
	f.seq, f.at, f.Kind, f.Whole = seq, time.Unix(0, head.At), head.Kind, head.Whole
	f.Aggregate, f.ID = kernel.ParseKey(head.Key)
	return f, head.Branch, true, nil
}

// deliver puts an event before all roles that hear it and before its watchers; position is what they see as its Seq.
func (s *Station) deliver(f stored, position uint64) {
	b := append([]byte(nil), f.Bytes...)
	for _, role := range topology.Receivers(f.Aggregate, f.Kind) {
		s.push(role, f, position, b)
	}
	if f.Aggregate != events.RunAggregate {
		return
	}
	s.notify(f.ID, false, position, b)
	if f.Kind == events.RunCompleted || f.Kind == events.RunFailed {
		s.ended(f.ID)
	}
}

// push puts an event before one role, which sees it at a position.
func (s *Station) push(role events.Service, f stored, position uint64, b []byte) {
	var header map[string]string
	if f.Whole > 0 {
		header = map[string]string{kernel.WholeHeader: strconv.FormatUint(f.Whole, 10)}
	}
	s.mail.Push(role, queue.Parcel{Subject: events.EventSubject(s.name, f.Aggregate, f.ID, f.Kind), Data: b,
		Header: header,
		Seq:    position, Time: f.at,
		Acked: func() {
			s.store.deferWrite(func(t *tx) error { return t.remove(pendingBucket, append(number(f.seq), role...)) })
		}})
}

// Read implements kernel.Journal.
func (j journal) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	evs, err := j.s.records(ctx, logsBucket, group(kernel.Key(j.aggregate, id)), after, batch+1)
	if err != nil {
		return nil, false, fmt.Errorf("read %s %s after %d: %w", j.aggregate, id, after, err)
	}
	if len(evs) > batch {
		return evs[:batch], true, nil
	}
	return evs, false, nil
}

// Last implements kernel.Journal.
func (j journal) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	return j.s.lastRecord(ctx, logsBucket, group(kernel.Key(j.aggregate, id)))
}

// lastRecord returns the last of the events whose positions stand behind a prefix in a bucket.
func (s *Station) lastRecord(ctx context.Context, in bucket, prefix []byte) (r kernel.Record, ok bool, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		seq, err := t.last(in, prefix)
		if err != nil || seq == 0 {
			return err
		}
		ok = true
		r, err = recordAt(t, seq)
		return err
	})
	return r, ok && err == nil, err
}

// recordAt returns an event that a list of positions names.
func recordAt(t *tx, seq uint64) (kernel.Record, error) {
	f, _, ok, err := eventAt(t, seq)
	if err == nil && !ok {
		err = fmt.Errorf("%w: event %d is missing", ErrDamaged, seq)
	}
	return kernel.Record{Seq: seq, Kind: f.Kind, Bytes: f.Bytes}, err
}

// records returns the events after a position, at most room, whose positions stand behind a prefix in a bucket.
func (s *Station) records(ctx context.Context, in bucket, prefix []byte, after uint64,
	room int) ([]kernel.Record, error) {
	evs := make([]kernel.Record, 0, min(room, 16))
	if after == math.MaxUint64 {
		return evs, nil
	}
	err := s.store.view(ctx, func(t *tx) error {
		return t.scan(in, prefix, slices.Concat(prefix, number(after+1)), func(key, _ []byte) error {
			seq, err := numberAt(key[len(prefix):])
			if err != nil {
				return err
			}
			r, err := recordAt(t, seq)
			if err != nil {
				return err
			}
			if evs = append(evs, r); len(evs) == room {
				return errEnough
			}
			return nil
		})
	})
	return evs, err
}

// inputHead is what is stored of the message of an outsider before its data.
type inputHead struct {
	Subject string            `json:"subject"`
	Header  map[string]string `json:"header,omitempty"`
	At      int64             `json:"at"`
}

func putInput(t putter, seq uint64, head inputHead, data []byte) error {
	value, err := join(head, data)
	if err != nil {
		return err
	}
	return t.put(inputsBucket, number(seq), value)
}

// PublishAt stores the message of an outsider for the role that receives its subject, and returns its position among
// them. It fails where no one receives the subject.
func (s *Station) PublishAt(ctx context.Context, subject string, data []byte,
	header map[string]string) (seq uint64, err error) {
	if _, ok := topology.ReceiverOfInput(s.name, subject); !ok {
		return 0, fmt.Errorf("publish: no role of station %s receives %q", s.name, subject)
	}
	data, at := append([]byte{}, data...), time.Now()
	err = s.store.write(ctx, func(t *tx) error {
		var err error
		if seq, err = t.next(inputsBucket); err != nil {
			return err
		}
		return putInput(t, seq, inputHead{Subject: subject, Header: header, At: at.UnixNano()}, data)
	})
	if err != nil {
		return 0, fmt.Errorf("publish on %s: %w", subject, err)
	}
	return seq, s.pushInput(subject, data, header, seq, at)
}

func (s *Station) pushInput(subject string, data []byte, header map[string]string, seq uint64, at time.Time) error {
	role, ok := topology.ReceiverOfInput(s.name, subject)
	if !ok {
		return fmt.Errorf("publish: no role of station %s receives %q", s.name, subject)
	}
	s.mail.Push(role, queue.Parcel{Subject: subject, Data: data, Header: header, Seq: seq, Time: at,
		Acked: func() { s.store.deferWrite(func(t *tx) error { return t.remove(inputsBucket, number(seq)) }) }})
	return nil
}
