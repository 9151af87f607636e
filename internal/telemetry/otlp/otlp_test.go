package otlp

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func receiverOf(t *testing.T, reply http.HandlerFunc) *receiver {
	t.Helper()
	s := httptest.NewServer(reply)
	t.Cleanup(s.Close)
	r, err := newReceiver(s.URL+"/v1/traces", "TRACES")
	if err != nil {
		t.Fatal(err)
	}
	r.first = time.Millisecond
	return r
}

func TestReceiverVariables(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-both=a%20b, authorization=Bearer%20k")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-own=m")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
	t.Run("ECO-10 headers, compression and the time limit are those of the variables", func(t *testing.T) {
		got := make(chan string, 1)
		r := receiverOf(t, func(w http.ResponseWriter, req *http.Request) {
			z, err := gzip.NewReader(req.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := io.ReadAll(z)
			var m tracepb.TracesData
			if err := proto.Unmarshal(body, &m); err != nil || len(m.ResourceSpans) != 1 {
				t.Errorf("got %x, %v", body, err)
			}
			got <- strings.Join([]string{req.Method, req.URL.Path, req.Header.Get("X-Both"), req.Header.Get("Authorization"), req.Header.Get("Content-Type"), req.Header.Get("Content-Encoding")}, "|")
		})
		if err := r.send(t.Context(), &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{}}}); err != nil {
			t.Fatal(err)
		}
		if line, want := <-got, "POST|/v1/traces|a b|Bearer k|application/x-protobuf|gzip"; line != want || r.client.Timeout != 1500*time.Millisecond {
			t.Errorf("got %s and %s, want %s", line, r.client.Timeout, want)
		}
		own, err := newReceiver("http://127.0.0.1:1", "METRICS")
		if err != nil || own.headers.Get("X-Own") != "m" || own.headers.Get("X-Both") != "" {
			t.Errorf("got %v, %v, want those of the signal alone", own.headers, err)
		}
	})
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HEADERS": "s3cret", "COMPRESSION": "zstd", "TIMEOUT": "soon", "CERTIFICATE": none, "CLIENT_KEY": none,
		"METRICS_TEMPORALITY_PREFERENCE": "never", "METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "none"} {
		t.Run("a wrong "+name+" is refused at the start", func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "")
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			if _, err := NewMetrics("http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	answers := func(t *testing.T, codes ...int) (*receiver, *atomic.Int32) {
		n := &atomic.Int32{}
		return receiverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(codes[min(int(n.Add(1)), len(codes))-1])
		}), n
	}
	t.Run("a busy receiver is asked again, another error is final", func(t *testing.T) {
		t.Parallel()
		r, n := answers(t, 503, 429, 502, 504, 200)
		if err := r.send(t.Context(), &tracepb.TracesData{}); err != nil || n.Load() != 5 {
			t.Errorf("got %v after %d tries", err, n.Load())
		}
		for _, code := range []int{400, 401, 500, 307} {
			r, n := answers(t, code)
			if err := r.send(t.Context(), &tracepb.TracesData{}); err == nil || n.Load() != 1 {
				t.Errorf("%d: got %v after %d tries", code, err, n.Load())
			}
		}
	})
	t.Run("the end of the context ends the tries", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		r := receiverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "59")
			w.WriteHeader(http.StatusServiceUnavailable)
			cancel()
		})
		if err := r.send(ctx, &tracepb.TracesData{}); err == nil {
			t.Error("an export that was refused has no error")
		}
	})
	t.Run("a longer wait than there is time for is not waited", func(t *testing.T) {
		t.Parallel()
		r := receiverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if err := r.send(t.Context(), &tracepb.TracesData{}); err == nil || !strings.Contains(err.Error(), "429") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what was not taken is an error", func(t *testing.T) {
		t.Parallel()
		for reply, want := range map[string]string{"\x0a\x06\x08\x03\x12\x02no": "3 items rejected: \"no\"", "": "", "\x0a\x00": "", "\xff": "", "\x0a\x7f": ""} {
			r := receiverOf(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				_, _ = io.WriteString(w, reply)
			})
			if err := r.send(t.Context(), &tracepb.TracesData{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%x: got %v, want %q", reply, err, want)
			}
		}
	})
}

func TestMetricExport(t *testing.T) {
	t.Parallel()
	for _, exponential := range []bool{false, true} {
		bodies := make(chan []byte, 1)
		r := receiverOf(t, func(_ http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			bodies <- body
		})
		p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(Metrics{to: r, temporality: sdkmetric.CumulativeTemporalitySelector, exponential: exponential})))
		m := p.Meter("scope")
		tokens, errT := m.Int64Histogram("tokens", metric.WithUnit("{token}"), metric.WithExplicitBucketBoundaries(1, 4, 16))
		asked, errA := m.Float64Histogram("asked", metric.WithUnit("s"))
		_, errD := m.Int64ObservableCounter("dropped", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(7)
			return nil
		}))
		if err := errors.Join(errT, errA, errD); err != nil {
			t.Fatal(err)
		}
		tokens.Record(t.Context(), 5, metric.WithAttributes(attribute.String("s", "v"), attribute.Bool("b", true), attribute.Int64("i", 3), attribute.Float64("f", 1.5),
			attribute.StringSlice("l", []string{"x", "y"})))
		asked.Record(t.Context(), 0.5)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got metricspb.MetricsData
		if err := proto.Unmarshal(<-bodies, &got); err != nil {
			t.Fatal(err)
		}
		named := map[string]*metricspb.Metric{}
		for _, m := range got.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			named[m.Name] = m
		}
		if s := named["dropped"].GetSum(); !s.IsMonotonic || s.DataPoints[0].GetAsInt() != 7 {
			t.Errorf("got %v", s)
		}
		used := named["tokens"]
		if exponential {
			if h := used.GetExponentialHistogram(); h == nil || h.DataPoints[0].Count != 1 || h.DataPoints[0].GetSum() != 5 || h.DataPoints[0].GetMax() != 5 {
				t.Errorf("got %v", used)
			}
			continue
		}
		h := used.GetHistogram()
		if h == nil || used.Unit != "{token}" || h.DataPoints[0].Count != 1 || h.DataPoints[0].GetMin() != 5 || !slices.Equal(h.DataPoints[0].ExplicitBounds, []float64{1, 4, 16}) ||
			h.DataPoints[0].BucketCounts[2] != 1 || h.AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || h.DataPoints[0].TimeUnixNano == 0 {
			t.Errorf("got %v", used)
		}
		if n := len(h.DataPoints[0].Attributes); n != 5 {
			t.Errorf("got %d attributes", n)
		}
	}
	if _, err := metricOf(metricdata.Metrics{Name: "x", Data: metricdata.Gauge[int64]{}}); err == nil {
		t.Error("a kind that is not exported was exported")
	}
}
