package otlp

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// Metrics exports the kinds of metrics that the recorder makes: counters and histograms, without exemplars, since
// nothing is measured inside of a span.
type Metrics struct {
	to          *receiver
	temporality sdkmetric.TemporalitySelector
	exponential bool
}

var _ sdkmetric.Exporter = Metrics{}

// NewMetrics is the exporter of metrics to a whole address.
func NewMetrics(address string) (Metrics, error) {
	to, err := newReceiver(address, "METRICS")
	if err != nil {
		return Metrics{}, err
	}
	e := Metrics{to: to}
	const temporality, histograms = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
		"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
	switch v := strings.ToLower(os.Getenv(temporality)); v {
	case "", "cumulative":
		e.temporality = sdkmetric.CumulativeTemporalitySelector
	case "delta":
		e.temporality = sdkmetric.DeltaTemporalitySelector
	case "lowmemory":
		e.temporality = sdkmetric.LowMemoryTemporalitySelector
	default:
		return e, fmt.Errorf("%s is %.40q, want cumulative, delta or lowmemory", temporality, v)
	}
	switch v := strings.ToLower(os.Getenv(histograms)); v {
	case "", "explicit_bucket_histogram":
	case "base2_exponential_bucket_histogram":
		e.exponential = true
	default:
		return e, fmt.Errorf("%s is %.40q, want explicit_bucket_histogram or base2_exponential_bucket_histogram", histograms,
			v)
	}
	return e, nil
}

// Temporality implements sdkmetric.Exporter.
func (e Metrics) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return e.temporality(k)
}

// Aggregation implements sdkmetric.Exporter.
func (e Metrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	if e.exponential && k == sdkmetric.InstrumentKindHistogram {
		return sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}
	}
	return sdkmetric.DefaultAggregationSelector(k)
}

// ForceFlush implements sdkmetric.Exporter: nothing is held here.
func (Metrics) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdkmetric.Exporter.
func (e Metrics) Shutdown(context.Context) error {
	e.to.client.CloseIdleConnections()
	return nil
}

// Export implements sdkmetric.Exporter. MetricsData is on the wire what an ExportMetricsServiceRequest is.
func (e Metrics) Export(ctx context.Context, from *metricdata.ResourceMetrics) error {
	out := &metricspb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: pairs(from.Resource.Iter())},
		SchemaUrl: from.Resource.SchemaURL()}
	for _, scope := range from.ScopeMetrics {
		next := &metricspb.ScopeMetrics{SchemaUrl: scope.Scope.SchemaURL,
			Scope: &commonpb.InstrumentationScope{Name: scope.Scope.Name,
				Version: scope.Scope.Version, Attributes: pairs(scope.Scope.Attributes.Iter())}}
		for _, m := range scope.Metrics {
			made, err := metricOf(m)
			if err != nil {
				return err
			}
			next.Metrics = append(next.Metrics, made)
		}
		out.ScopeMetrics = append(out.ScopeMetrics, next)
	}
	return e.to.send(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{out}})
}

func metricOf(m metricdata.Metrics) (*metricspb.Metric, error) {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		sum := &metricspb.Sum{AggregationTemporality: over(d.Temporality), IsMonotonic: d.IsMonotonic}
		for _, p := range d.DataPoints {
			sum.DataPoints = append(sum.DataPoints, &metricspb.NumberDataPoint{Attributes: pairs(p.Attributes.Iter()),
				StartTimeUnixNano: nanos(p.StartTime),
				TimeUnixNano:      nanos(p.Time), Value: &metricspb.NumberDataPoint_AsInt{AsInt: p.Value}})
		}
		out.Data = &metricspb.Metric_Sum{Sum: sum}
	case metricdata.Histogram[int64]:
		out.Data = &metricspb.Metric_Histogram{Histogram: histogramOf(d)}
	case metricdata.Histogram[float64]:
		out.Data = &metricspb.Metric_Histogram{Histogram: histogramOf(d)}
	case metricdata.ExponentialHistogram[int64]:
		out.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: exponentialOf(d)}
	case metricdata.ExponentialHistogram[float64]:
		out.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: exponentialOf(d)}
	default:
		return nil, fmt.Errorf("export metric %s: unsupported data type %T", m.Name, m.Data)
	}
	return out, nil
}

func histogramOf[N int64 | float64](h metricdata.Histogram[N]) *metricspb.Histogram {
	out := &metricspb.Histogram{AggregationTemporality: over(h.Temporality)}
	for _, p := range h.DataPoints {
		sum := float64(p.Sum)
		out.DataPoints = append(out.DataPoints, &metricspb.HistogramDataPoint{Attributes: pairs(p.Attributes.Iter()),
			StartTimeUnixNano: nanos(p.StartTime),
			TimeUnixNano:      nanos(p.Time), Count: p.Count, Sum: &sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
			Min: extreme(p.Min), Max: extreme(p.Max)})
	}
	return out
}

func exponentialOf[N int64 | float64](h metricdata.ExponentialHistogram[N]) *metricspb.ExponentialHistogram {
	out := &metricspb.ExponentialHistogram{AggregationTemporality: over(h.Temporality)}
	buckets := func(b metricdata.ExponentialBucket) *metricspb.ExponentialHistogramDataPoint_Buckets {
		return &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: b.Offset, BucketCounts: b.Counts}
	}
	for _, p := range h.DataPoints {
		sum := float64(p.Sum)
		out.DataPoints = append(out.DataPoints,
			&metricspb.ExponentialHistogramDataPoint{Attributes: pairs(p.Attributes.Iter()),
				StartTimeUnixNano: nanos(p.StartTime),
				TimeUnixNano:      nanos(p.Time), Count: p.Count, Sum: &sum, Scale: p.Scale, ZeroCount: p.ZeroCount,
				ZeroThreshold: p.ZeroThreshold,
				Positive:      buckets(p.PositiveBucket), Negative: buckets(p.NegativeBucket), Min: extreme(p.Min),
				Max: extreme(p.Max)})
	}
	return out
}

func extreme[N int64 | float64](e metricdata.Extrema[N]) *float64 {
	v, ok := e.Value()
	if !ok {
		return nil
	}
	f := float64(v)
	return &f
}

func over(t metricdata.Temporality) metricspb.AggregationTemporality {
	switch t {
	case metricdata.DeltaTemporality:
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	case metricdata.CumulativeTemporality:
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	}
	return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_UNSPECIFIED
}

// nanos are nanoseconds since 1970, 0 for no time.
func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// pairs are attributes, each of which is a text, a number, a truth value or a list of those.
func pairs(from attribute.Iterator) []*commonpb.KeyValue {
	var out []*commonpb.KeyValue
	for from.Next() {
		a := from.Attribute()
		out = append(out, &commonpb.KeyValue{Key: string(a.Key), Value: valueOf(a.Value.AsInterface())})
	}
	return out
}

func valueOf(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case []bool:
		return listOf(v)
	case []int64:
		return listOf(v)
	case []float64:
		return listOf(v)
	case []string:
		return listOf(v)
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: fmt.Sprint(v)}}
}

func listOf[T any](list []T) *commonpb.AnyValue {
	out := &commonpb.ArrayValue{}
	for _, v := range list {
		out.Values = append(out.Values, valueOf(v))
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: out}}
}
