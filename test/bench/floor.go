package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// resident is the first server's resident memory now, in bytes.
func resident(b *bed) uint64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", b.children[0].Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// floorRun is what a handler of the floor needs to know of a run: nothing but how many steps are left.
type floorRun struct {
	left atomic.Int64
	done chan struct{}
}

// floor does what the workload does to the log, and nothing else: the same four guarded appends of the same sizes per
// step, delivered three times, to handlers that only make the next append. It returns steps per second.
func (b *bed) floor(ctx context.Context, runs, steps, inFlight int) (float64, error) {
	const station = "floor"
	if b.how.up {
		return 0, nil // its server has no user for it
	}
	if err := b.user.Setup().Apply(ctx, station, jet.ApplyOptions{Replicas: b.how.nodes}); err != nil {
		return 0, err
	}
	b.rounds++
	var state sync.Map
	receive, stop := context.WithCancel(ctx)
	conn, err := jet.Connect(ctx, jet.Config{URL: b.url, Name: station})
	if err != nil {
		stop()
		return 0, err
	}
	defer conn.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, role := range []events.Service{events.Executor, events.Gatekeeper, events.Toolrunner} {
		st, err := conn.Station(station)
		if err != nil {
			return 0, err
		}
		j := st.Journal()
		wg.Go(func() {
			_ = st.Inbox().Listen(receive, role, topology.SubscriptionsOf(role).Workers,
				func(ctx context.Context, m kernel.Message) {
					b.floorHop(ctx, j, m, &state)
				})
		})
	}
	first, err := conn.Station(station)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	room := make(chan struct{}, inFlight) // a place per run under way
	var all sync.WaitGroup
	for i := range runs {
		room <- struct{}{}
		id := fmt.Sprintf("floor-%d-%d", b.rounds, i)
		fr := &floorRun{done: make(chan struct{})}
		fr.left.Store(int64(steps))
		state.Store(id, fr)
		if ack := first.Journal().Append(ctx, kernel.Entry{ID: id, Kind: events.StepAllowed,
			Bytes: body(900)}); ack.Outcome != kernel.Stored {
			return 0, fmt.Errorf("floor: %s: %w", ack.Outcome, ack.Err)
		}
		all.Go(func() {
			defer func() { <-room }()
			select {
			case <-fr.done:
			case <-ctx.Done():
			}
		})
	}
	all.Wait()
	return float64(runs*steps) / time.Since(begin).Seconds(), nil
}

// body is filler that a watcher could still read as JSON.
func body(n int) []byte { return []byte(`{"x":"` + strings.Repeat("x", n-8) + `"}`) }

// floorHop makes the appends that follow from a message: turn.finished, call.allowed, or call.started and
// call.finished.
func (b *bed) floorHop(ctx context.Context, j kernel.Journal, m kernel.Message, state *sync.Map) {
	sub, ok := events.ParseRunSubject(m.Subject())
	v, known := state.Load(sub.Run)
	if !ok || !known {
		_ = m.Ack(ctx)
		return
	}
	fr := v.(*floorRun)
	say := func(head uint64, k events.Kind, n int) uint64 {
		for {
			ack := j.Append(ctx, kernel.Entry{ID: sub.Run, Kind: k, Head: head, Bytes: body(n)})
			if ack.Outcome != kernel.Transient {
				return ack.Seq
			}
		}
	}
	switch events.Kind(strings.Join(sub.Rest[1:], ".")) {
	case events.StepAllowed, events.CallFinished:
		if fr.left.Add(-1) < 0 {
			close(fr.done)
			break
		}
		say(m.Seq(), events.TurnFinished, 2200)
	case events.TurnFinished:
		say(m.Seq(), events.CallAllowed, 900)
	case events.CallAllowed:
		say(say(m.Seq(), events.CallStarted, 850), events.CallFinished, 1000)
	default: // ends the chain
	}
	_ = m.Ack(ctx) // a message that comes twice makes a conflict, which is ignored here
}
