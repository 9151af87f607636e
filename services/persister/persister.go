// Package persister is the role that keeps the views: the index of runs, snapshots, checkpoints, the archive of ended
// runs and the activity log.
//
// Promises: nothing it keeps is the truth; all of it can be made again from the log. An event is acknowledged only when
// the views that show it are stored. A snapshot that cannot be written is logged and the run goes on.
package persister

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Config holds what the role needs.
type Config struct {
	Ledger    *runlog.Ledger
	Journal   kernel.Journal
	KV        kernel.KV
	Blobs     kernel.Blobs
	Snapshots *snapshot.Store
	// Local takes the snapshots of runs with eternal_engine_enabled: false. Nil keeps none of them.
	Local *snapshot.Store
	Log   zerolog.Logger
	// Settle is how long ordinary events of a run are gathered before its row is written; 0 means DefaultSettle.
	Settle time.Duration
	// Recent is how many bytes are kept of the logs of runs that are under way; 0 means DefaultRecent.
	Recent int
	// Ending is closed when the role is asked to end: nothing is gathered any longer, so that a drain need not wait for
	// it. Nil is never closed.
	Ending <-chan struct{}
	// Sign returns the key that signs the head of each run whose row is written. It is asked once the head is known, for
	// each, so that a key that was replaced before an event is stored does not sign that event; nil writes no anchors.
	Sign Signer
	// Archive keeps the logs outside of the station; may be nil.
	Archive Archive
	// Ended notes the end of a run where the next runs of its workflow look for it; may be nil. It may come more than
	// once.
	Ended func(ctx context.Context, s run.State) error
	// Activity takes a line a person can read for each event, in the order received; may be nil.
	Activity func(runID string, seq uint64)
}

// Signer returns the key that signs heads now, or nil where there is none that may.
type Signer func(ctx context.Context) (ed25519.PrivateKey, error)

// SignWith signs with one key for ever.
func SignWith(key ed25519.PrivateKey) Signer {
	return func(context.Context) (ed25519.PrivateKey, error) { return key, nil }
}

// Archive keeps the logs of runs where they outlive the station's store.
type Archive interface {
	// Touch says that a run has new events; they are saved soon.
	Touch(runID string)
	// Save saves all events of a run and returns when they are safe.
	Save(ctx context.Context, runID string) error
}

// A run that ended is remembered for a moment, and at most so many are: the last events may come in more than one book.
const (
	maxFinished  = 1024
	finishedTime = 10 * time.Second
)

// finished tells up to which event the views of a run that ended are stored, and since when.
type finished struct {
	sequence uint64
	at       time.Time
}

// Snapshot policy: between checkpoints a snapshot is taken when the log grew by a quarter, and by at least so many
// events, since the last one; so the work per event stays flat.
const (
	snapshotAtLeast = 256
	snapshotGrowth  = 4
)

// Role is the persister.
type Role struct {
	cfg Config
	mu  sync.Mutex
	// books that are open by run, and those that are being written: one at a time. Both are guarded by mu.
	books, writing map[string]*book
	// gathered counts the events in the open books; guarded by mu.
	gathered int
	// finished are runs of which the last views were stored a moment ago; guarded by mu, and let go when they are many.
	finished map[string]finished
	// views by run, guarded by mu: a run that ended is let go, and others where they are many.
	views  map[string]view
	recent recent
}

// view is what this instance knows of the views of a run. Without it they are read again.
type view struct {
	// covered is the sequence of the last snapshot.
	covered uint64
	// row is what this instance wrote or saw last.
	row shown
	// trusted says that the log reaches the anchor of the old row.
	trusted bool
}

// maxViews bounds Role.views: runs may end at other instances, which is not noticed here.
const maxViews = 1 << 14

// shown is what a row of the index shows: a run up to a sequence, at a revision of its key.
type shown struct{ sequence, revision uint64 }

var _ runlog.Role = (*Role)(nil)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Journal == nil || cfg.KV == nil || cfg.Blobs == nil || cfg.Snapshots == nil {
		return nil, errors.New("persister needs a ledger, a journal, a shelf, blobs and snapshots")
	}
	if cfg.Settle <= 0 {
		cfg.Settle = DefaultSettle
	}
	if cfg.Recent <= 0 {
		cfg.Recent = DefaultRecent
	}
	return &Role{cfg: cfg, recent: recent{most: cfg.Recent}, books: make(map[string]*book),
		writing:  make(map[string]*book),
		finished: make(map[string]finished), views: make(map[string]view)}, nil
}

// note changes what is known of the views of a run; mu is held.
func (r *Role) note(runID string, change func(*view)) {
	v, known := r.views[runID]
	if !known && len(r.views) >= maxViews {
		for id := range r.views { // any
			if delete(r.views, id); len(r.views) < maxViews/8*7 {
				break
			}
		}
	}
	change(&v)
	r.views[runID] = v
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Persister }

// Input implements runlog.Role; the persister receives no outsiders.
func (*Role) Input(context.Context, kernel.Message) error { return nil }

// Due implements runlog.Role; the persister sets no timers.
func (*Role) Due(context.Context, string, string, string, run.State) error { return nil }

// InfoKey is the key of a run's row in the index.
func InfoKey(runID string) string { return "run." + runID }

// Event implements runlog.Role: it returns when the views include the event.
func (r *Role) Event(ctx context.Context, h runlog.ReceivedEvent) error {
	if r.cfg.Activity != nil && h.Deliveries == 1 {
		r.cfg.Activity(h.Run, h.Seq)
	}
	r.recent.add(h)
	b, first := r.open(h)
	if first {
		r.gather(ctx, b)
		r.close(ctx, h.Run, b)
		b.err = r.write(ctx, h.Run, b)
		r.written(h.Run, b)
	}
	if !first {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.err
}

// Republished takes an event of any run as it is stored, before or after it is delivered: what is known of a run when
// it ends need not be read for its archive. It never waits.
func (r *Role) Republished(runID string, rec kernel.Record) { r.recent.republished(runID, rec) }

// finish remembers that the views of a run that ended are stored, with all its events.
func (r *Role) finish(s run.State) {
	if !s.Status.Ended() {
		return
	}
	r.mu.Lock()
	if len(r.finished) >= maxFinished {
		clear(r.finished)
	}
	r.finished[s.HarnessID] = finished{s.Sequence, time.Now()}
	delete(r.views, s.HarnessID)
	r.mu.Unlock()
	r.recent.forget(s.HarnessID)
}

// write brings the views of a run up to what the ledger knows, which includes all events of the book.
func (r *Role) write(ctx context.Context, runID string, b *book) error {
	s, head, err := r.cfg.Ledger.Reach(ctx, runID, b.sequence)
	if err != nil {
		return err
	}
	if s.Sequence < b.sequence {
		return fmt.Errorf("run %s is known up to event %d, and event %d was received", runID, s.Sequence, b.sequence)
	}
	r.mu.Lock()
	known := r.finished[runID]
	r.mu.Unlock()
	if known.sequence >= s.Sequence && time.Since(known.at) < finishedTime {
		return nil
	}
	store := r.cfg.Snapshots
	if !s.Options.EternalEngine {
		store = r.cfg.Local
	}
	if store != nil && r.wantsSnapshot(s, b.checkpoint) {
		if err := store.Save(ctx, s, head); err != nil {
			r.cfg.Log.Warn().Err(err).Str("run", runID).Msg("snapshot not written, the run goes on")
		} else if b.checkpoint != "" && s.Options.EternalEngine {
			if s, head, err = r.checkpoint(ctx, s, b.checkpoint); err != nil {
				return err
			}
		}
	}
	if err := r.row(ctx, s, head); err != nil {
		return err
	}
	if s.Status.Ended() && r.cfg.Ended != nil {
		if err := r.cfg.Ended(ctx, s); err != nil {
			return fmt.Errorf("note the end of run %s: %w", runID, err)
		}
	}
	if err := r.keep(ctx, s); err != nil {
		return err
	}
	r.finish(s)
	return nil
}

// keep hands a run to the archive: at once where it rests, so that what a person waits for is safe, else soon.
func (r *Role) keep(ctx context.Context, s run.State) error {
	if r.cfg.Archive == nil {
		return nil
	}
	if s.Status == events.Running && len(s.Waiting()) == 0 || s.Status == events.Created {
		r.cfg.Archive.Touch(s.HarnessID)
		return nil
	}
	return r.cfg.Archive.Save(ctx, s.HarnessID)
}

// maxSwaps bounds how often a row is tried to be written because another replica wrote it meanwhile.
const maxSwaps = 16

// row brings a run's row of the index up to a state. A row only ever moves on: one that shows as much or more, written
// by another replica, is left as it is, unless the run must be shown as held.
func (r *Role) row(ctx context.Context, s run.State, head uint64) error {
	r.mu.Lock()
	last := r.views[s.HarnessID].row
	r.mu.Unlock()
	if last.sequence >= s.Sequence {
		r.remember(s, last)
		return nil
	}
	info := run.InfoOf(s)
	if err := r.anchor(ctx, &info, s, head); err != nil {
		return err
	}
	held := info.Held != ""
	if s.Status.Ended() {
		var there bool
		var err error
		if last, there, err = r.ended(ctx, s, last, held, &info); err != nil || there {
			return err
		}
	}
	row, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("encode row of %s: %w", s.HarnessID, err)
	}
	for range maxSwaps {
		revision, err := r.cfg.KV.Swap(ctx, InfoKey(s.HarnessID), row, last.revision)
		switch {
		case err == nil:
			r.remember(s, shown{s.Sequence, revision})
			return nil
		case !errors.Is(err, kernel.ErrExists):
			return err
		}
		if last, err = r.reread(ctx, s.HarnessID); err != nil {
			return err
		}
		if last.sequence >= s.Sequence && !held {
			r.remember(s, last)
			return nil
		}
	}
	return fmt.Errorf("row of run %s: others write it all the time", s.HarnessID)
}

// ended adds the archive of a run that has ended. Where the row of all of it is there already, the events are late ones
// and nothing is to be written: to look costs far less than to read a log again that is not here.
func (r *Role) ended(ctx context.Context, s run.State, last shown, held bool, info *run.Info) (now shown, there bool,
	err error) {
	if last == (shown{}) && !held && !r.recent.has(s) {
		if last, err = r.reread(ctx, s.HarnessID); err != nil || last.sequence >= s.Sequence {
			return last, err == nil, err
		}
	}
	info.Archive, info.Report, err = r.archive(ctx, s)
	return last, false, err
}

// reread looks at the row that stands where one could not be written.
func (r *Role) reread(ctx context.Context, runID string) (shown, error) {
	b, revision, err := r.cfg.KV.Load(ctx, InfoKey(runID))
	if errors.Is(err, kernel.ErrNotFound) {
		return shown{}, nil // it was taken away, or the reader is behind
	}
	if err != nil {
		return shown{}, err
	}
	var there run.Info
	if json.Unmarshal(b, &there) != nil {
		return shown{revision: revision}, nil // what cannot be read is written over
	}
	return shown{there.Sequence, revision}, nil
}

// remember keeps what a row shows, until its run has ended.
func (r *Role) remember(s run.State, now shown) {
	if s.Status.Ended() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(s.HarnessID, func(v *view) { v.row = now })
}

// wantsSnapshot decides and remembers. A run on the direct path has none: it is short, and is read from its first
// event.
func (r *Role) wantsSnapshot(s run.State, checkpoint string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.views[s.HarnessID].covered
	due := s.Sequence-last >= max(snapshotAtLeast, last/snapshotGrowth)
	waits := s.Status == events.Paused || len(s.Waiting()) > 0
	if s.Status.Ended() {
		// Its archive and row are the end; only a long run is worth a snapshot beside them.
		return due && !s.Direct()
	}
	if s.Direct() || checkpoint == "" && !due && !(waits && s.Sequence > last) {
		return false
	}
	r.note(s.HarnessID, func(v *view) { v.covered = s.Sequence })
	return true
}

// checkpoint says that a state was stored as a snapshot, unless the run has ended or a later state was. The checkpoint
// itself is the end of the step: it is in the log whether or not this comes (PERS-6).
func (r *Role) checkpoint(ctx context.Context, stored run.State, name string) (run.State, uint64, error) {
	w, err := r.cfg.Ledger.Write(ctx, stored.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		if s.Status.Ended() || s.CheckpointCovers >= stored.Sequence {
			return nil, nil
		}
		number := s.CheckpointCount + 1 // that of a step whose end was written by an earlier version
		if c, ok := s.Checkpoint(name); ok {
			number = c.Number
		}
		return []events.Payload{&events.CheckpointSavedData{Event: "checkpoint", Name: name, Number: number,
			Covered: stored.Sequence, Key: snapshot.Key(stored.HarnessID)}}, nil
	})
	return w.State, w.Head, err
}
