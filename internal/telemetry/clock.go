package telemetry

import (
	"context"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// readTime bounds one look at the log for the times of events.
const readTime = 5 * time.Second

// clock is the times of the events of a run, as far as they were read.
type clock struct {
	head  uint64
	times []time.Time // by sequence, from 1
}

// when returns the time of an event of a run by its sequence. ok is false where the log does not say.
func (r *Recorder) when(runID string, sequence uint64) (at time.Time, ok bool) {
	if sequence == 0 {
		return time.Time{}, false
	}
	c := r.clocks[runID]
	if c == nil {
		if len(r.clocks) >= maxClocks {
			clear(r.clocks) // they are read again
		}
		c = &clock{}
		r.clocks[runID] = c
	}
	if uint64(len(c.times)) < sequence {
		r.read(runID, c)
	}
	if uint64(len(c.times)) < sequence {
		return time.Time{}, false
	}
	return c.times[sequence-1], true
}

// read reads what is new in the log of a run.
func (r *Recorder) read(runID string, c *clock) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	for more := true; more; {
		var err error
		evs, again, err := r.deps.Journal.Read(ctx, runID, c.head)
		if err != nil || len(evs) == 0 {
			return // a span without its beginning is as long as nothing
		}
		for _, record := range evs {
			f, err := events.Decode(record.Bytes)
			if err != nil || f.Sequence != uint64(len(c.times))+1 {
				return
			}
			c.times, c.head = append(c.times, f.Time), record.Seq
		}
		more = again
	}
}
