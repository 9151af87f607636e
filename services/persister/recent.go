package persister

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of what is kept of runs that are under way.
const (
	// DefaultRecent bounds all of it in bytes, as it is kept. Where it is full, the run whose event does not fit is let go
	// and its log is read; what is there of the others stays, because to read a log costs far more than to have received
	// it.
	DefaultRecent = 16 << 20
	// recentQuiet is how long no event came of a run that is let go where there is no room for others: it ends at
	// another instance, or not soon.
	recentQuiet = time.Minute
	// recentFrom is how late the first event that is received of a run may be: handlers overtake each other.
	recentFrom = 8
	// recentPack is how many bytes of events without a gap are compressed together: a few turns, of which much is said in
	// each event again.
	recentPack = 64 << 10
)

// recent keeps the stored events of runs that are under way as they were received, so that the log of a run that ends
// need not be read for its archive. It is only a cache: whole tells by the hashes whether it has the log that a state
// was folded from.
type recent struct {
	// most is how many bytes may be kept.
	most int
	mu   sync.Mutex
	// runs by id, and how many bytes is kept of them; both are guarded by mu.
	runs  map[string]seenRun
	bytes int
}

// seenRun is what was received of a run, and when the last event came.
type seenRun struct {
	// packed are the first events, as lines, in parts that are compressed, and how many there are.
	packed [][]byte
	count  int
	// events are those behind them, of loose bytes; missing counts the ones that have not come.
	events         [][]byte
	loose, missing int
	// size is how many bytes are kept.
	size int
	at   time.Time
	// came, where it is not nil, is closed when all events up to want are there, or when the run is let go.
	came chan struct{}
	want uint64
}

// last is the sequence of the last event that has come.
func (s *seenRun) last() uint64 { return uint64(s.count + len(s.events)) } //nolint:gosec // counts of things in memory

func (s *seenRun) whole(sequence uint64) bool { return s.missing == 0 && s.last() >= sequence }

// pack compresses the events that are not.
func (s *seenRun) pack() {
	lines := make([]byte, 0, s.loose+len(s.events))
	for _, e := range s.events {
		lines = append(append(lines, e...), '\n')
	}
	part := bytes.Clone(s2.Encode(nil, lines))
	s.packed, s.count = append(s.packed, part), s.count+len(s.events)
	s.size += len(part) - s.loose
	s.events, s.loose = nil, 0
}

// lines are all events, each with a line break behind it; nil where some are missing.
func (s *seenRun) lines() []byte {
	if s.missing > 0 {
		return nil
	}
	size := s.loose + len(s.events)
	for _, part := range s.packed {
		n, err := s2.DecodedLen(part)
		if err != nil {
			return nil
		}
		size += n
	}
	lines := make([]byte, 0, size)
	for _, part := range s.packed {
		// A block is written from the start of what it is given, which has room for it.
		plain, err := s2.Decode(lines[len(lines):cap(lines)], part)
		if err != nil {
			return nil
		}
		lines = lines[:len(lines)+len(plain)]
	}
	for _, e := range s.events {
		lines = append(append(lines, e...), '\n')
	}
	return lines
}

// add takes an event that was delivered. A run that waits is let go: it may wait for long.
func (r *recent) add(h runlog.ReceivedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.State.Status == events.Paused || len(h.State.Waiting()) > 0 {
		r.drop(h.Run)
		return
	}
	if _, known := r.runs[h.Run]; !known && h.State.Status.Ended() {
		return // it is archived, or the log is read for it
	}
	if h.Sequence <= h.State.Sequence {
		r.put(h.Run, h.Sequence, h.Stored)
	}
}

// republished takes an event that was republished, as the next one of its run. Where one was missed the events after it
// are in the wrong places, which whole finds out.
func (r *recent) republished(runID string, rec kernel.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, known := r.runs[runID]
	if known || rec.Kind == events.RunCreated {
		r.put(runID, kept.last()+1, rec.Bytes)
	}
}

// put keeps the event of a sequence; mu is held.
func (r *recent) put(runID string, sequence uint64, stored []byte) {
	kept, known := r.runs[runID]
	kept.at = time.Now()
	if !known && sequence > recentFrom || sequence <= uint64(kept.count) || len(stored) == 0 { //nolint:gosec // a count
		return
	}
	begin := r.most / 4 * 3 // what there may be when another run begins: those that have begun need the rest
	if !known && r.bytes > begin {
		for id, other := range r.runs {
			if kept.at.Sub(other.at) > recentQuiet {
				r.drop(id)
			}
		}
		if r.bytes > begin {
			return
		}
	}
	if r.bytes+len(stored) > r.most {
		r.drop(runID)
		return
	}
	if r.runs == nil {
		r.runs = map[string]seenRun{}
	}
	for kept.last() < sequence {
		kept.events = append(kept.events, nil)
		kept.missing++
	}
	before := kept.size
	if at := sequence - 1 - uint64(kept.count); kept.events[at] == nil { //nolint:gosec // a count
		kept.events[at] = stored
		kept.missing--
		kept.loose += len(stored)
		kept.size += len(stored)
	}
	if kept.came != nil && kept.whole(kept.want) {
		close(kept.came)
		kept.came = nil
	}
	if kept.missing == 0 && kept.loose >= recentPack {
		kept.pack()
	}
	r.bytes += kept.size - before
	r.runs[runID] = kept
}

// until returns a channel that is closed when all events of a run up to one are here, or where they will not be.
func (r *recent) until(runID string, sequence uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, known := r.runs[runID]
	if known && kept.came != nil {
		kept.want = max(kept.want, sequence)
		r.runs[runID] = kept
		return kept.came
	}
	came := make(chan struct{})
	if !known || kept.whole(sequence) {
		close(came)
		return came
	}
	kept.came, kept.want = came, sequence
	r.runs[runID] = kept
	return came
}

// drop lets a run go; mu is held.
func (r *recent) drop(runID string) {
	kept := r.runs[runID]
	r.bytes -= kept.size
	if kept.came != nil {
		close(kept.came)
	}
	delete(r.runs, runID)
}

func (r *recent) forget(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(runID)
}

// has reports whether all events of a run up to a state are here, by their number.
func (r *recent) has(s run.State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.runs[s.HarnessID]
	return kept.whole(s.Sequence)
}

// whole returns all events of a run up to a state, each with a line break behind it. ok is false where it does not have
// them all.
func (r *recent) whole(s run.State) (lines []byte, ok bool) {
	r.mu.Lock()
	kept := r.runs[s.HarnessID]
	kept.events = slices.Clone(kept.events)
	r.mu.Unlock()
	if s.Sequence == 0 || kept.last() != s.Sequence {
		return nil, false
	}
	lines, hash := kept.lines(), ""
	for e := range bytes.Lines(lines) {
		e = e[:len(e)-1]
		about, err := events.AboutOf(e)
		if err != nil || about.Prev != hash {
			return nil, false
		}
		hash = run.HashOf(e)
	}
	return lines, hash == s.Hash
}
