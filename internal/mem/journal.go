package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// batch is the most events that one Read returns; it ends with the event that reaches batchBytes.
const (
	batch      = 256
	batchBytes = 4 << 20
)

// stored is one event in the log; its position is its index + 1.
type stored struct {
	// key is kernel.Key of its aggregate: the id of a run.
	key   string
	kind  events.Kind
	bytes []byte
	at    time.Time
	// lost events keep their position only.
	lost bool
}

type journal struct {
	s         *Station
	aggregate string
	// by is the service whose rights the appends have; empty for all.
	by events.Service
}

// Append implements kernel.Journal.
func (j journal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if err := ctx.Err(); err != nil {
		return kernel.Ack{Outcome: kernel.Unknown, Err: context.Cause(ctx)}
	}
	if err := e.Of(j.aggregate); err != nil {
		return kernel.Ack{Outcome: kernel.Denied, Err: err}
	}
	e.Aggregate = j.aggregate
	if j.by != "" && !topology.Publishes(j.by, j.aggregate, e.Kind) {
		return kernel.Ack{Outcome: kernel.Denied, Err: fmt.Errorf("%s may not say %s of %s", j.by, e.Kind, j.aggregate)}
	}
	if len(e.Bytes) > events.MaxEvent {
		return kernel.Ack{Outcome: kernel.TooLarge, Err: fmt.Errorf("%d bytes, the limit is %d", len(e.Bytes),
			events.MaxEvent)}
	}
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.land(keyOf(e))
	j.s.asked.appends++
	fault := None
	if j.s.faults.Append != nil {
		fault = j.s.faults.Append(j.s.asked.appends, e)
	}
	return j.s.appendWith(fault, e)
}

// appendWith makes an append as a fault has it. Called with mu held.
func (s *Station) appendWith(fault Fault, e kernel.Entry) kernel.Ack {
	switch fault {
	case LostAck:
		s.store(e)
		return kernel.Ack{Outcome: kernel.Unknown, Err: errLostOnTheWay}
	case LostRequest:
		return kernel.Ack{Outcome: kernel.Unknown, Err: errLostOnTheWay}
	case LateRequest:
		e.Bytes = bytes.Clone(e.Bytes)
		s.late = append(s.late, e)
		return kernel.Ack{Outcome: kernel.Unknown, Err: errLostOnTheWay}
	case Busy:
		return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("another append is under way")}
	case LowConflict:
		return kernel.Ack{Outcome: kernel.Conflict, Seq: s.before(keyOf(e)), Err: errors.New("wrong last sequence")}
	case NoSpace:
		return kernel.Ack{Outcome: kernel.Full, Err: errors.New("maximum bytes exceeded")}
	case NoRight:
		return kernel.Ack{Outcome: kernel.Denied, Err: errors.New("permissions violation")}
	case None:
	}
	return s.store(e)
}

func keyOf(e kernel.Entry) string { return kernel.Key(e.Aggregate, e.ID) }

// land stores the late appends of an aggregate, where they still fit. Called with mu held.
func (s *Station) land(key string) {
	s.late = slices.DeleteFunc(s.late, func(e kernel.Entry) bool {
		if keyOf(e) != key {
			return false
		}
		s.store(e)
		return true
	})
}

// store is the compare-and-set. Called with mu held.
func (s *Station) store(e kernel.Entry) kernel.Ack {
	if head := s.head(keyOf(e)); head != e.Head {
		return kernel.Ack{Outcome: kernel.Conflict, Seq: head, Err: fmt.Errorf("last is %d, not %d", head, e.Head)}
	}
	if s.cfg.MaxEvents > 0 && len(s.log) >= s.cfg.MaxEvents {
		return kernel.Ack{Outcome: kernel.Full, Err: errors.New("maximum messages exceeded")}
	}
	b := bytes.Clone(e.Bytes)
	at := s.cfg.Clock.Now()
	s.log = append(s.log, stored{key: keyOf(e), kind: e.Kind, bytes: b, at: at})
	seq := uint64(len(s.log))
	s.logs[keyOf(e)] = append(s.logs[keyOf(e)], len(s.log)-1)
	s.deliverEvent(e, seq, b, at)
	return kernel.Ack{Outcome: kernel.Stored, Seq: seq}
}

// head is the position of an aggregate's last event, 0 for none. Called with mu held.
func (s *Station) head(key string) uint64 {
	if at := s.logs[key]; len(at) > 0 {
		return uint64(at[len(at)-1]) + 1
	}
	return 0
}

// before is the position of the aggregate's event before its last one, 0 for none. Called with mu held.
func (s *Station) before(key string) uint64 {
	if at := s.logs[key]; len(at) > 1 {
		return uint64(at[len(at)-2]) + 1
	}
	return 0
}

// Read implements kernel.Journal.
func (j journal) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err := events.CheckID(j.aggregate, id); err != nil {
		return nil, false, err
	}
	key := kernel.Key(j.aggregate, id)
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.asked.reads++
	behind := 0
	if j.s.faults.Read != nil {
		var err error
		if behind, err = j.s.faults.Read(j.s.asked.reads, key); err != nil {
			return nil, false, err
		}
	}
	seen := j.s.seen(key, behind)
	from, _ := slices.BinarySearchFunc(seen, after, func(i int, after uint64) int {
		if uint64(i)+1 <= after {
			return -1
		}
		return 1
	})
	evs := make([]kernel.Record, 0, min(batch, len(seen)-from))
	size := 0
	for _, i := range seen[from:] {
		if len(evs) == batch || size >= batchBytes {
			return evs, true, nil
		}
		evs = append(evs, kernel.Record{Seq: uint64(i) + 1, Kind: j.s.log[i].kind, Bytes: j.s.log[i].bytes})
		size += len(j.s.log[i].bytes)
	}
	return evs, false, nil
}

// Last implements kernel.Journal.
func (j journal) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	if ctx.Err() != nil {
		return kernel.Record{}, false, context.Cause(ctx)
	}
	if err := events.CheckID(j.aggregate, id); err != nil {
		return kernel.Record{}, false, err
	}
	key := kernel.Key(j.aggregate, id)
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.asked.lasts++
	behind := 0
	if j.s.faults.Last != nil {
		var err error
		if behind, err = j.s.faults.Last(j.s.asked.lasts, key); err != nil {
			return kernel.Record{}, false, err
		}
	}
	seen := j.s.seen(key, behind)
	if len(seen) == 0 {
		return kernel.Record{}, false, nil
	}
	i := seen[len(seen)-1]
	return kernel.Record{Seq: uint64(i) + 1, Kind: j.s.log[i].kind, Bytes: j.s.log[i].bytes}, true, nil
}

// seen returns the events of an aggregate without the newest few. Called with mu held.
func (s *Station) seen(key string, behind int) []int {
	at := s.logs[key]
	return at[:max(0, len(at)-max(0, behind))]
}

// Log returns all events of a run, or all events of the aggregate with that kernel.Key, as they are, past any fault.
func (s *Station) Log(key string) []kernel.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	evs := make([]kernel.Record, 0, len(s.logs[key]))
	for _, i := range s.logs[key] {
		evs = append(evs, kernel.Record{Seq: uint64(i) + 1, Kind: s.log[i].kind, Bytes: s.log[i].bytes})
	}
	return evs
}

// Events is how many events were stored.
func (s *Station) Events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

// Runs returns the ids of all runs, sorted.
func (s *Station) Runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.logs))
	for key := range s.logs {
		if aggregate, id := kernel.ParseKey(key); aggregate == events.RunAggregate {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Damage puts other bytes in the place of a stored event, as no one could through the ports. It is for tests of those
// who must notice.
func (s *Station) Damage(seq uint64, bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log[seq-1].bytes = slices.Clone(bytes)
}

// Lose takes an event out of the log, as no one could through the ports: the run has a hole, and the position stays
// empty. Whoever has not received it will not.
func (s *Station) Lose(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.log[seq-1].key
	s.logs[key] = slices.DeleteFunc(s.logs[key], func(i int) bool { return uint64(i)+1 == seq })
	s.log[seq-1].lost = true
}
