package move

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// record is what the target knows of the move: topology.MoveKey.
type record struct {
	// From identifies the log of the source, Halt is the number of its halt.
	From string `json:"from"`
	Halt int    `json:"halt"`
	// Log and In are the positions up to which the source was copied.
	Log uint64 `json:"log"`
	In  uint64 `json:"in"`
}

// view is how both places are.
type view struct {
	// source and place identify the logs of source and target; place is empty where the target has none.
	source, place string
	from, to      halt.State
	fromLog       backup.State
	toLog         backup.State
	// restoring says that the target does nothing; rec is nil where it knows of no move.
	restoring bool
	rec       *record
	// served is a role that works at the target.
	served events.Service
}

// phase of a move.
type phase int

const (
	fresh   phase = iota // the target has nothing
	copying              // it has a part, or all, of this copy
	marked               // the source is marked
	done                 // the target is released
)

// look reads both places and changes nothing.
func (m *mover) look(ctx context.Context) (v view, err error) {
	if v.source, err = m.From.Station.Identity(ctx); err != nil {
		return v, fmt.Errorf("the source: %w", err)
	}
	if v.from, err = halted(ctx, m.From.Station, m.Station); err != nil {
		return v, fmt.Errorf("the source: %w", err)
	}
	if v.fromLog, err = m.From.Station.LogState(ctx); err != nil {
		return v, fmt.Errorf("the source: %w", err)
	}
	if m.to == nil {
		return v, nil
	}
	v.place, err = m.to.Identity(ctx)
	if errors.Is(err, jet.ErrNotSetUp) {
		return v, nil
	}
	if err == nil {
		err = m.lookTo(ctx, &v)
	}
	if err != nil {
		return v, fmt.Errorf("the target: %w", err)
	}
	return v, nil
}

func (m *mover) lookTo(ctx context.Context, v *view) (err error) {
	if v.toLog, err = m.to.LogState(ctx); err != nil {
		return err
	}
	if v.to, err = halted(ctx, m.to, m.Station); err != nil {
		return err
	}
	config := m.to.KV(topology.ConfigBucket)
	if _, err = config.Get(ctx, topology.RestoreKey); err == nil {
		v.restoring = true
	} else if !errors.Is(err, kernel.ErrNotFound) {
		return err
	}
	b, err := config.Get(ctx, topology.MoveKey)
	switch {
	case errors.Is(err, kernel.ErrNotFound):
	case err != nil:
		return err
	default:
		v.rec = &record{}
		if err := json.Unmarshal(b, v.rec); err != nil {
			return fmt.Errorf("what it knows of the move: %w", err)
		}
	}
	v.served, err = m.to.Worked(ctx)
	return err
}

// phase says where the move is, or why it does not go on.
func (v view) phase() (phase, error) {
	again := "empty it, or name another place"
	switch {
	case v.source == v.place:
		return 0, ErrSame
	case v.from.MovedTo != "" && v.from.MovedPlace != v.place:
		return 0, fmt.Errorf("%w, %s, at %s: name that as the target; where it is gone for good, inspan release --although-moved at the source", ErrElsewhere,
			v.from.MovedTo, v.from.MovedAt.UTC().Format(time.RFC3339))
	case v.from.MovedTo != "" && v.to.MovedTo != "":
		return 0, fmt.Errorf("%w: call it with --abort once more, which finishes that", ErrAborted)
	case v.from.MovedTo != "" && !v.restoring:
		return done, nil
	case v.from.MovedTo != "":
		return marked, nil
	case v.served != "" && !v.restoring:
		return 0, fmt.Errorf("%w, one is a %s: stop them, and start them after the move", ErrServed, v.served)
	case v.rec == nil && v.toLog.Last == 0 && !v.restoring:
		return fresh, nil
	case v.rec == nil:
		return 0, fmt.Errorf("%w, with %d events that no move has copied: %s", ErrOther, v.toLog.Last, again)
	case v.rec.From != v.source:
		return 0, fmt.Errorf("%w, from another source: %s", ErrOther, again)
	case v.to.MovedTo != "", !v.from.Halted, v.rec.Halt != v.from.Number:
		return 0, fmt.Errorf("%w, and the source went on since: %s", ErrAborted, again)
	case !v.restoring && v.toLog.Last > 0:
		return 0, fmt.Errorf("%w, which was moved here before: %s", ErrOther, again)
	}
	return copying, nil
}

// ours reports whether a halt was ordered by a move, so that the move ends it.
func ours(h halt.State) bool { return h.Halted && strings.HasPrefix(h.Reason, reason) }

// halted reads the log of the halts of a station.
func halted(ctx context.Context, st *jet.Station, name string) (halt.State, error) {
	l, err := ledger(st, name)
	if err != nil {
		return halt.State{}, err
	}
	return l.Fresh(ctx, events.HaltID)
}

func ledger(st *jet.Station, name string) (*halt.Ledger, error) {
	return halt.NewLedger(halt.LedgerConfig{Station: name, By: events.Planner,
		Journal: st.JournalFor(events.HaltAggregate), Entropy: rand.Reader})
}

// Steer carries out controls of the emergency stop where no planner does: with the rights of the upgrade user.
func Steer(st *jet.Station, name string) func(context.Context, events.HaltControl) error {
	return func(ctx context.Context, c events.HaltControl) error {
		if err := c.Check(); err != nil {
			return err
		}
		l, err := ledger(st, name)
		if err != nil {
			return err
		}
		w, err := l.Write(ctx, events.HaltID, func(s halt.State, now time.Time) ([]events.Payload, error) {
			next, err := halt.Steer(s, halt.Wish{HaltControl: c}, now)
			return next.Changes(), err
		})
		if err != nil {
			return err
		}
		row, err := halt.View().Row(w.State, w.Head)
		if err != nil {
			return err
		}
		return st.KV(topology.SessionBucket).Put(ctx, events.HaltRow, row)
	}
}
