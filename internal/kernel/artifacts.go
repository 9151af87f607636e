package kernel

import (
	"context"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Artifacts keeps what runs made, by content, each run's apart and for a time only. Nothing in a run needs it: an event
// that names an artifact is whole without it.
type Artifacts interface {
	// Put stores bytes of a run, at most topology.MaxObject. It is idempotent: what is there already is not put again,
	// and keeps the time that it was put for. A store that is full is ErrFull.
	Put(ctx context.Context, run string, data []byte, ttl time.Duration) (events.Ref, error)
	// Get checks digest and size and returns ErrNotFound where it was never put or has expired.
	Get(ctx context.Context, run string, ref events.Ref) ([]byte, error)
	// Stored lists all that is there, in no order.
	Stored(ctx context.Context) ([]StoredArtifact, error)
	// Remove takes one away; one that is not there is no error. Only the persister may (ErrDenied).
	Remove(ctx context.Context, run, sha256 string) error
	// Litter takes away what was begun before a time and never became an artifact, and tells how many that were.
	Litter(ctx context.Context, before time.Time) (int, error)
}

// StoredArtifact is one object of a run in the store.
type StoredArtifact struct {
	Run    string
	SHA256 string
	Size   int64
	Put    time.Time
	// TTL counts from the end of the run; 0 means what the station has.
	TTL time.Duration
}
