package jet

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/pkg/events"
)

// Seen is what a watcher sees of a run.
type Seen struct {
	Run string
	// Live says that Data is not kept and no event; then the rest is empty.
	Live bool
	// Kind of the event, Seq its position in the log.
	Kind events.Kind
	Seq  uint64
	// Before is the position of the event of the same kind and run before it, 0 for none.
	Before uint64
	Data   []byte
}

// Watch has see called with each event of a run as it is stored, and with what is live if asked for, in order, until
// ctx ends or stop is called. run is an id, or "*" for all runs of the station. When Watch returns, the server knows
// of it: nothing stored later is missed but through a lost connection or a see that is too slow, which the journal
// makes good. stop waits until see has returned; see must not call it.
func (s *Station) Watch(ctx context.Context, run string, withLive bool, see func(Seen)) (stop func(), err error) {
	if run != "*" {
		if err := events.CheckID("run", run); err != nil {
			return nil, err
		}
	}
	subjects := []string{events.StreamSubject(s.name, run)}
	if withLive {
		subjects = append(subjects, events.LiveSubject(s.name, run))
	}
	return s.watch(ctx, subjects, see)
}

func (s *Station) watch(ctx context.Context, subjects []string, see func(Seen)) (stop func(), err error) {
	w := &watcher{see: see}
	for _, subject := range subjects {
		sub, err := s.c.nc.Subscribe(subject, w.receive)
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("watch %s: %w", subject, err)
		}
		w.subs = append(w.subs, sub)
		if err := s.c.subscribed(ctx, subject); err != nil {
			w.stop()
			return nil, fmt.Errorf("watch %s: %w", subject, err)
		}
	}
	release := context.AfterFunc(ctx, w.stop)
	return func() { release(); w.stop() }, nil
}

type watcher struct {
	subs []*nats.Subscription
	see  func(Seen)
	mu   sync.Mutex
	// ended is guarded by mu, which is held while see runs.
	ended bool
}

func (w *watcher) stop() {
	for _, sub := range w.subs {
		_ = sub.Unsubscribe() // it fails only where it is gone already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *watcher) receive(m *nats.Msg) {
	p, ok := events.ParseAggregateSubject(m.Subject)
	if !ok {
		return
	}
	seen := Seen{Run: p.ID, Data: m.Data, Live: p.Rest[0] == "live"}
	if !seen.Live {
		seen.Kind = kindOf(stamped(m, "Nats-Subject"))
		seen.Seq, _ = strconv.ParseUint(stamped(m, "Nats-Sequence"), 10, 64)
		seen.Before, _ = strconv.ParseUint(stamped(m, "Nats-Last-Sequence"), 10, 64)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.see(seen)
	}
}
