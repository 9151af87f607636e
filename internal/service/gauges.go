package service

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// scrapeTime bounds what one scrape asks the server.
const scrapeTime = 3 * time.Second

// asked is a collector that asks when it is scraped, and never else: an idle station that no one scrapes asks nothing.
// What cannot be had is left out, so that an alert on its absence can tell.
type asked struct {
	descs []*prometheus.Desc
	ask   func(ctx context.Context, give func(d *prometheus.Desc, v float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (a asked) Describe(out chan<- *prometheus.Desc) {
	for _, d := range a.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (a asked) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	a.ask(ctx, func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	})
}

// Queue shows how much waits for a role. All instances of a role show the same: take the largest, not the sum.
func (m *Metrics) Queue(role events.Service,
	depth func(context.Context, events.Service) (waiting, open uint64, err error)) {
	if depth == nil {
		return
	}
	labels := prometheus.Labels{"role": string(role)}
	waiting := prometheus.NewDesc("inspan_queue_waiting", "Messages that wait for the role, in all its consumers.", nil,
		labels)
	open := prometheus.NewDesc("inspan_queue_unacknowledged", "Messages that instances of the role work on.", nil, labels)
	m.registry.MustRegister(asked{descs: []*prometheus.Desc{waiting, open},
		ask: func(ctx context.Context, give func(*prometheus.Desc, float64, ...string)) {
			w, o, err := depth(ctx, role)
			if err == nil {
				give(waiting, float64(w))
				give(open, float64(o))
			}
		}})
}

// Station shows how busy and how full a station is. All planners show the same: take the largest, not the sum.
func (m *Metrics) Station(stats kernel.StationStats) {
	if stats == nil {
		return
	}
	running := prometheus.NewDesc("inspan_runs_active", "Runs that were created and have not ended.", nil, nil)
	used := prometheus.NewDesc("inspan_store_used_bytes", "Bytes in a store that has a limit.", []string{"store"}, nil)
	limit := prometheus.NewDesc("inspan_store_limit_bytes", "Bytes that a store may have.", []string{"store"}, nil)
	m.registry.MustRegister(asked{descs: []*prometheus.Desc{running, used, limit},
		ask: func(ctx context.Context, give func(*prometheus.Desc, float64, ...string)) {
			if n, err := stats.Running(ctx); err == nil {
				give(running, float64(n))
			}
			fills, err := stats.Fills(ctx)
			if err != nil {
				return
			}
			for _, f := range fills {
				give(used, float64(f.Used+f.Reserve), f.Store)
				give(limit, float64(f.Limit), f.Store)
			}
		}})
}
