package service

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// awayLog is a log that may be away. asked counts reads.
type awayLog struct {
	kernel.Journal
	away  atomic.Bool
	asked atomic.Int64
}

func (l *awayLog) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	l.asked.Add(1)
	if l.away.Load() {
		return nil, false, errors.New("away")
	}
	return l.Journal.Read(ctx, id, after)
}

func (l *awayLog) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	l.asked.Add(1)
	if l.away.Load() {
		return kernel.Record{}, false, errors.New("away")
	}
	return l.Journal.Last(ctx, id)
}

// one is an inbox that gives one message, whose handler it waits for.
type one struct{ kernel.Inbox }

func (one) Listen(ctx context.Context, _ events.Service, _ int, receive func(context.Context, kernel.Message)) error {
	receive(context.WithoutCancel(ctx), nil)
	<-ctx.Done()
	return nil
}

func TestHalting(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	log := &awayLog{Journal: st.JournalFor(events.HaltAggregate)}
	ledger := func() *halt.Ledger {
		l, err := halt.NewLedger(halt.LedgerConfig{Station: "s", By: events.Planner, Journal: log, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	write := func(c events.HaltControl, input uint64) {
		t.Helper()
		_, err := ledger().Write(t.Context(), events.HaltID, func(s halt.State, now time.Time) ([]events.Payload, error) {
			s, err := halt.Steer(s, halt.Wish{HaltControl: c, Input: input}, now)
			return s.Changes(), err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	comes := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatalf("waited for: %s", what)
		}
	}
	g := &halting{ledger: ledger(), log: zerolog.Nop(), changed: make(chan struct{})}
	began, ended := make(chan struct{}, 8), make(chan struct{}, 8) // more than there are messages
	run := func(ctx context.Context) error {
		return cut{one{}}.Listen(ctx, events.Toolrunner, 1, func(work context.Context, _ kernel.Message) {
			began <- struct{}{}
			<-work.Done()
			if Halted(work) {
				ended <- struct{}{}
			}
		})
	}
	log.away.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	go func() { _ = g.during(ctx, run) }() // it ends with the test: its last handler waits for a grace that this inbox has not
	for log.asked.Load() < 2 {
		select {
		case <-began:
			t.Fatal("PLUS-21a a service that does not know whether the station is halted works")
		case <-time.After(time.Millisecond):
		}
	}
	log.away.Store(false)
	comes("a message", began)

	write(events.HaltControl{Action: events.HaltAction, By: "anna", Reason: "why"}, 1)
	comes("the end of the handler", ended)
	for g.err() == nil {
		<-time.After(time.Millisecond)
	}
	log.away.Store(true) // what was known holds
	for n := log.asked.Load(); log.asked.Load() < n+2; {
		<-time.After(time.Millisecond)
	}
	if err := g.err(); !errors.Is(err, errHalted) || len(began) > 0 {
		t.Errorf("PLUS-21a while the log is away: %v", err)
	}
	log.away.Store(false)
	write(events.HaltControl{Action: events.ReleaseAction, Number: 1}, 2)
	comes("a message after the release", began)

	st.Damage(1, []byte("{}"))
	damaged := &halting{ledger: ledger(), log: zerolog.Nop(), changed: make(chan struct{})}
	if err := damaged.look(t.Context()); err != nil || !errors.Is(damaged.err(), errHalted) {
		t.Errorf("PLUS-21a a damaged log: %v, %v", err, damaged.err())
	}
	stop()
	// The handler of a service that is told to stop ends by itself, or by the grace of its inbox: not by this.
	select {
	case <-ended:
		t.Error("PLUS-21a a stop is taken for a halt")
	default:
	}
}

func TestRestoring(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := halt.NewLedger(halt.LedgerConfig{Station: "s", By: events.Planner, Journal: st.JournalFor(events.HaltAggregate), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	config := st.KV(topology.ConfigBucket)
	look := func() error {
		g := &halting{ledger: l, config: config, log: zerolog.Nop(), changed: make(chan struct{})}
		return errors.Join(g.look(t.Context()), g.err())
	}
	if err := config.Put(t.Context(), topology.RestoreKey, nil); err != nil {
		t.Fatal(err)
	}
	if err := look(); !errors.Is(err, errHalted) || !strings.Contains(err.Error(), "inspan restore") {
		t.Errorf("PLUS-18b a service of a station whose restore is not done: %v", err)
	}
	if err := config.Delete(t.Context(), topology.RestoreKey); err != nil {
		t.Fatal(err)
	}
	if err := look(); err != nil {
		t.Errorf("PLUS-18b once it is done: %v", err)
	}
}

func TestAlwaysWaitsForRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, err := mem.New("s", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		config := st.KV(topology.ConfigBucket)
		if err := config.Put(t.Context(), topology.RestoreKey, nil); err != nil {
			t.Fatal(err)
		}
		h := &Host{ports: Ports{Config: config, Entropy: rand.Reader}, log: zerolog.Nop()}
		var took atomic.Bool
		ended := make(chan error, 1) // it never waits for us
		go func() {
			ended <- h.always(t.Context(), Wiring{Role: events.Planner, Always: func(context.Context, *Instance) error {
				took.Store(true)
				return nil
			}}, &halting{})
		}()
		synctest.Wait()
		if took.Load() {
			t.Error("PLUS-18b a control is taken at a place whose restore is not done")
		}
		if err := config.Delete(t.Context(), topology.RestoreKey); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || !took.Load() {
			t.Errorf("PLUS-18b once it is done: %v, %t", err, took.Load())
		}
	})
}
