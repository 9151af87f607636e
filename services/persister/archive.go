package persister

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// awaitEvents waits for the last events of a run that is known to have ended: the archive is made of what was received,
// and without those events the log must be read for it.
func (r *Role) awaitEvents(ctx context.Context, s run.State) {
	t := time.NewTimer(min(r.cfg.Settle, endSettle))
	defer t.Stop()
	select {
	case <-r.recent.until(s.HarnessID, s.Sequence):
	case <-t.C:
	case <-r.cfg.Ending:
	case <-ctx.Done():
	}
}

// archive stores the whole log of an ended run as JSON lines, by content: a second time changes nothing.
func (r *Role) archive(ctx context.Context, s run.State) (*events.Ref, error) {
	r.awaitEvents(ctx, s)
	evs, whole := r.recent.whole(s)
	for after := uint64(0); !whole; {
		batch, more, err := r.cfg.Journal.Read(ctx, s.HarnessID, after)
		if err != nil {
			return nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
		}
		for _, rec := range batch {
			evs, after = append(evs, rec.Bytes), rec.Seq
		}
		whole = !more
	}
	lines := bytes.Join(append(evs, nil), []byte("\n")) // each line ends with one
	ref, err := r.cfg.Blobs.Put(ctx, "archive", lines)
	if err != nil {
		return nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
	}
	return &ref, nil
}
