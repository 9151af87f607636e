package persister

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/report"
	"github.com/inspan/inspan/internal/kernel"
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

// archive stores the whole log of an ended run as JSON lines, by content: a second time changes nothing. Of a run that
// no one watched it stores a report, too.
func (r *Role) archive(ctx context.Context, s run.State) (archive, summary *events.Ref, err error) {
	r.awaitEvents(ctx, s)
	lines, whole := r.recent.whole(s)
	if !whole {
		if lines, err = read(ctx, r.cfg.Journal, s.HarnessID); err != nil {
			return nil, nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
		}
	}
	ref, err := r.cfg.Blobs.Put(ctx, "archive", lines)
	if err == nil && s.Options.Mode != "" && s.Pruned == nil {
		summary, err = r.report(ctx, bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("archive run %s: %w", s.HarnessID, err)
	}
	return &ref, summary, nil
}

// read returns all events that the log has of a run, each with a line break behind it.
func read(ctx context.Context, j kernel.Journal, runID string) (lines []byte, err error) {
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		if batch, more, err = j.Read(ctx, runID, after); err != nil {
			return nil, err
		}
		for _, rec := range batch {
			lines, after = append(append(lines, rec.Bytes...), '\n'), rec.Seq
		}
	}
	return lines, nil
}

// report stores the report of a run, by content.
func (r *Role) report(ctx context.Context, evs [][]byte) (*events.Ref, error) {
	text, err := report.Of(evs)
	if err != nil {
		return nil, err
	}
	ref, err := r.cfg.Blobs.Put(ctx, "output", []byte(text))
	if err != nil {
		return nil, fmt.Errorf("store the report: %w", err)
	}
	return &ref, nil
}
