package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Delivery is one call that is to be made.
type Delivery struct {
	// ID is that of the event and the target: the same for each attempt.
	ID     string        `json:"id"`
	Target string        `json:"target"`
	Notice notify.Notice `json:"notice"`
	// Body of a webhook, the same bytes for each attempt.
	Body json.RawMessage `json:"body,omitempty"`
	// Attempts that failed, when the next one is due, and why the last one failed.
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next"`
	Last     string    `json:"last,omitempty"`
}

// State is what is kept over restarts: up to where the log was read, and what is still to be delivered.
type State struct {
	Station  string          `json:"station"`
	Position client.Position `json:"position"`
	Pending  []Delivery      `json:"pending"`
}

const (
	// maxPending is how many deliveries of one target wait.
	maxPending = 1000
	// maxState is the most bytes of the file.
	maxState = 256 << 20
)

// Delays are the waits after the first failed attempt, the second and so on; after the last one there is none more.
func Delays() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 6 * time.Hour, 12 * time.Hour}
}

// queue is the state, on disk before anything is done about it.
type queue struct {
	path   string
	delays []time.Duration
	// changed has a value where something may be due earlier than before.
	changed map[string]chan struct{}

	mu sync.Mutex
	// state is guarded by mu.
	state State
}

// ReadState reads the file of a state; one that is not there is empty.
func ReadState(path string) (State, error) {
	var s State
	b, err := disk.ReadAtMost(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("state of callbacks: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Position == nil {
		return s, fmt.Errorf("%s is no state of callbacks: move it away, and calls begin with what comes", path)
	}
	return s, nil
}

// openQueue reads the state of a station. now is where a new one begins.
func openQueue(path, station string, now client.Position, targets []Target, delays []time.Duration) (*queue, error) {
	s, err := ReadState(path)
	if err != nil {
		return nil, err
	}
	if s.Position == nil {
		s = State{Station: station, Position: now}
	}
	if s.Station != station {
		return nil, fmt.Errorf("%s is of station %s, this one is %s: name another file", path, s.Station, station)
	}
	for kind, at := range now { // kinds that are new begin now
		if _, known := s.Position[kind]; !known {
			s.Position[kind] = at
		}
	}
	maps.DeleteFunc(s.Position, func(k events.Kind, _ uint64) bool { _, wanted := now[k]; return !wanted })
	q := &queue{path: path, delays: delays, state: s, changed: map[string]chan struct{}{}}
	for _, t := range targets {
		q.changed[t.Name] = make(chan struct{}, 1) // one is enough: who takes it looks at all
	}
	return q, q.save()
}

// save writes the state. The file is whole at any time.
func (q *queue) save() error {
	b, err := json.Marshal(q.state)
	if err == nil {
		err = disk.Replace(q.path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("state of callbacks: %w", err)
	}
	return nil
}

// position is where to go on reading.
func (q *queue) position() client.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.state.Position)
}

// add has deliveries be made and the log be read from a position on, at once. What a target has no room for is
// returned.
func (q *queue) add(next client.Position, some []Delivery) (tooMany []Delivery, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.state
	q.state.Position, q.state.Pending = next, slices.Clone(q.state.Pending)
	for _, d := range some {
		waiting := 0
		for _, p := range q.state.Pending {
			if p.Target == d.Target {
				waiting++
			}
		}
		if waiting >= maxPending {
			tooMany = append(tooMany, d)
			continue
		}
		q.state.Pending = append(q.state.Pending, d)
	}
	if err := q.save(); err != nil {
		q.state = before
		return nil, err
	}
	for _, d := range some {
		select {
		case q.changed[d.Target] <- struct{}{}:
		default:
		}
	}
	return tooMany, nil
}

// next is the delivery of a target that is due first.
func (q *queue) next(target string) (d Delivery, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.state.Pending {
		if p.Target == target && (!ok || p.Next.Before(d.Next)) {
			d, ok = p, true
		}
	}
	return d, ok
}

// orphans are the deliveries of targets that are no more.
func (q *queue) orphans() (some []Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.state.Pending {
		if q.changed[p.Target] == nil {
			some = append(some, p)
		}
	}
	return some
}

// done takes a delivery off.
func (q *queue) done(id string) error {
	return q.change(id, func(Delivery) (Delivery, bool) { return Delivery{}, false })
}

// failed has a delivery come again, no sooner than in least. last reports whether there is no attempt more: then it
// stays as it is.
func (q *queue) failed(d Delivery, why error, now time.Time, least time.Duration) (last bool, err error) {
	if d.Attempts >= len(q.delays) {
		return true, nil
	}
	d.Next = now.Add(max(q.delays[d.Attempts], min(least, maxLeast))).UTC()
	d.Attempts++
	d.Last = why.Error()
	return false, q.change(d.ID, func(Delivery) (Delivery, bool) { return d, true })
}

// later has a delivery stay whose dead letter could not be written.
func (q *queue) later(d Delivery, now time.Time) error {
	d.Next = now.Add(letterAgain).UTC()
	return q.change(d.ID, func(Delivery) (Delivery, bool) { return d, true })
}

const (
	// maxLeast is the most that a receiver may put an attempt off.
	maxLeast = time.Hour
	// letterAgain is when a dead letter is tried again.
	letterAgain = 30 * time.Second
)

func (q *queue) change(id string, to func(Delivery) (Delivery, bool)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.state
	q.state.Pending = nil
	for _, p := range before.Pending {
		if p.ID != id {
			q.state.Pending = append(q.state.Pending, p)
		} else if now, stays := to(p); stays {
			q.state.Pending = append(q.state.Pending, now)
		}
	}
	err := q.save()
	if err != nil {
		q.state = before
	}
	return err
}
