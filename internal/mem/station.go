// Package mem is a station in memory: every port of the kernel without a server.
//
// Promises: it keeps the contracts of the ports as internal/jet does and passes the same exams (kerneltest), so a
// program that is right on one is right on the other. Nothing is stored beyond the process. Given a Hand as clock,
// nothing happens by itself: time moves when Advance is called, in an order that is always the same. Faults make the
// ports behave as badly as a replicated server may, and no worse; test/conformance compares the two.
package mem

import (
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// DefaultAckWait is how long a delivered message may go without a sign of life before it is delivered again.
const DefaultAckWait = 30 * time.Second

// Config of a station. The zero value is a station on the wall clock with the terms of a real one.
type Config struct {
	// Clock is nil for the wall clock.
	Clock Clock
	// AckWait is 0 for DefaultAckWait.
	AckWait time.Duration
	// LeaseTerm is 0 for topology.LeaseTerm.
	LeaseTerm time.Duration
	// DrainGrace is how long handlers may go on after their listener was told to stop; with 0 they are told at once, as
	// if the process died.
	DrainGrace time.Duration
	// MaxFacts makes the log full after that many events; 0 is without limit.
	MaxEvents int
}

// Station is one station's streams, buckets and timers. It is safe for concurrent use.
type Station struct {
	name string
	cfg  Config

	mu sync.Mutex
	// Everything below is guarded by mu.
	log []stored
	// logs are the indices in log of the events of each aggregate, by kernel.Key.
	logs     map[string][]int
	late     []kernel.Entry
	latePuts []func() error
	faults   Faults
	asked    asked
	inputs   uint64
	firings  uint64
	queues   *queue.Queues
	timers   map[string]*timer
	// due holds the firings that no one has acknowledged, by subject.
	due      map[string]*queue.Message
	blobs    map[string][]byte
	made     map[string]artifact
	kvs      map[string]*kv
	leases   map[string]time.Time
	live     map[string][][]byte
	watchers map[int]watcher
	watched  int
	dead     []Refused
}

// New makes an empty station. It returns an *events.IDError for a name that cannot be part of a subject.
func New(station string, cfg Config) (*Station, error) {
	if err := events.CheckID("station", station); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = wallClock{}
	}
	if cfg.AckWait <= 0 {
		cfg.AckWait = DefaultAckWait
	}
	if cfg.LeaseTerm <= 0 {
		cfg.LeaseTerm = topology.LeaseTerm
	}
	s := &Station{
		name: station, cfg: cfg, logs: map[string][]int{},
		timers: map[string]*timer{}, due: map[string]*queue.Message{}, blobs: map[string][]byte{},
		made:   map[string]artifact{},
		kvs:    map[string]*kv{},
		leases: map[string]time.Time{}, live: map[string][][]byte{}, watchers: map[int]watcher{},
	}
	s.queues = queue.New(queue.Config{Lock: &s.mu, AckWait: cfg.AckWait, Grace: cfg.DrainGrace,
		AfterFunc: cfg.Clock.AfterFunc, Fault: s.fault, AckLost: s.ackLost})
	return s, nil
}

// Name returns the station's id.
func (s *Station) Name() string { return s.name }

// Journal returns the log of runs with the right to say everything.
func (s *Station) Journal() kernel.Journal { return s.JournalFor(events.RunAggregate) }

// JournalFor returns the log of the aggregates of a name, with the right to append everything.
func (s *Station) JournalFor(aggregate string) kernel.Journal {
	return journal{s: s, aggregate: aggregate}
}

// JournalOf returns the log of runs with the rights of one service: what it may not say is Denied.
func (s *Station) JournalOf(by events.Service) kernel.Journal {
	return journal{s: s, aggregate: events.RunAggregate, by: by}
}

// Inbox returns the deliveries of all roles.
func (s *Station) Inbox() kernel.Inbox { return s.queues }

// Timers returns the timers of the station's runs.
func (s *Station) Timers() kernel.Timers { return s.TimersFor(events.RunAggregate) }

// TimersFor returns the timers of the aggregates of a name.
func (s *Station) TimersFor(aggregate string) kernel.Timers { return timers{s, aggregate} }

// Blobs returns the object store.
func (s *Station) Blobs() kernel.Blobs { return blobs{s} }

// Shelf returns the bucket of that name; it is made when first asked for.
func (s *Station) KV(bucket string) kernel.KV {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kvs[bucket] == nil {
		s.kvs[bucket] = &kv{s: s, values: map[string][]kept{}}
	}
	return s.kvs[bucket]
}

// Leases returns the leases of the station's instances.
func (s *Station) Leases() kernel.Leases { return leases{s} }

// Live returns the outlet of what is not kept; see Station.Watch.
func (s *Station) Live() kernel.Live { return live{s} }

// Refusals returns the dead-letter list; see Station.Dead.
func (s *Station) Refusals() kernel.Refusals { return refusals{s} }

var (
	_ kernel.Journal  = journal{}
	_ kernel.Timers   = timers{}
	_ kernel.Blobs    = blobs{}
	_ kernel.KV       = (*kv)(nil)
	_ kernel.Leases   = leases{}
	_ kernel.Live     = live{}
	_ kernel.Refusals = refusals{}
)
