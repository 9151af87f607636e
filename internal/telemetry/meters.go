package telemetry

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

// Buckets that the conventions advise.
var (
	tokenBuckets = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576,
		4194304, 16777216, 67108864)
	durationBuckets = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12,
		10.24, 20.48, 40.96, 81.92)
	longBuckets = metric.WithExplicitBucketBoundaries(0.1, 1, 10, 60, 300, 900, 3600, 4*3600, 24*3600)
)

// meters are the metrics of one service.
type meters struct {
	tokens          metric.Int64Histogram
	asked, ran, all metric.Float64Histogram
}

func newMeters(m metric.Meter, dropped *atomic.Uint64) (*meters, error) {
	var x meters
	var errs [5]error
	x.tokens, errs[0] = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."), tokenBuckets)
	x.asked, errs[1] = m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a request to a model."), durationBuckets)
	x.ran, errs[2] = m.Float64Histogram("inspan.tool.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a tool call."), durationBuckets)
	x.all, errs[3] = m.Float64Histogram("inspan.run.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the creation of a run to its end."), longBuckets)
	_, errs[4] = m.Int64ObservableCounter("inspan.telemetry.dropped", metric.WithUnit("{fact}"),
		metric.WithDescription("Events dropped from traces because the queue was full."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(dropped.Load())) //nolint:gosec // far below the limit
			return nil
		}))
	return &x, errors.Join(errs[:]...)
}

// event counts what an event says.
func (x *meters) event(t runlog.StoredEvent) {
	ctx := context.Background()
	switch d := t.Payload.(type) {
	case *events.TurnFinishedData:
		if d.Provider == events.HarnessProvider {
			return // no model was asked
		}
		with := x.of(t, d.Step, semconv.GenAIResponseModel(d.Model))
		x.asked.Record(ctx, ms(d.DurationMS).Seconds(), metric.WithAttributes(with...))
		x.tokens.Record(ctx, int64(d.InputTokens), metric.WithAttributes(append(with, semconv.GenAITokenTypeInput)...))
		x.tokens.Record(ctx, int64(d.OutputTokens), metric.WithAttributes(append(with, semconv.GenAITokenTypeOutput)...))
	case *events.HistoryCompactedData:
		with := x.of(t, d.Step, semconv.GenAIResponseModel(d.Model))
		x.asked.Record(ctx, ms(d.DurationMS).Seconds(), metric.WithAttributes(with...))
		x.tokens.Record(ctx, int64(d.InputTokens), metric.WithAttributes(append(with, semconv.GenAITokenTypeInput)...))
		x.tokens.Record(ctx, int64(d.OutputTokens), metric.WithAttributes(append(with, semconv.GenAITokenTypeOutput)...))
	case *events.CallFinishedData:
		x.ran.Record(ctx, ms(d.DurationMS).Seconds(), metric.WithAttributes(semconv.GenAIToolName(d.Tool)))
	case *events.CallFailedData:
		x.ran.Record(ctx, ms(d.DurationMS).Seconds(), metric.WithAttributes(semconv.GenAIToolName(d.Tool),
			attribute.String("error.type", d.Class)))
	case *events.RunCompletedData:
		x.ended(t, &d.Result)
	case *events.RunFailedData:
		x.ended(t, &d.Result)
	}
}

func (x *meters) of(t runlog.StoredEvent, step string, more ...attribute.KeyValue) []attribute.KeyValue {
	model := ""
	if st := t.Before.Step(step); st != nil {
		agent, _ := t.Before.Agent(st.AssignedAgent)
		model = agent.Model
	}
	provider, name := providerOf(model)
	return append([]attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
		semconv.GenAIRequestModel(name)}, more...)
}

func (x *meters) ended(t runlog.StoredEvent, d *events.Result) {
	x.all.Record(context.Background(), t.Event.Time.Sub(t.Before.CreatedAt).Seconds(),
		metric.WithAttributes(semconv.GenAIAgentName(t.Before.AgentName),
			attribute.String("inspan.finish_reason", d.FinishReason)))
}
