package service

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// archived shows how far an archive is behind. It is registered with the first archive of the process: a persister that
// begins again, after a halt, has another.
type archived struct {
	once sync.Once
	mu   sync.Mutex
	// waits is guarded by mu.
	waits func() time.Duration
}

// Archive shows for how long the run has waited that waits longest to be archived.
func (m *Metrics) Archive(waits func() time.Duration) {
	a := &m.archive
	a.mu.Lock()
	a.waits = waits
	a.mu.Unlock()
	a.once.Do(func() {
		desc := prometheus.NewDesc("inspan_archive_waiting_seconds",
			"For how long the run has waited that waits longest to be archived; 0 where none does.", nil, nil)
		m.registry.MustRegister(asked{descs: []*prometheus.Desc{desc},
			ask: func(_ context.Context, give func(*prometheus.Desc, float64, ...string)) {
				a.mu.Lock()
				defer a.mu.Unlock()
				give(desc, a.waits().Seconds())
			}})
	})
}

// ShowArchive is Metrics.Archive of the process that the instance is in.
func (in *Instance) ShowArchive(waits func() time.Duration) { in.host.metrics.Archive(waits) }
