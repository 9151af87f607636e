package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// OnStation attaches a harness to a station under an id: its steps are recorded there, Dispatch asks its agents, and a
// program that is started again goes on. The client's user needs the rights to watch and to record, and to dispatch
// where Dispatch is used.
func OnStation(c *client.Client, id string) Option {
	return func(s *settings) {
		st := NewStationStore(c)
		s.id, s.store, s.agents = id, st, st
	}
}

// StationStore is a station as a Store and as Agents. A program may put something before or behind it, and give it to
// Run with WithStore and WithAgents in place of OnStation.
type StationStore struct {
	c  *client.Client
	mu sync.Mutex
	// read is how far each harness was read. It is guarded by mu.
	read map[string]position
}

var (
	_ Store  = (*StationStore)(nil)
	_ Agents = (*StationStore)(nil)
)

// position is that of the last event of a harness that was loaded or recorded, and that of the one before it: a control
// that is asked for again looks for its event from there on.
type position struct{ last, before uint64 }

// NewStationStore returns the store of the station of a client.
func NewStationStore(c *client.Client) *StationStore {
	return &StationStore{c: c, read: map[string]position{}}
}

// Load implements Store.
func (s *StationStore) Load(ctx context.Context, id string) ([]Record, error) {
	var all []Record
	for e, err := range client.NewHarnesses(s.c).Events(ctx, id) {
		if err != nil {
			return nil, err
		}
		all = append(all, Record{e.Time, e.Payload})
		s.mu.Lock()
		s.read[id] = position{e.Position, s.read[id].last}
		s.mu.Unlock()
	}
	return all, nil
}

// attempt is how long one message is waited for before it is sent again.
const attempt = 10 * time.Second

// Record implements Store.
func (s *StationStore) Record(ctx context.Context, id string, c Control) error {
	s.mu.Lock()
	after := s.read[id].before
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	at, err := client.NewHarnesses(s.c).Record(ctx, id, c, after)
	if err == nil {
		s.mu.Lock()
		if at != s.read[id].last {
			s.read[id] = position{at, s.read[id].last}
		}
		s.mu.Unlock()
	}
	if no, ok := errors.AsType[*client.RefusedError](err); ok {
		return &RefusedError{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if errors.Is(err, client.ErrDenied) {
		return &finalError{fmt.Errorf("this user may not record harnesses of station %s: %w", s.c.Station(), err)}
	}
	return err
}

// RunTask implements Agents.
func (s *StationStore) RunTask(ctx context.Context, t Task) (TaskResult, error) {
	id, err := s.c.Start(ctx, t)
	if err != nil {
		return TaskResult{}, err
	}
	r := TaskResult{Run: id}
	for item, err := range s.c.Watch(ctx, id, 0) {
		if err != nil {
			return r, err
		}
		if item.State.Status.Ended() {
			r.Success, r.Output = item.State.Status == events.Completed, item.State.Result.Output
			r.Reason = item.State.Result.FinishReason
		}
	}
	return r, nil
}
