package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
)

// call is one operation of a writer on the log, with what it was answered.
type call struct {
	// began and ended are ticks of one clock of the history: an operation that ended before another began came first.
	began, ended uint64
	op           opKind
	entry        kernel.Entry // of an append
	ack          kernel.Ack
	run          string // of a read
	after        uint64
	events       []kernel.Record // of a read; of a last the one, or none
	more         bool
	err          error
}

type opKind int

const (
	opAppend opKind = iota
	opRead
	opLast
)

func (c *call) String() string {
	switch c.op {
	case opAppend:
		return fmt.Sprintf("append %q to %s at %d: %s %d (%v)", c.entry.Bytes[:min(20, len(c.entry.Bytes))], c.entry.ID, c.entry.Head, c.ack.Outcome, c.ack.Seq, c.ack.Err)
	case opRead:
		return fmt.Sprintf("read %s after %d: %d events up to %d, more %v (%v)", c.run, c.after, len(c.events), lastSeq(c.events), c.more, c.err)
	}
	return fmt.Sprintf("last of %s: %d (%v)", c.run, lastSeq(c.events), c.err)
}

func lastSeq(evs []kernel.Record) uint64 {
	if len(evs) == 0 {
		return 0
	}
	return evs[len(evs)-1].Seq
}

// writer is one of several on the same few runs. Some of what it tries is wrong on purpose.
type writer struct {
	*rand.Rand
	name  string
	s     *side
	tick  *atomic.Uint64
	heads map[string]uint64
	olds  map[string][]uint64
	calls []*call
}

func (w *writer) learn(run string, seq uint64) {
	if seq > w.heads[run] {
		w.olds[run] = append(w.olds[run], w.heads[run])
		w.heads[run] = seq
	}
}

// operate makes one operation on the log and notes it.
func (w *writer) operate(ctx context.Context) {
	run := runNames[w.IntN(len(runNames))]
	c := &call{run: run}
	j := w.s.journal()
	switch n := w.IntN(10); {
	case n < 6:
		c.op = opAppend
		c.entry = kernel.Entry{ID: run, Kind: kindsSaid[w.IntN(len(kindsSaid))], Head: w.head(run), Bytes: fmt.Appendf(nil, "%s %d", w.name, len(w.calls))}
	case n < 9:
		c.op, c.after = opRead, w.heads[run]
		if old := w.olds[run]; len(old) > 0 && w.IntN(2) == 0 {
			c.after = old[max(0, len(old)-1-w.IntN(40))]
		}
	default:
		c.op = opLast
	}
	c.began = w.tick.Add(1)
	switch c.op {
	case opAppend:
		c.ack = j.Append(ctx, c.entry)
	case opRead:
		c.events, c.more, c.err = j.Read(ctx, c.run, c.after)
	case opLast:
		var r kernel.Record
		var ok bool
		if r, ok, c.err = j.Last(ctx, c.run); ok {
			c.events = []kernel.Record{r}
		}
	}
	c.ended = w.tick.Add(1)
	w.calls = append(w.calls, c)
	w.learn(run, lastSeq(c.events))
	if c.op == opAppend && (c.ack.Outcome == kernel.Stored || c.ack.Outcome == kernel.Conflict) {
		w.learn(run, c.ack.Seq)
	}
}

func (w *writer) head(run string) uint64 {
	switch w.IntN(12) {
	case 0:
		if old := w.olds[run]; len(old) > 0 {
			return old[w.IntN(len(old))]
		}
	case 1:
		return w.heads[run] + 1 + w.Uint64N(4)
	}
	return w.heads[run]
}

// history is what several writers did at the same time, and the log they left.
type history struct {
	calls []*call
	log   []event
}

// event is one place of the log: its position is its index + 1.
type event struct {
	run   string
	bytes []byte
}

// write has writers operate side by side for n operations each, while trouble goes on, and returns the history. made
// counts the operations that have ended.
func write(t *testing.T, s *side, dice *rand.Rand, writers, n int, trouble func(ctx context.Context, made func() int)) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	tick := new(atomic.Uint64)
	all := make([]*writer, writers)
	var busy, troubled sync.WaitGroup
	if trouble != nil {
		troubled.Go(func() { trouble(ctx, func() int { return int(tick.Load() / 2) }) })
	}
	for i := range all {
		all[i] = &writer{Rand: rand.New(rand.NewPCG(dice.Uint64(), 7)), name: fmt.Sprintf("writer %d", i), s: s, tick: tick,
			heads: map[string]uint64{}, olds: map[string][]uint64{}}
		busy.Go(func() {
			for range n {
				all[i].operate(ctx)
			}
		})
	}
	busy.Wait()
	cancel()
	troubled.Wait()
	h := &history{log: wholeLog(t, s)}
	for _, w := range all {
		h.calls = append(h.calls, w.calls...)
	}
	return h
}

// wholeLog reads all runs until they are as long as the leader says and all positions are taken.
func wholeLog(t *testing.T, s *side) []event {
	t.Helper()
	ctx := within(t)
	for {
		log, err := tryLog(ctx, s)
		if err == nil {
			return log
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: the log cannot be read: %v", s.name, err)
		}
	}
}

func tryLog(ctx context.Context, s *side) ([]event, error) {
	places := map[uint64]event{}
	for _, run := range runNames {
		last, ok, err := s.journal().Last(ctx, run)
		if err != nil {
			return nil, err
		}
		for after := uint64(0); ; {
			evs, more, err := s.journal().Read(ctx, run, after)
			if err != nil {
				return nil, err
			}
			for _, f := range evs {
				places[f.Seq] = event{run: run, bytes: slices.Clone(f.Bytes)}
				after = f.Seq
			}
			if more {
				continue
			}
			if ok && after < last.Seq {
				return nil, fmt.Errorf("run %s reads up to %d, its last event is at %d", run, after, last.Seq)
			}
			break
		}
	}
	log := make([]event, len(places))
	for i := range log {
		f, ok := places[uint64(i)+1]
		if !ok {
			return nil, fmt.Errorf("position %d of %d is empty", i+1, len(log))
		}
		log[i] = f
	}
	return log, nil
}
