package persister

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

// DefaultSettle bounds how old a row of the index may be while nothing of note happens.
const DefaultSettle = time.Second

// urgentSettle bounds how long events that people look for are gathered: what is said at once comes at once.
// It is longer by urgentMore for each other run whose events are gathered: to show all of them at once would take the
// disk from the log, and no one looks that fast at many.
const (
	urgentSettle = 25 * time.Millisecond
	urgentMore   = 16 * time.Millisecond
	// urgentFew runs may change at a time for the state after a step to be stored at once; of more it is urgent.
	urgentFew = 8
)

// gatherMost bounds how many events are gathered at a time, of all runs together: each holds a worker of the role, and
// some must be left for what comes next. Where there are as many, the rows of the runs that have the most are written.
const gatherMost = 896

// endSettle bounds how long the last events of a run are waited for that is known to have ended.
const endSettle = 250 * time.Millisecond

// book gathers the events of a run until its views are written; the delivery that opened it writes them.
type book struct {
	// soon is closed with an event that people look for or the end of a step, now where too much is gathered, and with the
	// end of a step, whose state is stored, where few runs change.
	soon, now          chan struct{}
	hurried, immediate bool
	checkpoint         string
	// sequence of the newest event in it, and how many there are.
	sequence uint64
	count    int
	done     chan struct{}
	err      error
}

// open finds the book of a run, or opens it.
func (r *Role) open(h runlog.ReceivedEvent) (b *book, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b = r.books[h.Run]
	if b == nil {
		b, first = &book{soon: make(chan struct{}), now: make(chan struct{}), done: make(chan struct{})}, true
		r.books[h.Run] = b
	}
	b.sequence = max(b.sequence, h.Sequence)
	b.count++
	if r.gathered++; r.gathered >= gatherMost {
		for _, open := range r.books {
			if open.count*len(r.books) >= r.gathered { // the others have few
				open.write()
			}
		}
	}
	name := checkpointOf(h)
	if name != "" {
		if b.checkpoint = name; len(r.books) <= urgentFew {
			b.write()
		}
	}
	if (name != "" || urgent(h.Kind)) && !b.hurried {
		b.hurried = true
		close(b.soon)
	}
	return b, first
}

// write ends the gathering of a book; the role's mu is held.
func (b *book) write() {
	if !b.immediate {
		b.immediate = true
		close(b.now)
	}
}

// checkpointOf is the name of the checkpoint that an event is, "" for one that is none.
func checkpointOf(h runlog.ReceivedEvent) string {
	switch h.Kind {
	case events.StepFinished, events.StepFailed:
		return events.StepCheckpoint(h.Step)
	case events.CheckpointTaken:
		if _, p, err := events.Read(h.Stored); err == nil {
			if d, ok := p.(*events.CheckpointTakenData); ok {
				return d.Name
			}
		}
	default: // no other event is one
	}
	return ""
}

// urgent events are those that change what people look for in the index.
func urgent(k events.Kind) bool {
	w, _ := events.Lookup(k)
	return w.Shown&events.InIndex != 0
}

// gather waits for more events of the run: until the settle time is over, or a moment behind one that is urgent or the
// end of a step.
func (r *Role) gather(ctx context.Context, b *book) {
	t := time.NewTimer(r.cfg.Settle)
	defer t.Stop()
	for soon := b.soon; ; {
		select {
		case <-soon:
			soon = nil
			r.mu.Lock()
			others := len(r.books) - 1
			r.mu.Unlock()
			t.Reset(min(r.cfg.Settle, urgentSettle+time.Duration(others)*urgentMore))
		case <-t.C:
			return
		case <-b.now:
			return
		case <-r.cfg.Ending:
			return
		case <-ctx.Done():
			return
		}
	}
}

// close ends a book. While the one before it is being written it goes on to gather: what that one shows need not be
// shown again.
func (r *Role) close(ctx context.Context, runID string, b *book) {
	for {
		r.mu.Lock()
		before := r.writing[runID]
		if before == nil || ctx.Err() != nil {
			delete(r.books, runID)
			r.gathered -= b.count
			r.writing[runID] = b
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
}

func (r *Role) written(runID string, b *book) {
	r.mu.Lock()
	if r.writing[runID] == b {
		delete(r.writing, runID)
	}
	r.mu.Unlock()
	close(b.done)
}
