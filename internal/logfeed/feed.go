package logfeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Log is the log of a station.
type Log interface {
	// ReadLog returns the events after a position, in order; more says that there are others behind them.
	ReadLog(ctx context.Context, after uint64) (evs []jet.Logged, more bool, err error)
	// WatchLog calls back with each event as it is stored, in order, until stop is called. It may miss some.
	WatchLog(receive func(jet.Logged)) (stop func(), err error)
}

// Positions are where the durable consumers of the roles stand in the log.
type Positions interface {
	Position(ctx context.Context, station string, role events.Service) (uint64, error)
	SetPosition(ctx context.Context, station string, role events.Service, position uint64) error
}

// Config holds what a feed needs.
type Config struct {
	Station   string
	Log       Log
	Positions Positions
	// Inputs delivers what is not in the log: messages from outside and timers.
	Inputs kernel.Inbox
	// Grace is how long handlers may go on after a listener was told to stop.
	Grace time.Duration
	// Every is how often positions are set at most; 0 means DefaultEvery. AckWait is 0 for topology.AckWait.
	Every, AckWait time.Duration
	// MostOpen is how many events a role may have that it has not acknowledged; 0 means DefaultOpen.
	MostOpen int
	// Failed is called where the log could not be read or a position not be stored for a role; it is tried again. May be
	// nil.
	Failed func(role events.Service, err error)
}

// DefaultOpen is four times the limit of a durable consumer: the persister acknowledges the events of a second
// together, and what does not fit is read again from the log.
const DefaultOpen = 4 * 4096

// DefaultEvery is how often positions are set: after a kill the events of this time are received again.
const DefaultEvery = time.Second

// A server counts what is behind a position that is set, which takes as long as the log has subjects, and nothing is
// appended meanwhile. So positions take one part in storeShare of the time, and are set every mostEvery at the latest.
const (
	storeShare = 20
	mostEvery  = 30 * time.Second
)

// Feed is the kernel.Inbox of all roles of a process.
type Feed struct {
	cfg     Config
	queues  *queue.Queues
	readers []*reader
	stop    func()
	mu      sync.Mutex
	// seen is the last position that was republished; guarded by mu.
	seen uint64
	// watchers are called with each event of a run; guarded by mu, and not changed in place.
	watchers []*watcher
}

type watcher struct {
	receive func(runID string, r kernel.Record)
}

var _ kernel.Inbox = (*Feed)(nil)

// New checks the configuration.
func New(cfg Config) (*Feed, error) {
	if cfg.Log == nil || cfg.Positions == nil || cfg.Inputs == nil {
		return nil, errors.New("a feed needs a log, positions and an inbox for what is not in the log")
	}
	if err := events.CheckID("station", cfg.Station); err != nil {
		return nil, err
	}
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.MostOpen <= 0 {
		cfg.MostOpen = DefaultOpen
	}
	return &Feed{cfg: cfg, queues: queue.New(queue.Config{AckWait: cfg.AckWait, Grace: cfg.Grace})}, nil
}

// Open finds where each role goes on and begins to receive. Run and, at the end, Close must be called.
func (f *Feed) Open(ctx context.Context) error {
	for _, role := range events.Services() {
		at, err := f.cfg.Positions.Position(ctx, f.cfg.Station, role)
		if err != nil {
			return err
		}
		f.readers = append(f.readers, &reader{feed: f, role: role, next: at + 1, stored: at, wake: make(chan struct{}, 1)})
	}
	stop, err := f.cfg.Log.WatchLog(f.receive)
	f.stop = stop
	return err
}

// receive takes an event as the log republishes it.
func (f *Feed) receive(e jet.Logged) {
	f.mu.Lock()
	f.seen = e.Seq
	watchers := f.watchers
	f.mu.Unlock()
	sub, ok := events.ParseAggregateSubject(e.Subject)
	if !ok || len(sub.Rest) != 3 || sub.Rest[0] != "evt" {
		return // nothing is stored on other subjects
	}
	k := events.Kind(sub.Rest[1] + "." + sub.Rest[2])
	if sub.Aggregate == events.RunAggregate {
		for _, w := range watchers {
			w.receive(sub.ID, kernel.Record{Seq: e.Seq, Kind: k, Bytes: e.Data})
		}
	}
	receivers := topology.Receivers(sub.Aggregate, k)
	for _, r := range f.readers {
		r.receive(e, slices.Contains(receivers, r.role))
	}
}

// SubscribeRepublished calls back with every event of the station's runs as it is stored, from now on, until stop is
// called.
func (f *Feed) SubscribeRepublished(receive func(runID string, r kernel.Record)) (stop func(), err error) {
	w := &watcher{receive}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(slices.Clone(f.watchers), w)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watchers = slices.DeleteFunc(slices.Clone(f.watchers), func(x *watcher) bool { return x == w })
	}, nil
}

// Run reads what was missed and sets positions until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for _, r := range f.readers {
		readers.Go(func() { r.run(ctx) })
	}
	tick := time.NewTicker(f.cfg.Every)
	defer tick.Stop()
	var next time.Time
	for last := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		quiet := f.seen == last
		last = f.seen
		f.mu.Unlock()
		if quiet {
			f.look(ctx)
		}
		if now := time.Now(); !now.Before(next) {
			f.store(ctx)
			took := time.Since(now)
			next = now.Add(min(took*storeShare, max(mostEvery, f.cfg.Every)))
		}
	}
}

// look finds out whether the log has something that was not republished to this process. What one reader has read by
// itself, the others are told of: the log behind it may have nothing more.
func (f *Feed) look(ctx context.Context) {
	var reaches uint64
	for _, r := range f.readers {
		reaches = max(reaches, r.position())
	}
	if evs, _, err := f.cfg.Log.ReadLog(ctx, reaches); err == nil && len(evs) > 0 {
		reaches = evs[len(evs)-1].Seq
	}
	for _, r := range f.readers {
		r.behind(reaches)
	}
}

// store sets the consumers to what the roles have acknowledged.
func (f *Feed) store(ctx context.Context) {
	for _, r := range f.readers {
		if err := r.store(ctx); err != nil && ctx.Err() == nil {
			f.failed(r.role, err)
		}
	}
}

func (f *Feed) failed(role events.Service, err error) {
	if f.cfg.Failed != nil {
		f.cfg.Failed(role, err)
	}
}

// Close receives nothing more and stores what has been acknowledged. Run and all listeners have returned by then.
func (f *Feed) Close(ctx context.Context) {
	if f.stop != nil {
		f.stop()
	}
	f.store(ctx)
}

// Listen implements kernel.Inbox: a role receives the events of the log and what is not in it, each with workers of its
// own. After ctx ended, handlers may go on for the grace; then their context ends.
func (f *Feed) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	both, stop := context.WithCancel(ctx)
	defer stop()
	logged := make(chan error, 1) // it never waits for us
	go func() { logged <- f.queues.Listen(both, role, workers, receive) }()
	err := f.cfg.Inputs.Listen(ctx, role, workers, receive)
	stop()
	if err := errors.Join(err, <-logged); err != nil {
		return fmt.Errorf("listen as %s: %w", role, err)
	}
	return nil
}
