package kernel

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/inspan/inspan/pkg/events"
)

// Record is a stored event: its place in the station's log and its exact bytes.
type Record struct {
	// Seq is the position in the log, shared by all aggregates of the station. It is the fence for resources we own.
	Seq uint64
	// Kind is the one that the place in the log is for: what the permission to store it was given for. Empty where it
	// is not known.
	Kind events.Kind
	// Bytes must not be written to.
	Bytes []byte
}

// Entry is what to append: one event of one aggregate.
type Entry struct {
	// Aggregate is the name of the journal's aggregates; empty means the same.
	Aggregate string
	ID        string
	Kind      events.Kind
	// Head is the Seq of the aggregate's last event, 0 for the first.
	Head  uint64
	Bytes []byte
	// Whole is for an event that is copied here from elsewhere: how many events the aggregate has once it is here
	// whole. No role acts on any of them before. 0 for an event that happens now.
	Whole uint64
}

// WholeHeader carries Entry.Whole to whoever is delivered the event.
const WholeHeader = "Inspan-Whole"

// AfterHeader carries what a timer follows from to whoever is delivered its firing: the sequence of an event.
const AfterHeader = "Inspan-After"

// After is the value of AfterHeader in a firing, 0 where it has none.
func After(m Message) uint64 {
	n, err := strconv.ParseUint(m.Header(AfterHeader), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Outcome of an append.
type Outcome int

// The outcomes that a journal reports. The ledger turns Conflict into "duplicate" where the stored event is its own.
const (
	// Stored: the event is in the log at Ack.Seq, durably as the server is configured.
	Stored Outcome = iota
	// Conflict: another event of the run is in the log after Head. Ack.Seq is its position where the server said so.
	Conflict
	// Transient: refused for a reason that passes by itself; the same append may be made again at once.
	Transient
	// Unknown: no one said whether it was stored. Only the leader's word counts now.
	Unknown
	// Full: the log takes no more. Nothing was stored.
	Full
	// Denied: this program may not say that. Final.
	Denied
	// TooLarge: the event is above the server's limit. Final.
	TooLarge
)

func (o Outcome) String() string {
	names := [...]string{"stored", "conflict", "transient", "unknown", "full", "denied", "too large"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Ack answers an append.
type Ack struct {
	Outcome Outcome
	Seq     uint64
	// Err says more where Outcome is not Stored.
	Err error
}

// Journal keeps the events of all aggregates of one name at one station: of all runs, or of all sessions. Aggregates of
// other names, also those with the same id, are neither seen nor guarded by it.
type Journal interface {
	// Append stores an entry if, and only if, the last event of its aggregate is at Head.
	Append(ctx context.Context, e Entry) Ack
	// Read returns the events of an aggregate after a position, in order, at most a few hundred at a time; more says
	// that there are others behind them. It may be stale: an event just stored may be missing. It never skips one.
	Read(ctx context.Context, id string, after uint64) (stored []Record, more bool, err error)
	// Last returns the last event of an aggregate from the leader: never stale. ok is false where it has none.
	Last(ctx context.Context, id string) (r Record, ok bool, err error)
}

// Renumberer is a Journal that may give an event another position later, or drop one that it gave a position to.
type Renumberer interface {
	Journal
	// Position returns the position that an event of an aggregate has now, by one that the journal gave it before; ok
	// is false where the event has none any more.
	Position(ctx context.Context, id string, given uint64) (now uint64, ok bool, err error)
}

// Position is Renumberer.Position of any journal: most give an event one position for good.
func Position(ctx context.Context, j Journal, id string, given uint64) (now uint64, ok bool, err error) {
	if r, may := j.(Renumberer); may && given > 0 {
		return r.Position(ctx, id, given)
	}
	return given, true, nil
}

// Errors of the ledger.
var (
	// ErrHeld means that the log of an aggregate does not fold: it is held, and nothing more is appended to it.
	ErrHeld = errors.New("held: the log is damaged")
	// ErrFull means that the station's log takes no more events.
	ErrFull = errors.New("the station's log is full")
	// ErrDenied means that this service may not say what it tried to say.
	ErrDenied = errors.New("not permitted to append")
	// ErrTooLarge means that an event is above the limit, although its large parts should have gone to the object
	// store.
	ErrTooLarge = errors.New("event is too large")
	// ErrUnsettled means that the outcome of an append could not be learned in time. The work is received again.
	ErrUnsettled = errors.New("outcome of an append is unknown")
	// ErrContended means that other writers won too many times in a row. The work is received again.
	ErrContended = errors.New("too many writers at once")
	// ErrNotFound means that the thing asked for does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDamagedObject means that stored bytes are not those of their digest.
	ErrDamagedObject = errors.New("damaged object")
	// ErrExists means that the thing to be made is there already, or that another one is where it should go.
	ErrExists = errors.New("exists already")
)
