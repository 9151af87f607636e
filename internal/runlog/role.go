package runlog

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Role is the part of a service that is its own, as kernel.Role is, in the terms of runs.
type Role interface {
	Service() events.Service
	// Event receives a stored event.
	Event(ctx context.Context, h ReceivedEvent) error
	// Due receives a timer that this role set, with the state of its run as the leader has it.
	Due(ctx context.Context, runID, family, id string, s run.State) error
	// Input receives what an outsider published. Nothing in it is to be trusted.
	Input(ctx context.Context, m kernel.Message) error
}

// Again is a Role that wants to know how often the firing of a timer was delivered. It is called instead of Due.
type Again interface {
	DueAgain(ctx context.Context, runID, family, id string, s run.State, deliveries uint64) error
}

// ReceivedEvent is an event as delivered, with a state of its run that includes it.
type ReceivedEvent struct {
	Run  string
	Kind events.Kind
	// Sequence of the event in its run, Seq in the log.
	Sequence, Seq uint64
	// Step and Call it is about, where it is about one.
	Step, Call string
	State      run.State
	Deliveries uint64
	// Stored is the event as it is stored, to be read only.
	Stored []byte
}

// Handle joins a role with the ledger that its states come from.
func Handle(l *Ledger, r Role) kernel.Handler {
	return kernel.Handle(l, kernel.Role[run.State](role{r}))
}

// role is a Role as the kernel has them.
type role struct{ Role }

// Event implements kernel.Role.
func (r role) Event(ctx context.Context, e kernel.Received[run.State]) error {
	about, err := events.AboutOf(e.Stored)
	if err != nil {
		return fmt.Errorf("%w: %w", kernel.ErrHeld, err)
	}
	return r.Role.Event(ctx, ReceivedEvent{Run: e.ID, Kind: e.Kind, Sequence: about.Sequence, Seq: e.Seq, Step: about.Step,
		Call:  about.Call,
		State: e.State, Deliveries: e.Deliveries, Stored: e.Stored})
}

// Due implements kernel.Role.
func (r role) Due(ctx context.Context, d kernel.Due[run.State]) error {
	if again, ok := r.Role.(Again); ok {
		return again.DueAgain(ctx, d.ID, d.Family, d.Name, d.State, d.Deliveries)
	}
	return r.Role.Due(ctx, d.ID, d.Family, d.Name, d.State)
}

// Undo implements kernel.Undoer.
func (r role) Undo(ctx context.Context, m kernel.Message) error {
	if undo, ok := r.Role.(kernel.Undoer); ok {
		return undo.Undo(ctx, m)
	}
	return nil
}
