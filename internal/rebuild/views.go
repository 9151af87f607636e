package rebuild

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/core/report"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// row makes the row of a run in the index, with the archive of a run that ended, as the persister does.
func (r *rebuild) row(ctx context.Context, l log, there []byte) ([]byte, error) {
	var old run.Info
	if json.Unmarshal(there, &old) != nil {
		old = run.Info{} // what cannot be read is written over
	}
	if old.Anchor != nil && !r.signed(*old.Anchor, l.run) {
		old.Anchor = nil
	}
	if why := l.lacks(old.Anchor); why != "" {
		return nil, &fault{why}
	}
	s := l.state
	if s.Sequence == 0 {
		return nil, nil
	}
	info := run.InfoOf(s)
	info.Anchor = old.Anchor
	if r.signsAgain(old.Anchor, s) {
		a := run.AnchorOf(s, l.head(), r.cfg.Now(), r.cfg.Sign)
		info.Anchor = &a
	}
	if info.Anchor == nil {
		r.rep.Unsigned++
	}
	if s.Status.Ended() {
		ref, err := r.cfg.Blobs.Put(ctx, "archive", l.lines)
		if err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		r.rep.Archives++
		info.Archive = &ref
		if s.Options.Mode != "" && s.Pruned == nil {
			if info.Report, err = r.report(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(info)
}

// report makes the report of a run that no one watched, as the persister does.
func (r *rebuild) report(ctx context.Context, l log) (*events.Ref, error) {
	text, err := report.Of(bytes.Split(bytes.TrimSuffix(l.lines, []byte("\n")), []byte("\n")))
	if err != nil {
		return nil, err
	}
	ref, err := r.cfg.Blobs.Put(ctx, "output", []byte(text))
	if err != nil {
		return nil, fmt.Errorf("store the report: %w", err)
	}
	return &ref, nil
}

// signsAgain reports whether a head is to be signed: one that no anchor has, or only one of another key.
func (r *rebuild) signsAgain(old *run.Anchor, s run.State) bool {
	if r.cfg.Sign == nil {
		return false
	}
	public := r.cfg.Sign.Public().(ed25519.PublicKey) // an Ed25519 key has no other
	return old == nil || old.Sequence < s.Sequence || old.Key != run.KeyID(public)
}

// anchorKeys reads the public keys that the persisters of the station told it.
func (r *rebuild) anchorKeys(ctx context.Context) error {
	names, err := r.cfg.State.Keys(ctx, audit.KeyPrefix)
	if err != nil {
		return fmt.Errorf("list the keys of anchors: %w", err)
	}
	for _, name := range names {
		b, err := r.cfg.State.Get(ctx, name)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if key, err := audit.ParsePublic(string(b)); err == nil {
			r.keys = append(r.keys, key)
		}
	}
	if r.cfg.Sign != nil {
		r.keys = append(r.keys, r.cfg.Sign.Public().(ed25519.PublicKey)) // an Ed25519 key has no other
	}
	return nil
}

// signed reports whether an anchor is of a run and a key that the station knows made it; where it knows none, every
// anchor counts.
func (r *rebuild) signed(a run.Anchor, id string) bool {
	return a.Run == id && (len(r.keys) == 0 || slices.ContainsFunc(r.keys,
		func(key ed25519.PublicKey) bool { return a.Verify(key) == nil }))
}

// lacks says how the log contradicts an anchor, "" where it does not.
func (l log) lacks(a *run.Anchor) string {
	switch {
	case a == nil || a.Sequence == 0:
		return ""
	case a.Sequence > uint64(len(l.events)):
		return fmt.Sprintf("its log ends with event %d, its anchor is at event %d: the end was cut off", len(l.events),
			a.Sequence)
	case l.events[a.Sequence-1].hash != a.Hash:
		return fmt.Sprintf("event %d is not the one that was anchored: the log was changed", a.Sequence)
	}
	return ""
}

// longRun is from how many events on a run that ended without a checkpoint has a snapshot: a shorter one is read as
// fast without.
const longRun = 256

// snapshot makes the snapshot of a run. One that is the state of the run after an earlier event is right: a snapshot
// need not be the newest. A run on the direct path and one whose snapshots are kept elsewhere has none.
func (r *rebuild) snapshot(ctx context.Context, l log, there []byte) ([]byte, error) {
	if old, head, err := r.snapshots.Unpack(ctx, l.run, there); err == nil && l.had(old, head) {
		return there, nil
	}
	s := l.state
	if s.Sequence == 0 || s.Direct() || !s.Options.EternalEngine || s.Status.Ended() && s.CheckpointCovers == 0 &&
		s.Sequence < longRun {
		return nil, nil
	}
	return r.snapshots.Pack(ctx, s, l.head())
}

// covered is the event that the snapshot of a run covers, 0 where there is none that can be read.
func (r *rebuild) covered(ctx context.Context, id string, views []view) uint64 {
	for _, v := range views {
		if v.key != snapshot.Key(id) {
			continue
		}
		if s, _, err := r.snapshots.Unpack(ctx, id, v.there); err == nil {
			return s.Sequence
		}
	}
	return 0
}

// had reports whether a state is the one that the run had after the event at a position.
func (l log) had(s run.State, head uint64) bool {
	if s.Sequence == 0 || s.Sequence > uint64(len(l.events)) || l.events[s.Sequence-1].seq != head {
		return false
	}
	got, err := run.Codec{}.Encode(s)
	want, wantErr := run.Codec{}.Encode(l.covered)
	return err == nil && wantErr == nil && bytes.Equal(got, want)
}
