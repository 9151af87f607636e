package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/run"
)

// Runs tells of runs as their logs have them.
type Runs interface {
	// Fresh returns the state of a run; that of one that does not exist has no sequence.
	Fresh(ctx context.Context, runID string) (run.State, error)
}

// Expirer takes artifacts away whose time is over (ART-8). It keeps nothing in mind: the store is its list, so it may
// be stopped anywhere, run late, and be several.
type Expirer struct {
	Store kernel.Artifacts
	Runs  Runs
	// Workflows forget a run before the last of its artifacts goes; may be nil.
	Workflows *Workflows
	// TTL of artifacts that were put without one; 0 means artifact.DefaultTTL.
	TTL time.Duration
}

// Swept is what one look took away.
type Swept struct {
	Artifacts int
	Bytes     int64
	// Litter counts beginnings of artifacts that a crash left.
	Litter int
}

// litterAfter is how old the parts of an object must be that no description names: putting one never takes so long.
const litterAfter = time.Hour

// Sweep takes away what is due at a time. Nothing of a run that goes on is, and nothing whose run cannot be looked at.
func (e *Expirer) Sweep(ctx context.Context, now time.Time) (Swept, error) {
	var out Swept
	all, err := e.Store.Stored(ctx)
	if err != nil {
		return out, err
	}
	var errs []error
	looked, left := map[string]run.State{}, map[string]int{}
	for _, one := range all {
		left[one.Run]++
	}
	for _, one := range all {
		ttl := one.TTL
		if ttl <= 0 {
			ttl = e.TTL
		}
		if !artifact.Due(now, one.Put, ttl, false, nil) {
			continue // too young, whatever its run does
		}
		s, seen := looked[one.Run]
		if !seen {
			if s, err = e.Runs.Fresh(ctx, one.Run); err != nil && !errors.Is(err, kernel.ErrNotFound) {
				errs = append(errs, fmt.Errorf("run %s: %w", one.Run, err))
				continue
			}
			looked[one.Run] = s
		}
		if !artifact.Due(now, one.Put, ttl, s.Sequence > 0, s.EndedAt) {
			continue
		}
		if left[one.Run]--; left[one.Run] == 0 && e.Workflows != nil {
			if err := e.Workflows.Remove(ctx, s); err != nil {
				errs = append(errs, err)
				continue // the next look does both
			}
		}
		if err := e.Store.Remove(ctx, one.Run, one.SHA256); err != nil {
			errs = append(errs, err)
			continue
		}
		out.Artifacts++
		out.Bytes += one.Size
	}
	out.Litter, err = e.Store.Litter(ctx, now.Add(-litterAfter))
	return out, errors.Join(append(errs, err)...)
}
