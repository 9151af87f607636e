package localstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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
	err := j.s.store.write(ctx, func(tx *sql.Tx) error {
		var last uint64
		err := tx.QueryRow("SELECT seq FROM facts WHERE run = ? ORDER BY seq DESC LIMIT 1", keyOf(e)).Scan(&last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if last != e.Head {
			return errConflict{last}
		}
		put, err = insert(tx, e, nil)
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

// keyOf is what an aggregate is called in the column "run" of the table of events.
func keyOf(e kernel.Entry) string { return kernel.Key(e.Aggregate, e.ID) }

// stored is an event that is in the file.
type stored struct {
	kernel.Entry
	seq uint64
	at  time.Time
}

// insert stores an event, and who has to receive it, behind all others. branch is nil for an event of the station's own
// log.
func insert(tx *sql.Tx, e kernel.Entry, branch *int64) (stored, error) {
	at := time.Now()
	res, err := tx.Exec("INSERT INTO facts(run, kind, at, bytes, branch, whole) VALUES(?, ?, ?, ?, ?, ?)", keyOf(e),
		string(e.Kind), at.UnixNano(), e.Bytes, branch, e.Whole)
	if err != nil {
		return stored{}, err
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return stored{}, err
	}
	for _, role := range topology.Receivers(e.Aggregate, e.Kind) {
		if _, err := tx.Exec("INSERT INTO pending(role, fact) VALUES(?, ?)", string(role), seq); err != nil {
			return stored{}, err
		}
	}
	return stored{Entry: e, seq: uint64(seq), at: at}, nil
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
		Acked: func() { s.store.deferWrite("DELETE FROM pending WHERE fact = ? AND role = ?", f.seq, string(role)) }})
}

// Read implements kernel.Journal.
func (j journal) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	evs, err := j.s.records(ctx, batch+1,
		"SELECT seq, kind, bytes FROM facts WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", kernel.Key(j.aggregate, id),
		after, batch+1)
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
	evs, err := j.s.records(ctx, 1, "SELECT seq, kind, bytes FROM facts WHERE run = ? ORDER BY seq DESC LIMIT 1",
		kernel.Key(j.aggregate, id))
	if err != nil || len(evs) == 0 {
		return kernel.Record{}, false, err
	}
	return evs[0], true, nil
}

func (s *Station) records(ctx context.Context, room int, query string, args ...any) ([]kernel.Record, error) {
	evs := make([]kernel.Record, 0, min(room, 16))
	err := s.store.each(ctx, func(scan func(...any) error) error {
		var r kernel.Record
		if err := scan(&r.Seq, &r.Kind, &r.Bytes); err != nil {
			return err
		}
		evs = append(evs, r)
		return nil
	}, query, args...)
	return evs, err
}

// PublishAt stores the message of an outsider for the role that receives its subject, and returns its position among
// them. It fails where no one receives the subject.
func (s *Station) PublishAt(ctx context.Context, subject string, data []byte,
	header map[string]string) (seq uint64, err error) {
	if _, ok := topology.ReceiverOfInput(s.name, subject); !ok {
		return 0, fmt.Errorf("publish: no role of station %s receives %q", s.name, subject)
	}
	h, err := json.Marshal(header)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	data, at := append([]byte{}, data...), time.Now()
	err = s.store.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec("INSERT INTO inputs(subject, data, header, at) VALUES(?, ?, ?, ?)", subject, data, string(h),
			at.UnixNano())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		seq = uint64(id)
		return err
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
		Acked: func() { s.store.deferWrite("DELETE FROM inputs WHERE seq = ?", seq) }})
	return nil
}
