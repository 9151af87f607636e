// Package persister is the role that keeps the views: the index of runs, snapshots, checkpoints, the archive of ended
// runs and the activity log.
//
// Promises: nothing it keeps is the truth; all of it can be made again from the log. A fact is acknowledged only when
// the views that show it are stored. A snapshot that can not be written is logged and the run goes on.
package persister

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Config holds what the role needs.
type Config struct {
	Ledger    *reactor.Ledger
	Journal   reactor.Journal
	Shelf     reactor.Shelf
	Blobs     reactor.Blobs
	Snapshots *snapshot.Store
	// Local takes the snapshots of runs with eternal_engine_enabled: false. Nil keeps none of them.
	Local *snapshot.Store
	Log   zerolog.Logger
	// Settle is how long ordinary facts of a run are gathered before its row is written; 0 means DefaultSettle.
	Settle time.Duration
	// Activity takes a line a person can read for each fact, in the order heard; may be nil.
	Activity func(runID string, seq uint64)
}

// DefaultSettle bounds how old a row of the index may be while nothing of note happens.
const DefaultSettle = time.Second

// Snapshot policy: between checkpoints a snapshot is taken when the log grew by a quarter, and by at least so many
// facts, since the last one; so the work per fact stays flat.
const (
	snapshotAtLeast = 256
	snapshotGrowth  = 4
)

// Role is the persister.
type Role struct {
	cfg Config
	mu  sync.Mutex
	// books under way by run, guarded by mu.
	books map[string]*book
	// covered is the sequence of the last snapshot by run, guarded by mu; a run that ended is removed.
	covered map[string]uint64
}

// book gathers the facts of a run until its views are written; the delivery that opened it writes them.
type book struct {
	urgent     chan struct{}
	hurried    bool
	checkpoint string
	done       chan struct{}
	err        error
}

var _ reactor.Role = (*Role)(nil)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Journal == nil || cfg.Shelf == nil || cfg.Blobs == nil || cfg.Snapshots == nil {
		return nil, errors.New("persister needs a ledger, a journal, a shelf, blobs and snapshots")
	}
	if cfg.Settle <= 0 {
		cfg.Settle = DefaultSettle
	}
	return &Role{cfg: cfg, books: make(map[string]*book), covered: make(map[string]uint64)}, nil
}

// Service implements reactor.Role.
func (*Role) Service() events.Service { return events.Persister }

// Input implements reactor.Role; the persister hears no outsiders.
func (*Role) Input(context.Context, reactor.Message) error { return nil }

// Due implements reactor.Role; the persister sets no timers.
func (*Role) Due(context.Context, string, string, string) error { return nil }

// InfoKey is the key of a run's row in the index.
func InfoKey(runID string) string { return "run." + runID }

// Fact implements reactor.Role: it returns when the views include the fact.
func (r *Role) Fact(ctx context.Context, h reactor.Heard) error {
	if r.cfg.Activity != nil && h.Deliveries == 1 {
		r.cfg.Activity(h.Run, h.Seq)
	}
	b, first := r.open(h)
	if first {
		r.gather(ctx, b)
		r.close(h.Run, b)
		b.err = r.write(ctx, h.Run, b.checkpoint)
		close(b.done)
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open finds the book of a run, or opens it.
func (r *Role) open(h reactor.Heard) (b *book, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b = r.books[h.Run]
	if b == nil {
		b, first = &book{urgent: make(chan struct{}), done: make(chan struct{})}, true
		r.books[h.Run] = b
	}
	if h.Kind == events.StepFinished || h.Kind == events.StepFailed {
		b.checkpoint = "step-" + h.Step
	}
	if urgent(h.Kind) && !b.hurried {
		b.hurried = true
		close(b.urgent)
	}
	return b, first
}

// urgent facts are those that people look for in the index.
func urgent(k events.Kind) bool {
	switch k {
	case events.RunCreated, events.RunPaused, events.RunResumed, events.RunCompleted, events.RunFailed, events.RunAdjusted,
		events.PlanMade, events.GateOpened, events.GateApproved, events.GateRejected, events.StepFinished, events.StepFailed:
		return true
	}
	return false
}

// gather waits for more facts of the run: until the settle time is over or one is urgent.
func (r *Role) gather(ctx context.Context, b *book) {
	t := time.NewTimer(r.cfg.Settle)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.urgent:
	case <-ctx.Done():
	}
}

func (r *Role) close(runID string, b *book) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.books[runID] == b {
		delete(r.books, runID)
	}
}

// write brings the views of a run up to what the ledger knows, which includes all facts of the book.
func (r *Role) write(ctx context.Context, runID, checkpoint string) error {
	s, head, err := r.cfg.Ledger.State(ctx, runID)
	if err != nil {
		return err
	}
	if s.Sequence == 0 {
		return nil
	}
	store := r.cfg.Snapshots
	if !s.Options.EternalEngine {
		store = r.cfg.Local
	}
	if store != nil && r.wantsSnapshot(s, checkpoint) {
		if err := store.Save(ctx, s, head); err != nil {
			r.cfg.Log.Warn().Err(err).Str("run", runID).Msg("snapshot not written, the run goes on")
		} else if checkpoint != "" && s.Options.EternalEngine {
			if s, err = r.checkpoint(ctx, s, checkpoint); err != nil {
				return err
			}
		}
	}
	return r.row(ctx, s)
}

// maxRewrites bounds how often a row is written again because the run moved on meanwhile.
const maxRewrites = 8

// row writes a run's row of the index. Another replica may have written a newer one before: so the log is asked after
// the write, and the row is written again if people would see something else in it.
func (r *Role) row(ctx context.Context, s run.State) (err error) {
	for range maxRewrites {
		info := run.InfoOf(s)
		if s.Status.Ended() {
			if info.Archive, err = r.archive(ctx, s); err != nil {
				return err
			}
		}
		row, err := json.Marshal(info)
		if err != nil {
			return fmt.Errorf("encode row of %s: %w", s.HarnessID, err)
		}
		if err := r.cfg.Shelf.Put(ctx, InfoKey(s.HarnessID), row); err != nil {
			return err
		}
		if s.Status == events.Running && len(s.Waiting()) == 0 {
			return nil // it moves: its next facts bring the next row
		}
		now, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		if err != nil {
			return err
		}
		if now.Status == s.Status && len(now.Waiting()) == len(s.Waiting()) {
			return nil
		}
		s = now
	}
	return nil // it moves faster than it can be written; its next fact brings the next row
}

// wantsSnapshot decides and remembers.
func (r *Role) wantsSnapshot(s run.State, checkpoint string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.covered[s.HarnessID]
	due := s.Sequence-last >= max(snapshotAtLeast, last/snapshotGrowth)
	waits := s.Status == events.Paused || len(s.Waiting()) > 0
	if s.Status.Ended() {
		// Its archive and row are the end; only a long run is worth a snapshot beside them.
		delete(r.covered, s.HarnessID)
		return due
	}
	if checkpoint == "" && !due && !(waits && s.Sequence > last) {
		return false
	}
	r.covered[s.HarnessID] = s.Sequence
	return true
}

// checkpoint says that a state was stored, unless the run has ended or a later state was.
func (r *Role) checkpoint(ctx context.Context, stored run.State, name string) (run.State, error) {
	w, err := r.cfg.Ledger.Write(ctx, stored.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		if s.Status.Ended() || s.CheckpointCovers >= stored.Sequence {
			return nil, nil
		}
		return []events.Payload{&events.CheckpointSavedData{Event: "checkpoint", Name: name, Number: s.CheckpointCount + 1,
			Covered: stored.Sequence, Key: snapshot.Key(stored.HarnessID)}}, nil
	})
	return w.State, err
}

// archive stores the whole log of an ended run as JSON lines, by content: a second time changes nothing.
func (r *Role) archive(ctx context.Context, s run.State) (*events.Ref, error) {
	var lines bytes.Buffer
	after := uint64(0)
	for {
		batch, more, err := r.cfg.Journal.Read(ctx, s.HarnessID, after)
		if err != nil {
			return nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
		}
		for _, rec := range batch {
			lines.Write(rec.Bytes)
			lines.WriteByte('\n')
			after = rec.Seq
		}
		if !more {
			break
		}
	}
	ref, err := r.cfg.Blobs.Put(ctx, "archive", lines.Bytes())
	if err != nil {
		return nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
	}
	return &ref, nil
}
