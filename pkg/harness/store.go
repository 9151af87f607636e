package harness

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/pkg/events"
)

// Control is what a program asks a store to record.
type Control = events.HarnessControl

// Record is one event of a harness.
type Record struct {
	Time    time.Time
	Payload events.Payload
}

// Store keeps the records of harnesses. It judges: what does not follow what is recorded is refused with a
// *RefusedError. Record returns nil once it is recorded, and the same control again changes nothing; after any other
// error it may or may not be recorded, and the framework asks again.
type Store interface {
	// Load returns all records of a harness, the oldest first; none of one that is new.
	Load(ctx context.Context, id string) ([]Record, error)
	Record(ctx context.Context, id string, c Control) error
}

const (
	codeReplaced = harness.Replaced
	codeBusy     = harness.Busy
	codeEnded    = harness.Ended
)

// MemoryStore is a store in this process. The zero value is empty. It judges as a station does, so a test may end a
// harness anywhere and run it again on the same store.
type MemoryStore struct {
	// Clock is of the records; nil is SystemClock.
	Clock Clock
	mu    sync.Mutex
	// logs is guarded by mu.
	logs map[string]*memoryLog
}

type memoryLog struct {
	state   harness.State
	records []Record
}

// Load implements Store.
func (m *MemoryStore) Load(ctx context.Context, id string) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.logs[id]; l != nil {
		return slices.Clone(l.records), nil
	}
	return nil, nil
}

// Record implements Store.
func (m *MemoryStore) Record(ctx context.Context, id string, c Control) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := harness.Check(c); err != nil {
		return &RefusedError{Code: "bad_input", Reason: err.Error(), Hint: "yield less"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logs[id]
	if l == nil {
		l = &memoryLog{}
	}
	now := clockOr(m.Clock).Now().UTC()
	answer, err := harness.Decide(l.state, id, c, now)
	if no, ok := errors.AsType[*harness.Refused](err); ok {
		return &RefusedError{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err != nil {
		return err
	}
	for _, p := range answer {
		if l.state, err = l.state.Next(p, now); err != nil {
			return err
		}
		l.records = append(l.records, Record{now, p})
	}
	if m.logs == nil {
		m.logs = map[string]*memoryLog{}
	}
	m.logs[id] = l
	return nil
}

func clockOr(c Clock) Clock {
	if c == nil {
		return SystemClock{}
	}
	return c
}
