package station

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
)

// tasks are the goroutines of a station, and what became of them.
type tasks struct {
	cancel   context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex
	failures []error
	failed   chan error
}

func newTasks() *tasks {
	return &tasks{failed: make(chan error, 1)} // one: the first failure is reported, all are kept
}

// Limits of the persister's last work, after the other roles have ended.
const (
	indexWait  = 5 * time.Second
	indexCheck = 2 * time.Millisecond
)

// work is the context of the roles; it ends with Close.
func (t *tasks) work() context.Context {
	work, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	return work
}

// roles run one of the services until work ends, as *all.Host does.
type roles interface {
	Run(work context.Context, role events.Service) error
}

func (t *tasks) serve(work context.Context, host roles, role events.Service) {
	t.running.Go(func() { t.runRole(work, host, role) })
}

// runRole runs a role until work ends.
func (t *tasks) runRole(work context.Context, host roles, role events.Service) {
	if err := host.Run(work, role); err != nil && work.Err() == nil {
		t.fail(fmt.Errorf("%s: %w", role, err))
	}
}

// serveInOrder runs the roles until work ends; the persister ends last, when it has read what the others appended. A
// command that only reads the file runs no role, so an index that is behind when the program ends would show an old
// state.
func (t *tasks) serveInOrder(work context.Context, host roles, local *localstore.Station) {
	index, end := context.WithCancel(context.WithoutCancel(work))
	var others sync.WaitGroup
	for _, role := range events.Services() {
		if role == events.Persister {
			t.serve(index, host, role)
			continue
		}
		others.Add(1)
		t.running.Go(func() {
			defer others.Done()
			t.runRole(work, host, role)
		})
	}
	t.running.Go(func() {
		defer end()
		others.Wait()
		tick := time.NewTicker(indexCheck)
		defer tick.Stop()
		for limit := time.Now().Add(indexWait); local.Pending(events.Persister) > 0 && time.Now().Before(limit); {
			<-tick.C
		}
	})
}

func (t *tasks) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, err)
	select {
	case t.failed <- err:
	default:
	}
}
