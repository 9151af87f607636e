package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
)

// ends hands out a channel per run that is closed when the run ends.
type ends struct {
	mu   sync.Mutex
	wait map[string]chan struct{}
}

func (b *bed) ends(ctx context.Context) (*ends, error) {
	e := &ends{wait: map[string]chan struct{}{}}
	_, err := b.st.Watch(ctx, "*", false, func(s jet.Seen) {
		if s.Kind == events.RunCompleted || s.Kind == events.RunFailed {
			close(e.of(s.Run))
		}
	})
	return e, err
}

func (e *ends) of(id string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wait[id] == nil {
		e.wait[id] = make(chan struct{})
	}
	return e.wait[id]
}

// many runs n runs, at most inFlight at a time.
func (b *bed) many(ctx context.Context, e *ends, prefix string, n, inFlight int) error {
	room := make(chan struct{}, inFlight) // a place per run under way
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			id := fmt.Sprintf("%s-%d", prefix, i)
			if err := b.dispatch(ctx, events.Task{ID: id}); err != nil {
				errs <- err
				return
			}
			select {
			case <-e.of(id):
			case <-b.failed():
				errs <- fmt.Errorf("run %s did not end: %w", id, context.Cause(b.broken))
			case <-time.After(5 * time.Minute):
				errs <- b.stuck(ctx, id)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// failed is closed when a role of the station fails: its runs do not end then.
func (b *bed) failed() <-chan struct{} {
	if b.broken == nil {
		return nil
	}
	return b.broken.Done()
}

// stuck says how far a run came that did not end.
func (b *bed) stuck(ctx context.Context, id string) error {
	s, err := b.state(ctx, id)
	if err != nil {
		return fmt.Errorf("run %s did not end, and its log cannot be read: %w", id, err)
	}
	return fmt.Errorf("run %s did not end: it is %q after %d events", id, s.Status, s.Sequence)
}

// steps reads the logs of runs back: the time of each step, the events and their bytes.
type steps struct {
	took                 []time.Duration
	turns, events, bytes int
	perTurn              int
	// since the event before it, by kind.
	since map[events.Kind][]time.Duration
}

func (b *bed) steps(ctx context.Context, ids []string) (steps, error) {
	out := steps{since: map[events.Kind][]time.Duration{}}
	for _, id := range ids {
		evs, err := b.events(ctx, id)
		if err != nil {
			return out, err
		}
		var last, before time.Time
		for _, r := range evs {
			out.events++
			out.bytes += len(r.Bytes)
			f, err := events.Decode(r.Bytes)
			if err != nil {
				return out, err
			}
			k, _ := f.Kind()
			out.since[k] = append(out.since[k], f.Time.Sub(before))
			before = f.Time
			switch k {
			case events.TurnFinished:
				if !last.IsZero() {
					out.took = append(out.took, f.Time.Sub(last))
				}
				last = f.Time
				out.turns++
				out.perTurn++
			case events.CallAllowed, events.CallStarted, events.CallFinished:
				out.perTurn++
			default: // not of a turn
			}
		}
	}
	return out, nil
}

// parts are the median times before the events of a step.
func (s steps) parts() string {
	var all []string
	for _, k := range []events.Kind{events.TurnFinished, events.CallAllowed, events.CallStarted, events.CallFinished} {
		all = append(all, fmt.Sprintf("%s %.2f", k, quantile(s.since[k], 0.5)))
	}
	return strings.Join(all, ", ")
}

func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return float64(d[min(len(d)-1, int(q*float64(len(d))))].Microseconds()) / 1000
}

// w2: one run at a time.
func w2(ctx context.Context, c config, b *bed) (figures, error) {
	if err := b.start(ctx, c.steps); err != nil {
		return figures{}, err
	}
	e, err := b.ends(ctx)
	if err != nil {
		return figures{}, err
	}
	const n = 50
	if err := b.many(ctx, e, "warm", 5, 1); err != nil {
		return figures{}, err
	}
	begin := time.Now()
	if err := b.many(ctx, e, "w2", n, 1); err != nil {
		return figures{}, err
	}
	wall := time.Since(begin)
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("w2-%d", i))
	}
	st, err := b.steps(ctx, ids)
	if err != nil {
		return figures{}, err
	}
	floor, err := b.floor(ctx, n, c.steps, 1)
	f := figures{Steps: n * c.steps, PerSecond: float64(n*c.steps) / wall.Seconds(), FloorPerSecond: floor,
		P50MS: quantile(st.took, 0.5), P99MS: quantile(st.took, 0.99), Note: "one run at a time; ms " + st.parts()}
	f.Ratio = f.FloorPerSecond / f.PerSecond
	return f, err
}

// w3: from the approval published to the step allowed.
func w3(ctx context.Context, _ config, b *bed) (figures, error) {
	if err := b.start(ctx, 1); err != nil {
		return figures{}, err
	}
	const n = 200
	level := 1
	type seen struct {
		opened  events.GateOpenedData
		allowed time.Time
	}
	got := make(chan seen, 2*n) // every gate and every permission
	stop, err := b.st.Watch(ctx, "*", false, func(s jet.Seen) {
		switch s.Kind {
		case events.GateOpened:
			var f events.Event
			var d events.GateOpenedData
			if json.Unmarshal(s.Data, &f) == nil && json.Unmarshal(f.Data, &d) == nil {
				got <- seen{opened: d}
			}
		case events.StepAllowed:
			got <- seen{allowed: time.Now()}
		default: // neither a gate nor a permission
		}
	})
	if err != nil {
		return figures{}, err
	}
	defer stop()
	var took []time.Duration
	for i := range n {
		if err := b.dispatch(ctx, events.Task{ID: fmt.Sprintf("w3-%d", i), Autonomy: &level}); err != nil {
			return figures{}, err
		}
		g := <-got
		begin := time.Now()
		if err := b.st.Publish(ctx, g.opened.AnswerSubject, []byte(`{"decision":"approve"}`), nil); err != nil {
			return figures{}, err
		}
		a := <-got
		took = append(took, a.allowed.Sub(begin))
	}
	return figures{Steps: n, P50MS: quantile(took, 0.5), P99MS: quantile(took, 0.99),
		Note: "approval published to step allowed"}, nil
}

// w4: memory of runs that wait at a gate.
func w4(ctx context.Context, c config, b *bed) (figures, error) {
	if err := b.start(ctx, 1); err != nil {
		return figures{}, err
	}
	level := 1
	opened := make(chan struct{}, c.parked)
	stop, err := b.st.Watch(ctx, "*", false, func(s jet.Seen) {
		if s.Kind == events.GateOpened {
			opened <- struct{}{}
		}
	})
	if err != nil {
		return figures{}, err
	}
	defer stop()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	heapBefore, server, routines := heap(), resident(b), runtime.NumGoroutine()
	for i := range c.parked {
		if err := b.dispatch(ctx, events.Task{ID: fmt.Sprintf("w4-%d", i), Autonomy: &level}); err != nil {
			return figures{}, err
		}
	}
	for range c.parked {
		select {
		case <-opened:
		case <-time.After(time.Minute):
			return figures{}, fmt.Errorf("not all runs reached their gate")
		}
	}
	select { // the persister's last rows
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	perRun := func(a, b uint64) float64 { return (float64(a) - float64(b)) / float64(c.parked) / 1024 }
	return figures{Steps: c.parked,
		Note: fmt.Sprintf("per parked run: services %.1f KiB of heap (bounded by the caches), server %.1f KiB resident; goroutines %d before, %d after",
			perRun(heap(), heapBefore), perRun(resident(b), server), routines, runtime.NumGoroutine())}, nil
}

// w6: one run of very many turns; the cost of a step must not grow.
func w6(ctx context.Context, c config, b *bed) (figures, error) {
	if err := b.start(ctx, c.long); err != nil {
		return figures{}, err
	}
	e, err := b.ends(ctx)
	if err != nil {
		return figures{}, err
	}
	begin, before := time.Now(), b.usage().cpu
	if err := b.many(ctx, e, "w6", 1, 1); err != nil {
		return figures{}, err
	}
	wall, spent := time.Since(begin), b.usage().cpu-before
	s, err := b.state(ctx, "w6-0")
	if err != nil {
		return figures{}, err
	}
	if s.Status != events.Completed {
		return figures{}, fmt.Errorf("the long run is %s: %+v", s.Status, s.Result)
	}
	st, err := b.steps(ctx, []string{"w6-0"})
	if err != nil {
		return figures{}, err
	}
	tenth := max(1, len(st.took)/10)
	first, last := quantile(slices.Clone(st.took[:tenth]), 0.5), quantile(slices.Clone(st.took[len(st.took)-tenth:]), 0.5)
	return figures{Steps: c.long, PerSecond: float64(c.long) / wall.Seconds(), P50MS: quantile(slices.Clone(st.took), 0.5),
			P99MS: quantile(st.took, 0.99), CPUPer1000: spent.Seconds() / float64(c.long) * 1000,
			Note: fmt.Sprintf("median step %.2f ms in the first tenth, %.2f ms in the last: %.2f x", first, last, last/first)},
		nil
}
