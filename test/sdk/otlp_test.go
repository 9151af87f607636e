package sdk

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectspans "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/inspan/inspan/internal/telemetry/otlp"
)

// receiver keeps what came last, without its compression.
type receiver struct {
	url  string
	mu   sync.Mutex
	head http.Header
	body []byte
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(req.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, _ := io.ReadAll(body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.head, r.body = req.Header.Clone(), b
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// took compares two exports of the same: their messages and the headers that count.
func took(t *testing.T, ours, theirs *receiver, got, want proto.Message) {
	t.Helper()
	for _, h := range []string{"Content-Type", "Content-Encoding", "X-Odd", "Authorization"} {
		if ours.head.Get(h) != theirs.head.Get(h) {
			t.Errorf("got %s %q, the SDK sends %q", h, ours.head.Get(h), theirs.head.Get(h))
		}
	}
	if err := errors.Join(proto.Unmarshal(ours.body, got), proto.Unmarshal(theirs.body, want)); err != nil {
		t.Fatal(err)
	}
	if len(theirs.body) == 0 || !proto.Equal(got, want) {
		t.Errorf("got\n%v\nthe SDK sends\n%v", got, want)
	}
}

// both gives what is exported to both.
type both struct{ ours, theirs sdkmetric.Exporter }

func (b both) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return b.ours.Temporality(k)
}
func (b both) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return b.ours.Aggregation(k)
}
func (b both) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return errors.Join(b.ours.Export(ctx, m), b.theirs.Export(ctx, m))
}
func (b both) ForceFlush(context.Context) error { return nil }
func (b both) Shutdown(ctx context.Context) error {
	return errors.Join(b.ours.Shutdown(ctx), b.theirs.Shutdown(ctx))
}

var odd = []attribute.KeyValue{attribute.String("s", "é<>"), attribute.Bool("b", true), attribute.Int64("i", -3), attribute.Float64("f", 1.5),
	attribute.StringSlice("ss", []string{"x", ""}), attribute.Int64Slice("is", []int64{1, 2}), attribute.Float64Slice("fs", []float64{0.5}), attribute.BoolSlice("bs", []bool{false, true})}

func TestOTLP(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-odd=a%20b,authorization=Bearer%20k")
	about := resource.NewSchemaless(odd...)
	for _, compression := range []string{"", "gzip"} {
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
		for _, temporality := range []string{"", "delta", "lowmemory"} {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality)
			for _, histogram := range []string{"", "base2_exponential_bucket_histogram"} {
				t.Setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", histogram)
				metrics(t, about)
			}
		}
		spans(t, about)
	}
}

func metrics(t *testing.T, about *resource.Resource) {
	ours, theirs := receive(t), receive(t)
	mine, err := otlp.NewMetrics(ours.url + "/v1/metrics")
	if err != nil {
		t.Fatal(err)
	}
	other, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(theirs.url+"/v1/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []sdkmetric.InstrumentKind{sdkmetric.InstrumentKindCounter, sdkmetric.InstrumentKindHistogram, sdkmetric.InstrumentKindObservableCounter, sdkmetric.InstrumentKindUpDownCounter} {
		if mine.Temporality(k) != other.Temporality(k) {
			t.Errorf("%v: got %v, the SDK has %v", k, mine.Temporality(k), other.Temporality(k))
		}
		if !reflect.DeepEqual(mine.Aggregation(k), other.Aggregation(k)) {
			t.Errorf("%v: got %+v, the SDK has %+v", k, mine.Aggregation(k), other.Aggregation(k))
		}
	}
	p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(both{mine, other}, sdkmetric.WithInterval(time.Hour))))
	m := p.Meter("scope", metric.WithInstrumentationVersion("v1"), metric.WithInstrumentationAttributes(odd...))
	whole, err1 := m.Int64Histogram("whole", metric.WithUnit("{token}"), metric.WithDescription("d"), metric.WithExplicitBucketBoundaries(1, 4, 16))
	part, err2 := m.Float64Histogram("part", metric.WithUnit("s"))
	_, err3 := m.Int64ObservableCounter("count", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(7, metric.WithAttributes(odd...))
		return nil
	}))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 5, 700} {
		whole.Record(t.Context(), n, metric.WithAttributes(odd...))
		part.Record(t.Context(), float64(n)/3)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	took(t, ours, theirs, &collectmetrics.ExportMetricsServiceRequest{}, &collectmetrics.ExportMetricsServiceRequest{})
}

func spans(t *testing.T, about *resource.Resource) {
	ours, theirs := receive(t), receive(t)
	mine, err := otlp.NewSpans(t.Context(), ours.url+"/v1/traces")
	if err != nil {
		t.Fatal(err)
	}
	other, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(theirs.url+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(mine), sdktrace.WithBatcher(other))
	ctx, root := p.Tracer("scope").Start(t.Context(), "root", trace.WithAttributes(odd...), trace.WithSpanKind(trace.SpanKindClient))
	_, child := p.Tracer("scope").Start(ctx, "child", trace.WithLinks(trace.LinkFromContext(ctx, odd...)))
	child.AddEvent("e", trace.WithAttributes(odd...))
	child.SetStatus(codes.Error, "no")
	child.End()
	root.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	took(t, ours, theirs, &collectspans.ExportTraceServiceRequest{}, &collectspans.ExportTraceServiceRequest{})
}
