package persister

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/run"
)

// anchor signs the head of a run into its row. The first time that this process writes the row of a run it looks
// whether the log still has what the old row's anchor names: a log that was cut off must not be signed as if it were
// whole, so then the old anchor stays and the row says that the run is held (SAFE-3).
func (r *Role) anchor(ctx context.Context, info *run.Info, s run.State, head uint64) error {
	if r.cfg.Sign == nil {
		return nil
	}
	key, err := r.cfg.Sign(ctx)
	if err != nil {
		return fmt.Errorf("key of anchors: %w", err)
	}
	r.mu.Lock()
	trusted := r.views[s.HarnessID].trusted
	r.mu.Unlock()
	if !trusted || key == nil {
		old, err := r.old(ctx, s.HarnessID)
		if err != nil {
			return err
		}
		if old.Anchor != nil {
			why, err := r.contradicts(ctx, *old.Anchor)
			if err != nil {
				return err
			}
			if why != "" {
				info.Anchor, info.Held = old.Anchor, why
				r.cfg.Log.Error().Str("run", s.HarnessID).Str("why",
					why).Msg("the log does not reach its anchor: look with inspan audit, compare with the archive")
				return nil
			}
		}
		if key == nil { // the log goes on and the last anchor stays good
			info.Anchor = old.Anchor
			return nil
		}
		r.mu.Lock()
		if !s.Status.Ended() {
			r.note(s.HarnessID, func(v *view) { v.trusted = true })
		}
		r.mu.Unlock()
	}
	a := run.AnchorOf(s, head, time.Now(), key)
	info.Anchor = &a
	return nil
}

// old returns the row that a run has now; the zero Info where there is none or it cannot be read.
func (r *Role) old(ctx context.Context, runID string) (info run.Info, err error) {
	b, err := r.cfg.KV.Get(ctx, InfoKey(runID))
	if errors.Is(err, kernel.ErrNotFound) {
		return info, nil
	}
	if err != nil {
		return info, err
	}
	if json.Unmarshal(b, &info) != nil {
		return run.Info{}, nil // a row is a view: a damaged one is made again
	}
	return info, nil
}

// contradicts says how the log differs from an anchor, or "". The position is looked at first, and is only a hint.
func (r *Role) contradicts(ctx context.Context, a run.Anchor) (string, error) {
	if a.Seq > 0 {
		evs, _, err := r.cfg.Journal.Read(ctx, a.Run, a.Seq-1)
		if err != nil {
			return "", err
		}
		if len(evs) > 0 && evs[0].Seq == a.Seq && run.HashOf(evs[0].Bytes) == a.Hash {
			return "", nil
		}
	}
	// A reader may be behind: the leader's last event is read to before anything is said.
	if _, err := r.cfg.Ledger.Fresh(ctx, a.Run); err != nil {
		return "", err
	}
	n, after := uint64(0), uint64(0)
	for {
		evs, more, err := r.cfg.Journal.Read(ctx, a.Run, after)
		if err != nil {
			return "", err
		}
		for _, f := range evs {
			if n, after = n+1, f.Seq; n == a.Sequence {
				if run.HashOf(f.Bytes) == a.Hash {
					return "", nil
				}
				return fmt.Sprintf("event %d is not the one that was anchored: the log was changed", n), nil
			}
		}
		if !more {
			return fmt.Sprintf("the log ends with event %d, its anchor is at event %d: its end was truncated", n, a.Sequence),
				nil
		}
	}
}
