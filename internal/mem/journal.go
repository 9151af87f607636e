package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// batch is the most facts that one Read returns.
const batch = 256

// stored is one fact in the log; its position is its index + 1.
type stored struct {
	run   string
	kind  events.Kind
	bytes []byte
	at    time.Time
}

type journal struct {
	s *Station
	// by is the service whose rights the appends have; empty for all.
	by events.Service
}

// Append implements reactor.Journal.
func (j journal) Append(ctx context.Context, e reactor.Entry) reactor.Ack {
	if err := ctx.Err(); err != nil {
		return reactor.Ack{Outcome: reactor.Unknown, Err: context.Cause(ctx)}
	}
	if err := events.CheckID("run", e.Run); err != nil {
		return reactor.Ack{Outcome: reactor.Denied, Err: err}
	}
	if j.by != "" && !slices.Contains(topology.Says(j.by), e.Kind) {
		return reactor.Ack{Outcome: reactor.Denied, Err: fmt.Errorf("%s may not say %s", j.by, e.Kind)}
	}
	if len(e.Bytes) > events.MaxFact {
		return reactor.Ack{Outcome: reactor.TooLarge, Err: fmt.Errorf("%d bytes, the limit is %d", len(e.Bytes), events.MaxFact)}
	}
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.land(e.Run)
	j.s.asked.appends++
	fault := None
	if j.s.faults.Append != nil {
		fault = j.s.faults.Append(j.s.asked.appends, e)
	}
	return j.s.appendWith(fault, e)
}

var errLostOnTheWay = errors.New("no answer: lost on the way")

// appendWith makes an append as a fault has it. Called with mu held.
func (s *Station) appendWith(fault Fault, e reactor.Entry) reactor.Ack {
	switch fault {
	case LostAck:
		s.store(e)
		return reactor.Ack{Outcome: reactor.Unknown, Err: errLostOnTheWay}
	case LostRequest:
		return reactor.Ack{Outcome: reactor.Unknown, Err: errLostOnTheWay}
	case LateRequest:
		e.Bytes = bytes.Clone(e.Bytes)
		s.late = append(s.late, e)
		return reactor.Ack{Outcome: reactor.Unknown, Err: errLostOnTheWay}
	case Busy:
		return reactor.Ack{Outcome: reactor.Transient, Err: errors.New("another append is under way")}
	case LowConflict:
		head := s.head(e.Run)
		return reactor.Ack{Outcome: reactor.Conflict, Seq: head - min(head, 1), Err: errors.New("wrong last sequence")}
	case NoSpace:
		return reactor.Ack{Outcome: reactor.Full, Err: errors.New("maximum bytes exceeded")}
	case NoRight:
		return reactor.Ack{Outcome: reactor.Denied, Err: errors.New("permissions violation")}
	case None:
	}
	return s.store(e)
}

// land stores the late appends of a run, where they still fit. Called with mu held.
func (s *Station) land(run string) {
	s.late = slices.DeleteFunc(s.late, func(e reactor.Entry) bool {
		if e.Run != run {
			return false
		}
		s.store(e)
		return true
	})
}

// store is the compare-and-set. Called with mu held.
func (s *Station) store(e reactor.Entry) reactor.Ack {
	if head := s.head(e.Run); head != e.Head {
		return reactor.Ack{Outcome: reactor.Conflict, Seq: head, Err: fmt.Errorf("last is %d, not %d", head, e.Head)}
	}
	if s.cfg.MaxFacts > 0 && len(s.log) >= s.cfg.MaxFacts {
		return reactor.Ack{Outcome: reactor.Full, Err: errors.New("maximum messages exceeded")}
	}
	b := bytes.Clone(e.Bytes)
	at := s.cfg.Clock.Now()
	s.log = append(s.log, stored{run: e.Run, kind: e.Kind, bytes: b, at: at})
	seq := uint64(len(s.log))
	s.runs[e.Run] = append(s.runs[e.Run], len(s.log)-1)
	s.deliverFact(e, seq, b, at)
	return reactor.Ack{Outcome: reactor.Stored, Seq: seq}
}

// head is the position of a run's last fact, 0 for none. Called with mu held.
func (s *Station) head(run string) uint64 {
	if at := s.runs[run]; len(at) > 0 {
		return uint64(at[len(at)-1]) + 1
	}
	return 0
}

// Read implements reactor.Journal.
func (j journal) Read(ctx context.Context, run string, after uint64) ([]reactor.Record, bool, error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.asked.reads++
	behind := 0
	if j.s.faults.Read != nil {
		var err error
		if behind, err = j.s.faults.Read(j.s.asked.reads, run); err != nil {
			return nil, false, err
		}
	}
	seen := j.s.seen(run, behind)
	from, _ := slices.BinarySearchFunc(seen, after, func(i int, after uint64) int {
		if uint64(i)+1 <= after {
			return -1
		}
		return 1
	})
	to := min(from+batch, len(seen))
	facts := make([]reactor.Record, 0, to-from)
	for _, i := range seen[from:to] {
		facts = append(facts, reactor.Record{Seq: uint64(i) + 1, Kind: j.s.log[i].kind, Bytes: j.s.log[i].bytes})
	}
	return facts, to < len(seen), nil
}

// Last implements reactor.Journal.
func (j journal) Last(ctx context.Context, run string) (reactor.Record, bool, error) {
	if ctx.Err() != nil {
		return reactor.Record{}, false, context.Cause(ctx)
	}
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.s.asked.lasts++
	behind := 0
	if j.s.faults.Last != nil {
		var err error
		if behind, err = j.s.faults.Last(j.s.asked.lasts, run); err != nil {
			return reactor.Record{}, false, err
		}
	}
	seen := j.s.seen(run, behind)
	if len(seen) == 0 {
		return reactor.Record{}, false, nil
	}
	i := seen[len(seen)-1]
	return reactor.Record{Seq: uint64(i) + 1, Kind: j.s.log[i].kind, Bytes: j.s.log[i].bytes}, true, nil
}

// seen returns the facts of a run without the newest few. Called with mu held.
func (s *Station) seen(run string, behind int) []int {
	at := s.runs[run]
	return at[:max(0, len(at)-max(0, behind))]
}

// Log returns all facts of a run as they are, past any fault.
func (s *Station) Log(run string) []reactor.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := make([]reactor.Record, 0, len(s.runs[run]))
	for _, i := range s.runs[run] {
		facts = append(facts, reactor.Record{Seq: uint64(i) + 1, Kind: s.log[i].kind, Bytes: s.log[i].bytes})
	}
	return facts
}

// Runs returns the ids of all runs, sorted.
func (s *Station) Runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.runs))
	for id := range s.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Damage puts other bytes in the place of a stored fact, as nobody could through the ports. It is for tests of those
// who must notice.
func (s *Station) Damage(seq uint64, bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log[seq-1].bytes = slices.Clone(bytes)
}
