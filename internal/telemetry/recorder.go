package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/telemetry/otlp"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of a recorder.
const (
	// maxQueue is how many events may wait to become spans; further ones are dropped and counted.
	maxQueue = 4096
	// maxClocks is how many runs have the times of their events in memory.
	maxClocks = 1024
	// flushTime bounds the last export.
	flushTime = 5 * time.Second
)

// Deps are what a recorder needs beside its configuration.
type Deps struct {
	Station string
	Role    events.Service
	// Version of the program; Instance is unique to the process.
	Version, Instance string
	// Journal tells when the events were said that opened a span.
	Journal kernel.Journal
	// Failed is told what could not be exported; may be nil.
	Failed func(error)
}

// Recorder makes spans and metrics of the events that one service stores. Its methods may be called on nil.
type Recorder struct {
	cfg     Config
	deps    Deps
	sampled sampler
	queue   chan runlog.StoredEvent // maxQueue; closed by Close
	dropped atomic.Uint64
	done    chan struct{}
	closing sync.Once
	tracer  trace.Tracer
	meters  *meters
	shut    []func(context.Context) error
	clocks  map[string]*clock
}

// New returns a recorder at work, or nil where nothing is to be exported. Close must be called. It does not look
// whether anybody receives what is exported.
func New(ctx context.Context, cfg Config, deps Deps) (*Recorder, error) {
	if err := cfg.Check(); err != nil || !cfg.On() {
		return nil, err
	}
	choose, err := cfg.sampler()
	if err != nil {
		return nil, err
	}
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "inspan-"+string(deps.Role)),
		attribute.String("service.namespace", deps.Station), attribute.String("service.version", deps.Version),
		attribute.String("service.instance.id", deps.Instance)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	r := &Recorder{cfg: cfg, deps: deps, sampled: choose, queue: make(chan runlog.StoredEvent, maxQueue),
		done: make(chan struct{}), clocks: map[string]*clock{}}
	if address := cfg.traces(); address != "" {
		exporter, err := otlp.NewSpans(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("exporter of traces: %w", err)
		}
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSampler(sdktrace.AlwaysSample()),
			sdktrace.WithIDGenerator(derived{}),
			sdktrace.WithBatcher(loud{exporter, r.failed}))
		r.tracer = p.Tracer(scope)
		r.shut = append(r.shut, p.Shutdown)
	}
	if address := cfg.metrics(); address != "" {
		exporter, err := otlp.NewMetrics(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("exporter of metrics: %w", err), r.shutdown(ctx))
		}
		p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
		r.shut = append(r.shut, p.Shutdown)
		if r.meters, err = newMeters(p.Meter(scope), &r.dropped); err != nil {
			return nil, errors.Join(err, r.shutdown(ctx))
		}
	}
	go r.work()
	return r, nil
}

// scope is the name of the instrumentation.
const scope = "github.com/inspan/inspan"

// OnStored returns the function that a ledger tells what it stored; nil for a nil recorder.
func (r *Recorder) OnStored() func(runlog.StoredEvent) {
	if r == nil {
		return nil
	}
	return func(t runlog.StoredEvent) {
		if closers[t.Payload.Kind()] == nil {
			return
		}
		select {
		case r.queue <- t:
		default:
			r.dropped.Add(1)
		}
	}
}

// Close makes spans of all that was told and exports them, for at most 5 s. The ledger must have ended.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.closing.Do(func() { close(r.queue) })
	select {
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return r.shutdown(ctx)
}

func (r *Recorder) shutdown(ctx context.Context) error {
	var errs []error
	for _, shut := range r.shut {
		errs = append(errs, shut(ctx))
	}
	return errors.Join(errs...)
}

func (r *Recorder) failed(err error) {
	if r.deps.Failed != nil {
		r.deps.Failed(err)
	}
}

// work makes spans until Close.
func (r *Recorder) work() {
	defer close(r.done)
	for t := range r.queue {
		if r.meters != nil {
			r.meters.event(t)
		}
		if r.tracer != nil {
			r.event(t)
		}
	}
}

// loud is an exporter that tells what it could not export: no one else would.
type loud struct {
	sdktrace.SpanExporter
	failed func(error)
}

// ExportSpans implements sdktrace.SpanExporter.
func (l loud) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := l.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		l.failed(err)
	}
	return nil
}

// derived takes the ids of a span from its context.
type derived struct{}

type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements sdktrace.IDGenerator.
func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	i, _ := ctx.Value(idsKey{}).(ids)
	return i.trace, i.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	i, _ := ctx.Value(idsKey{}).(ids)
	return i.span
}
