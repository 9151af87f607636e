package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Record is a stored fact: its place in the station's log and its exact bytes.
type Record struct {
	// Seq is the position in the log, shared by all runs of the station. It is the fence for resources we own.
	Seq uint64
	// Kind is the one that the place in the log is for: what the permission to store it was given for. Empty where it is
	// not known.
	Kind events.Kind
	// Bytes must not be written to.
	Bytes []byte
}

// Apply folds a record of a run. A fact that says to be of another kind than its place in the log is for was stored by
// somebody who may not say it: the permissions to append are by kind (SAFE-6).
func (r Record) Apply(runID string, s run.State) (run.State, error) {
	f, p, err := r.Read(runID)
	if err != nil {
		return run.State{}, err
	}
	return s.ApplyFact(f, p, run.HashOf(r.Bytes))
}

// Read decodes a record of a run and checks that it says to be what its place in the log is for. Its errors are
// *run.FoldError.
func (r Record) Read(runID string) (events.Fact, events.Payload, error) {
	f, p, err := events.Read(r.Bytes)
	fault := ""
	switch {
	case err != nil:
		fault = "can not be read"
	case f.Run != runID:
		fault = fmt.Sprintf("belongs to run %.64q", f.Run)
	case r.Kind != "" && p.Kind() != r.Kind:
		fault = fmt.Sprintf("says that it is %s, and was stored as %s", p.Kind(), r.Kind)
	}
	if fault != "" {
		return events.Fact{}, nil, &run.FoldError{Run: runID, Sequence: f.Sequence, Kind: r.Kind, Fault: fault, Err: err}
	}
	return f, p, nil
}

// LocalSeq is the first of the positions that a local store gives while the station's log is away. They are greater
// than all positions of the log, say nothing about the order of both, and mean nothing to another process.
const LocalSeq uint64 = 1 << 62

// IsLocal reports whether a position is one of a local store.
func IsLocal(seq uint64) bool { return seq >= LocalSeq }

// Entry is what to append: one fact of one run.
type Entry struct {
	ID   string
	Kind events.Kind
	// Head is the Seq of the run's last fact, 0 for the first.
	Head  uint64
	Bytes []byte
	// Whole is for a fact that is copied here from elsewhere: how many facts the run has once it is here whole. Nobody
	// acts on any of them before. 0 for a fact that is said now.
	Whole uint64
}

// WholeHeader carries Entry.Whole to whoever is delivered the fact.
const WholeHeader = "Inspan-Whole"

// Outcome of an append.
type Outcome int

// The outcomes that a journal reports. The ledger turns Conflict into "duplicate" where the stored fact is its own.
const (
	// Stored: the fact is in the log at Ack.Seq, durably as the server is configured.
	Stored Outcome = iota
	// Conflict: another fact of the run is in the log after Head. Ack.Seq is its position where the server said so.
	Conflict
	// Transient: refused for a reason that passes by itself; the same append may be made again at once.
	Transient
	// Unknown: nobody said whether it was stored. Only the leader's word counts now.
	Unknown
	// Full: the log takes no more. Nothing was stored.
	Full
	// Denied: this program may not say that. Final.
	Denied
	// TooLarge: the fact is above the server's limit. Final.
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

// Journal keeps the facts of all runs of one station.
type Journal interface {
	// Append stores an entry if, and only if, the last fact of its run is at Head.
	Append(ctx context.Context, e Entry) Ack
	// Read returns the facts of a run after a position, in order, at most a few hundred at a time; more says that
	// there are others behind them. It may be stale: a fact just stored may be missing. It never skips one.
	Read(ctx context.Context, run string, after uint64) (facts []Record, more bool, err error)
	// Last returns the last fact of a run from the leader: never stale. ok is false where the run has none.
	Last(ctx context.Context, run string) (r Record, ok bool, err error)
}

// Errors of the ledger.
var (
	// ErrHeld means that the log of a run does not fold: it is held, and nothing more is said about it.
	ErrHeld = errors.New("run is held: its log is damaged")
	// ErrFull means that the station's log takes no more facts.
	ErrFull = errors.New("the station's log is full")
	// ErrDenied means that this service may not say what it tried to say.
	ErrDenied = errors.New("not permitted to append")
	// ErrTooLarge means that a fact is above the limit, although its large parts should have gone to the object store.
	ErrTooLarge = errors.New("fact is too large")
	// ErrUnsettled means that the outcome of an append could not be learned in time. The work is heard again.
	ErrUnsettled = errors.New("outcome of an append is unknown")
	// ErrContended means that other writers won too many times in a row. The work is heard again.
	ErrContended = errors.New("too many writers on one run")
	// ErrNotFound means that the thing asked for does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDamagedObject means that stored bytes are not those of their digest.
	ErrDamagedObject = errors.New("damaged object")
	// ErrExists means that the thing to be made is there already, or that another one is where it should go.
	ErrExists = errors.New("exists already")
)
