package persister

import (
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of what is kept of runs that are under way.
const (
	// recentBytes bounds all of it. Where it is full, the run whose event does not fit is let go and its log is read;
	// what is there of the others stays, because to read a log costs far more than to have received it. recentBegin bounds
	// what there may be when another run begins: those that have begun need the rest.
	recentBytes = 16 << 20
	recentBegin = recentBytes / 4 * 3
	// recentQuiet is how long no event came of a run that is let go where there is no room for others: it ends at
	// another instance, or not soon.
	recentQuiet = time.Minute
	// recentFrom is how late the first event that is received of a run may be: handlers overtake each other.
	recentFrom = 8
)

// recent keeps the stored events of runs that are under way as they were received, so that the log of a run that ends
// need not be read for its archive. It is only a cache: whole tells by the hashes whether it has the log that a state
// was folded from.
type recent struct {
	mu sync.Mutex
	// events by run, in place of their sequence less 1, and how many bytes they are; both are guarded by mu.
	events map[string]seenRun
	bytes  int
}

// seenRun is what was received of a run, how many of the events before the last are missing, and when the last one
// came.
type seenRun struct {
	events  [][]byte
	missing int
	at      time.Time
	// came, where it is not nil, is closed when all events up to want are there, or when the run is let go.
	came chan struct{}
	want uint64
}

func (s seenRun) whole(sequence uint64) bool {
	return s.missing == 0 && uint64(len(s.events)) >= sequence
}

// add takes an event that was delivered. A run that waits is let go: it may wait for long.
func (r *recent) add(h runlog.ReceivedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.State.Status == events.Paused || len(h.State.Waiting()) > 0 {
		r.drop(h.Run)
		return
	}
	if _, known := r.events[h.Run]; !known && h.State.Status.Ended() {
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
	kept, known := r.events[runID]
	if known || rec.Kind == events.RunCreated {
		r.put(runID, uint64(len(kept.events))+1, rec.Bytes)
	}
}

// put keeps the event of a sequence; mu is held.
func (r *recent) put(runID string, sequence uint64, stored []byte) {
	kept, known := r.events[runID]
	kept.at = time.Now()
	if !known && sequence > recentFrom || sequence == 0 || len(stored) == 0 {
		return
	}
	if !known && r.bytes > recentBegin {
		for id, other := range r.events {
			if kept.at.Sub(other.at) > recentQuiet {
				r.drop(id)
			}
		}
		if r.bytes > recentBegin {
			return
		}
	}
	if r.bytes+len(stored) > recentBytes {
		r.drop(runID)
		return
	}
	if r.events == nil {
		r.events = map[string]seenRun{}
	}
	for uint64(len(kept.events)) < sequence {
		kept.events = append(kept.events, nil)
		kept.missing++
	}
	if kept.events[sequence-1] == nil {
		kept.events[sequence-1] = stored
		kept.missing--
		r.bytes += len(stored)
	}
	if kept.came != nil && kept.whole(kept.want) {
		close(kept.came)
		kept.came = nil
	}
	r.events[runID] = kept
}

// until returns a channel that is closed when all events of a run up to one are here, or where they will not be.
func (r *recent) until(runID string, sequence uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, known := r.events[runID]
	if known && kept.came != nil {
		kept.want = max(kept.want, sequence)
		r.events[runID] = kept
		return kept.came
	}
	came := make(chan struct{})
	if !known || kept.whole(sequence) {
		close(came)
		return came
	}
	kept.came, kept.want = came, sequence
	r.events[runID] = kept
	return came
}

// drop lets a run go; mu is held.
func (r *recent) drop(runID string) {
	kept := r.events[runID]
	for _, b := range kept.events {
		r.bytes -= len(b)
	}
	if kept.came != nil {
		close(kept.came)
	}
	delete(r.events, runID)
}

func (r *recent) forget(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(runID)
}

// whole returns all events of a run up to a state. ok is false where it does not have them all.
func (r *recent) whole(s run.State) (evs [][]byte, ok bool) {
	r.mu.Lock()
	evs = slices.Clone(r.events[s.HarnessID].events)
	r.mu.Unlock()
	if s.Sequence == 0 || uint64(len(evs)) != s.Sequence {
		return nil, false
	}
	hash := ""
	for _, b := range evs {
		about, err := events.AboutOf(b)
		if b == nil || err != nil || about.Prev != hash {
			return nil, false
		}
		hash = run.HashOf(b)
	}
	if hash != s.Hash {
		return nil, false
	}
	return evs, true
}
