package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Metrics of the services in one process.
type Metrics struct {
	registry *prometheus.Registry
	handled  *prometheus.CounterVec
	took     *prometheus.HistogramVec
	appended *eventMetrics
	archive  archived
}

// NewMetrics makes an empty registry with the process's own figures.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "inspan_messages_total",
			Help: "Messages handled, by role, kind and result."}, []string{"role", "kind", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "inspan_message_seconds",
			Help:    "Time from receiving a message to its acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 4, 10)},
			[]string{"role", "kind"}),
	}
	m.appended = newEventMetrics(m.registry)
	m.registry.MustRegister(m.handled, m.took)
	m.registry.MustRegister(ofProcess()...)
	return m
}

// ofProcess are the process's own figures: they serve all registries of it, and take long to make.
var ofProcess = sync.OnceValue(func() []prometheus.Collector {
	return []prometheus.Collector{collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
})

// Observe returns the function a role's loop reports to. Kinds come from our own table, so there are few.
func (m *Metrics) Observe(role events.Service) func(kind, result string, took time.Duration) {
	return func(kind, result string, took time.Duration) {
		m.handled.WithLabelValues(string(role), kind, result).Inc()
		m.took.WithLabelValues(string(role), kind).Observe(took.Seconds())
	}
}

// Ledger shows the counters of a role's ledger.
func (m *Metrics) Ledger(role events.Service, stats func() kernel.Stats) {
	for name, read := range map[string]func(kernel.Stats) uint64{
		"appends":    func(s kernel.Stats) uint64 { return s.Appends },
		"conflicts":  func(s kernel.Stats) uint64 { return s.Conflicts },
		"transients": func(s kernel.Stats) uint64 { return s.Transients },
		"unknowns":   func(s kernel.Stats) uint64 { return s.Unknowns },
		"duplicates": func(s kernel.Stats) uint64 { return s.Duplicates },
		"reads":      func(s kernel.Stats) uint64 { return s.Reads },
		"bytes":      func(s kernel.Stats) uint64 { return s.Bytes },
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "inspan_ledger_" + name + "_total",
			Help: "Ledger " + name + ".", ConstLabels: prometheus.Labels{"role": string(role)}},
			func() float64 { return float64(read(stats())) }))
	}
}

// Damage shows whether the station has lost something of its store.
func (m *Metrics) Damage(lost func() error) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "inspan_store_damage",
		Help: "1 where the station has lost something of its store and begins no run, else 0."}, func() float64 {
		if lost() != nil {
			return 1
		}
		return 0
	}))
}

// Requests returns the function that the gateway reports each HTTP request to. Routes come from its own table, so there
// are few.
func (m *Metrics) Requests() func(route string, status int, took time.Duration) {
	answered := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "inspan_http_requests_total",
		Help: "HTTP requests to the gateway, by route and status."}, []string{"route", "status"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "inspan_http_request_seconds",
		Help:    "Time from the header of an HTTP request to the end of its answer.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)},
		[]string{"route"})
	m.registry.MustRegister(answered, took)
	return func(route string, status int, d time.Duration) {
		answered.WithLabelValues(route, strconv.Itoa(status)).Inc()
		took.WithLabelValues(route).Observe(d.Seconds())
	}
}

// Serve answers /healthz, /readyz and /metrics until ctx ends. ready says why the service is not ready, or nil.
// Listening happens before it returns; done is closed when the server is gone.
func Serve(ctx context.Context, address string, m *Metrics,
	ready func() error) (addr string, done <-chan struct{}, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
		defer stop()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return
		}
	}()
	return l.Addr().String(), gone, nil
}
