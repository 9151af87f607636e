package localstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Durability says when a local store acknowledges, for people.
const Durability = "sync always (local store)"

// Config of a station. Path and Station are needed.
type Config struct {
	// Path of the file; it is made where there is none, readable for its owner alone.
	Path    string
	Station string
	// Spare is whether the store of an earlier version of inspan in the same folder holds nothing, and may be passed over.
	Spare bool
	// Grace is how long handlers may go on after a listener was told to stop; 0 means 25 s.
	Grace time.Duration
	// AckWait is 0 for topology.AckWait, LeaseTerm 0 for topology.LeaseTerm.
	AckWait, LeaseTerm time.Duration
}

// Station is one station's log, queues, stores and timers in a file. It is safe for concurrent use.
type Station struct {
	name  string
	term  time.Duration
	store *store
	mail  *queue.Queues
	// hints are the calls of OnEnd under way: whoever is called may want to read the log that is just being written.
	hints sync.WaitGroup

	mu sync.Mutex
	// Everything below is guarded by mu.
	alarms   map[string]*alarm
	leases   map[string]time.Time
	watchers map[int]watcher
	endings  map[int]func(runID string)
	answers  map[int]func(run string) [][]byte
	watched  int
	firings  uint64
	closed   bool
}

// Open opens the station of a file and puts what was not acknowledged before the roles again. Close must be called.
// It returns ErrInUse (wrapped) where another process has the file.
func Open(ctx context.Context, cfg Config) (*Station, error) {
	if err := events.CheckID("station", cfg.Station); err != nil {
		return nil, err
	}
	if cfg.Path == "" {
		return nil, errors.New("a local station needs the path of its file")
	}
	if cfg.LeaseTerm <= 0 {
		cfg.LeaseTerm = topology.LeaseTerm
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 25 * time.Second
	}
	st, err := open(cfg.Path, cfg.Station, cfg.Spare)
	if err != nil {
		return nil, err
	}
	s := &Station{name: cfg.Station, term: cfg.LeaseTerm, store: st,
		mail:   queue.New(queue.Config{AckWait: cfg.AckWait, Grace: cfg.Grace}),
		alarms: map[string]*alarm{}, leases: map[string]time.Time{}, watchers: map[int]watcher{},
		endings: map[int]func(string){}, answers: map[int]func(string) [][]byte{}}
	if err := s.restore(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("local store %s: %w", cfg.Path, err), s.Close())
	}
	return s, nil
}

// restore fills the queues and sets the timers again.
func (s *Station) restore(ctx context.Context) error {
	return s.store.view(ctx, func(t *tx) error {
		err := t.scan(pendingBucket, nil, nil, func(key, _ []byte) error { return s.restoreEvent(t, key) })
		if err != nil {
			return err
		}
		err = t.scan(inputsBucket, nil, nil, func(key, value []byte) error {
			seq, err := numberAt(key)
			if err != nil {
				return err
			}
			var head inputHead
			data, err := split(value, &head)
			if err != nil {
				return err
			}
			return s.pushInput(head.Subject, data, head.Header, seq, time.Unix(0, head.At))
		})
		if err != nil {
			return err
		}
		return t.scan(timersBucket, nil, nil, func(key, value []byte) error {
			at, err := numberAt(value)
			if err == nil {
				after, _ := numberAt(value[8:]) // an earlier version kept none
				s.arm(string(key), int64(at), after)
			}
			return err
		})
	})
}

// restoreEvent puts an event before a role that has not acknowledged it.
func (s *Station) restoreEvent(t *tx, key []byte) error {
	seq, err := numberAt(key)
	if err != nil {
		return err
	}
	f, branch, ok, err := eventAt(t, seq)
	if err != nil || !ok {
		return err
	}
	position := seq
	if branch > 0 {
		position += localSeq
	}
	s.push(events.Service(key[8:]), f, position, f.Bytes)
	return nil
}

// Close stops the timers and lets go of the file. Whoever listens must have returned before.
func (s *Station) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, a := range s.alarms {
		a.stop()
	}
	s.mu.Unlock()
	s.hints.Wait()
	return s.store.close()
}

// Pending counts the messages that a role of this process has not acknowledged yet.
func (s *Station) Pending(role events.Service) int { return s.mail.Pending(role) }

// Name returns the station's id.
func (s *Station) Name() string { return s.name }

// Journal returns the log of runs with the right to say everything: all roles are in one process.
func (s *Station) Journal() kernel.Journal { return s.JournalFor(events.RunAggregate) }

// JournalFor returns the log of the aggregates of a name.
func (s *Station) JournalFor(aggregate string) kernel.Journal { return journal{s, aggregate} }

// Inbox returns the deliveries of all roles.
func (s *Station) Inbox() kernel.Inbox { return s.mail }

// Timers returns the timers of the station's runs.
func (s *Station) Timers() kernel.Timers { return s.TimersFor(events.RunAggregate) }

// TimersFor returns the timers of the aggregates of a name.
func (s *Station) TimersFor(aggregate string) kernel.Timers { return timers{s, aggregate} }

// Blobs returns the object store.
func (s *Station) Blobs() kernel.Blobs { return blobs{s.store} }

// Shelf returns the bucket of that name.
func (s *Station) KV(bucket string) kernel.KV { return kv{s.store, bucket} }

// Leases returns the leases of the instances in this process.
func (s *Station) Leases() kernel.Leases { return leases{s} }

// Live returns the outlet of what is not kept; see Station.Watch.
func (s *Station) Live() kernel.Live { return live{s} }

// Refusals returns the dead-letter list; see Station.Dead.
func (s *Station) Refusals() kernel.Refusals { return refusals{s.store} }

var (
	_ kernel.Journal  = journal{}
	_ kernel.Timers   = timers{}
	_ kernel.Blobs    = blobs{}
	_ kernel.KV       = kv{}
	_ kernel.Leases   = leases{}
	_ kernel.Live     = live{}
	_ kernel.Refusals = refusals{}
)

// Publish stores the message of an outsider for the role that receives its subject. header may be nil.
func (s *Station) Publish(ctx context.Context, subject string, data []byte, header map[string]string) error {
	_, err := s.PublishAt(ctx, subject, data, header)
	return err
}

// watcher receives what is said of a run.
type watcher struct {
	run     string
	live    bool
	receive func(seq uint64, data []byte)
}

// Watch has hear called with each event of a run that is stored from now on or, with live, with what is not kept,
// until stop is called. hear must be quick and must not call the station.
func (s *Station) Watch(run string, live bool, receive func(seq uint64, data []byte)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.watched
	s.watched++
	s.watchers[id] = watcher{run: run, live: live, receive: receive}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
}

// OnEnd has hint called with the id of each run that ends from now on, until stop is called. Close waits for it.
func (s *Station) OnEnd(hint func(runID string)) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.watched
	s.watched++
	s.endings[id] = hint
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.endings, id)
	}, nil
}

// ended hints that a run has ended.
func (s *Station) ended(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, hint := range s.endings {
		s.hints.Go(func() { hint(run) })
	}
}

func (s *Station) notify(run string, live bool, seq uint64, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		if w.run == run && w.live == live {
			w.receive(seq, data)
		}
	}
}

type live struct{ s *Station }

// Publish implements kernel.Live.
func (l live) Publish(run string, data []byte) { l.s.notify(run, true, 0, data) }

type leases struct{ s *Station }

// Renew implements kernel.Leases. Leases end with the process, as the instances do.
func (l leases) Renew(ctx context.Context, instance string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := events.CheckID("instance", instance); err != nil {
		return err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.leases[instance] = time.Now().Add(l.s.term)
	return nil
}

// Alive implements kernel.Leases.
func (l leases) Alive(ctx context.Context, instance string) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return time.Now().Before(l.s.leases[instance]), nil
}

// Logged returns the runs that there are events of, sorted.
func (s *Station) Logged(ctx context.Context) (runs []string, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		for from := []byte(nil); ; {
			key := ""
			err := t.scan(logsBucket, nil, from, func(k, _ []byte) error {
				before, _, _ := bytes.Cut(k, []byte{0})
				key = string(before)
				return errEnough
			})
			if err != nil || key == "" {
				return err
			}
			if aggregate, id := kernel.ParseKey(key); aggregate == events.RunAggregate {
				runs = append(runs, id)
			}
			from = append([]byte(key), 1) // behind all events of this one
		}
	})
	return runs, err
}

// Empty reports whether the store holds nothing that would be missed.
func (s *Station) Empty(ctx context.Context) (empty bool, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		empty = true
		for _, b := range []bucket{branchesBucket, eventsBucket, inputsBucket, timersBucket, objectsBucket, valuesBucket,
			deadBucket} {
			in, err := t.bucket(b)
			if err != nil {
				return err
			}
			first, _ := in.Cursor().First()
			empty = empty && first == nil
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look whether the local store is empty: %w", err)
	}
	return empty, nil
}
