package kerneltest

import (
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// CounterAggregate is the name of the aggregate of the exams. The log of a station takes aggregates of its table alone,
// so it has the name of one that is kept free.
const CounterAggregate = "agent"

// Counter is the state of an aggregate that has as little to do with a run as can be: numbers are added by planners
// until a gatekeeper closes it.
type Counter struct {
	kernel.Chain
	Sum    int
	Closed bool
}

// The event types of a counter.
type (
	// Added adds a number.
	Added struct {
		By int `json:"by"`
	}
	// Closed ends a counter with what its author takes for the sum.
	Closed struct {
		Sum int `json:"sum"`
	}
)

// Kinds of the events of a counter. Neither is one of a run.
const (
	CountAdded  events.Kind = "count.added"
	CountClosed events.Kind = "count.closed"
)

// Kind implements events.Payload.
func (*Added) Kind() events.Kind { return CountAdded }

// Kind implements events.Payload.
func (*Closed) Kind() events.Kind { return CountClosed }

// Counters returns what the kernel needs to know of counters.
func Counters() *kernel.Aggregate[Counter] {
	words := map[events.Kind]events.Type{
		CountAdded:  {Kind: CountAdded, Author: events.Planner, New: func() events.Payload { return new(Added) }},
		CountClosed: {Kind: CountClosed, Author: events.Gatekeeper, New: func() events.Payload { return new(Closed) }},
	}
	return &kernel.Aggregate[Counter]{
		Name:     CounterAggregate,
		Lookup:   func(k events.Kind) (events.Type, bool) { w, ok := words[k]; return w, ok },
		Apply:    count,
		Chain:    func(c *Counter) kernel.Chain { return c.Chain },
		Ended:    func(c *Counter) bool { return c.Closed },
		MaxEvent: 8 << 10,
	}
}

// count folds one event of a counter.
func count(c Counter, f events.Event, p events.Payload, hash string) (Counter, error) {
	if c.Closed {
		return Counter{}, fmt.Errorf("counter %s is closed", c.ID)
	}
	switch d := p.(type) {
	case *Added:
		c.Sum += d.By
	case *Closed:
		if d.Sum != c.Sum {
			return Counter{}, fmt.Errorf("counter %s is at %d, not at %d", c.ID, c.Sum, d.Sum)
		}
		c.Closed = true
	}
	c.Chain = kernel.Chain{ID: f.Subject, Sequence: f.Sequence, Hash: hash}
	return c, nil
}
