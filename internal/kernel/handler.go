package kernel

import (
	"context"
	"strconv"

	"github.com/inspan/inspan/pkg/events"
)

// Handler takes the messages of the aggregates of one name for one service; see Handle.
type Handler interface {
	aggregate() string
	service() events.Service
	// event takes a delivered event of an aggregate.
	event(ctx context.Context, m Message, id string, k events.Kind) error
	// due takes the firing of a timer of an aggregate.
	due(ctx context.Context, m Message, id, family, name string) error
	// look brings what is known of an aggregate up to what the leader has, and keeps it until unpin is called.
	look(ctx context.Context, id string) (unpin func(), err error)
	input(ctx context.Context, m Message) error
	// undo takes a message that was refused before.
	undo(ctx context.Context, m Message) error
}

// Handle joins a role with the ledger that its states come from.
func Handle[S any](l *Ledger[S], r Role[S]) Handler { return handler[S]{ledger: l, role: r} }

type handler[S any] struct {
	ledger *Ledger[S]
	role   Role[S]
}

func (h handler[S]) aggregate() string       { return h.ledger.aggregate.name() }
func (h handler[S]) service() events.Service { return h.role.Service() }

func (h handler[S]) event(ctx context.Context, m Message, id string, k events.Kind) error {
	defer h.ledger.pages.Pin(id)()
	state, err := h.received(ctx, id, Record{Seq: m.Seq(), Kind: k, Bytes: m.Data()}, m)
	if err != nil {
		return err
	}
	return h.role.Event(ctx, Received[S]{ID: id, Kind: k, Seq: m.Seq(), State: state, Deliveries: m.Deliveries(),
		Stored: m.Data()})
}

// received returns a state that includes a delivered event. One that was copied from elsewhere is looked at only when
// its aggregate is here whole, and with all that came after it: what it asked for was mostly done long ago.
func (h handler[S]) received(ctx context.Context, id string, r Record, m Message) (S, error) {
	whole, err := strconv.ParseUint(m.Header(WholeHeader), 10, 64)
	if err != nil || whole == 0 {
		return h.ledger.Receive(ctx, id, r)
	}
	state, _, err := h.ledger.Reach(ctx, id, whole)
	if err == nil && h.ledger.typed.Chain(&state).Sequence < whole {
		err = &RetryAfter{After: backoff(m.Deliveries())}
	}
	return state, err
}

func (h handler[S]) due(ctx context.Context, m Message, id, family, name string) error {
	defer h.ledger.pages.Pin(id)()
	state, err := h.ledger.Fresh(ctx, id)
	if after := After(m); err == nil && h.ledger.typed.Chain(&state).Sequence < after {
		// The leader was deposed and has not noticed, or lost what it had: what the timer follows from is not there.
		if state, _, err = h.ledger.Reach(ctx, id, after); err == nil && h.ledger.typed.Chain(&state).Sequence < after {
			err = &RetryAfter{After: backoff(m.Deliveries())}
		}
	}
	if err != nil {
		return err
	}
	return h.role.Due(ctx, Due[S]{ID: id, Family: family, Name: name, State: state, Deliveries: m.Deliveries()})
}

func (h handler[S]) look(ctx context.Context, id string) (unpin func(), err error) {
	unpin = h.ledger.pages.Pin(id)
	if _, err := h.ledger.Fresh(ctx, id); err != nil {
		unpin()
		return nil, err
	}
	return unpin, nil
}

func (h handler[S]) input(ctx context.Context, m Message) error { return h.role.Input(ctx, m) }

func (h handler[S]) undo(ctx context.Context, m Message) error {
	if r, ok := h.role.(Undoer); ok {
		return r.Undo(ctx, m)
	}
	return nil
}
