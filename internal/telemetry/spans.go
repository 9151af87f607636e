package telemetry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// span is one span to be made.
type span struct {
	// of is what it is of, parent what its parent is of, empty for a run.
	of, parent string
	name       string
	kind       trace.SpanKind
	from       time.Time
	// failed is why, in one word that is no text of others; empty where it did not.
	failed string
	attrs  []attribute.KeyValue
}

// closer makes the spans that the events of one type close.
type closer struct {
	kind events.Kind
	emit func(r *Recorder, t runlog.StoredEvent)
}

// spans makes a closer of a function; its payload type says of which event type.
func spans[P events.Payload](emit func(r *Recorder, t runlog.StoredEvent, d P)) closer {
	var none P
	return closer{none.Kind(), func(r *Recorder, t runlog.StoredEvent) {
		if d, ok := t.Payload.(P); ok {
			emit(r, t, d)
		}
	}}
}

// closers are the event types that close a span. An event of another type begins one at most, and is not recorded.
var closers = func(rows ...closer) map[events.Kind]func(*Recorder, runlog.StoredEvent) {
	byKind := map[events.Kind]func(*Recorder, runlog.StoredEvent){}
	for _, row := range rows {
		byKind[row.kind] = row.emit
	}
	return byKind
}(
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.RunCompletedData) { r.run(t, &d.Result) }),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.RunFailedData) { r.run(t, &d.Result) }),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.StepFinishedData) {
		r.step(t, d.Step, d.FinishReason, "")
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.StepFailedData) {
		if st := t.Before.Step(d.Step); st != nil && st.Kind == "" && st.Owed != 0 && d.FinishReason == events.FinishError {
			r.chat(t, st, st.Attempt+1, t.Event.Time.Add(-time.Millisecond), d.FinishReason, nil)
			r.turn(t, st, d.FinishReason)
		}
		r.step(t, d.Step, d.FinishReason, d.FinishReason)
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.TurnFinishedData) {
		if st := t.Before.Step(d.Step); st != nil {
			if d.Provider != events.HarnessProvider {
				r.chat(t, st, d.Attempt, t.Event.Time.Add(-ms(d.DurationMS)), "", r.answer(d))
			}
			r.turn(t, st, "")
		}
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.HistoryCompactedData) {
		if st := t.Before.Step(d.Step); st != nil {
			r.summary(t, st, d)
		}
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.TurnDeferredData) {
		if st := t.Before.Step(d.Step); st != nil && d.Class != events.ClassInterrupted {
			r.chat(t, st, d.Attempt, r.since(t, st), d.Class, nil)
		}
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.CallFinishedData) {
		failed := ""
		if !d.Success {
			failed = "tool_error"
		}
		r.call(t, d.ToolRef, t.Event.Time.Add(-ms(d.DurationMS)), failed, r.content(semconv.GenAIToolCallResultKey,
			d.Output)...)
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.CallFailedData) {
		r.call(t, d.ToolRef, t.Event.Time.Add(-ms(d.DurationMS)), d.Class)
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.CallRefusedData) {
		r.call(t, d.ToolRef, t.Event.Time, d.Code)
	}),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.GateApprovedData) { r.gate(t, d.Gate, "approved") }),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.GateRejectedData) { r.gate(t, d.Gate, "rejected") }),
	spans(func(r *Recorder, t runlog.StoredEvent, d *events.GateExpiredData) { r.gate(t, d.Gate, "expired") }),
)

// event makes the spans that an event closes.
func (r *Recorder) event(t runlog.StoredEvent) {
	emit := closers[t.Payload.Kind()]
	if id, _, given := traceOf(t.Before); emit != nil && r.sampled(binary.BigEndian.Uint64(id[8:]),
		t.Before.Created != nil && t.Before.Created.TraceParent != "", given) {
		emit(r, t)
	}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// run makes the span of a run, which is the root of its part of the trace.
func (r *Recorder) run(t runlog.StoredEvent, d *events.Result) {
	s, failed := t.Before, ""
	if !d.Success {
		failed = d.FinishReason
	}
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameInvokeWorkflow, semconv.GenAIWorkflowName(s.AgentName),
		semconv.GenAIAgentName(s.AgentName),
		attribute.String("inspan.finish_reason", d.FinishReason), attribute.Int("inspan.run.turns", d.TotalSteps),
		attribute.Int("inspan.run.tool_calls", d.ToolCallCount),
		semconv.GenAIUsageInputTokens(s.Tokens.Input), semconv.GenAIUsageOutputTokens(s.Tokens.Output)}
	if s.Created != nil {
		attrs = append(attrs, r.content(semconv.GenAIInputMessagesKey, s.Created.Task)...)
	}
	attrs = append(attrs, r.content(semconv.GenAIOutputMessagesKey, d.Output)...)
	r.emit(t, span{of: ofRun, name: "invoke_workflow " + s.AgentName, kind: trace.SpanKindInternal, from: s.CreatedAt,
		failed: failed, attrs: attrs})
	delete(r.clocks, s.HarnessID)
}

func (r *Recorder) step(t runlog.StoredEvent, id, reason, failed string) {
	st := t.Before.Step(id)
	if st == nil {
		return
	}
	from, ok := r.when(t.Before.HarnessID, st.ReadyAt)
	if !ok {
		from = t.Event.Time
	}
	r.emit(t, span{of: ofStep(id), parent: ofRun, name: "invoke_agent " + st.AssignedAgent, kind: trace.SpanKindInternal,
		from: from, failed: failed,
		attrs: []attribute.KeyValue{semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(st.AssignedAgent),
			attribute.String("inspan.step.id", id),
			attribute.String("inspan.finish_reason", reason)}})
}

// turn makes the span of a turn: from the event since which it is owed, with all requests that it took.
func (r *Recorder) turn(t runlog.StoredEvent, st *run.Step, failed string) {
	from, ok := r.when(t.Before.HarnessID, st.Owed)
	if !ok {
		from = t.Event.Time
	}
	r.emit(t, span{of: ofTurn(st.ID, st.Turns+1), parent: ofStep(st.ID), name: "turn", kind: trace.SpanKindInternal,
		from: from, failed: failed,
		attrs: []attribute.KeyValue{attribute.String("inspan.step.id", st.ID), attribute.Int("inspan.turn", st.Turns+1)}})
}

// chat makes the span of one request to a model.
func (r *Recorder) chat(t runlog.StoredEvent, st *run.Step, attempt int, from time.Time, failed string,
	attrs []attribute.KeyValue) {
	agent, _ := t.Before.Agent(st.AssignedAgent)
	provider, model := providerOf(agent.Model)
	r.emit(t, span{of: ofChat(st.ID, st.Turns+1, attempt), parent: ofTurn(st.ID, st.Turns+1), name: "chat " + model,
		kind: trace.SpanKindClient, from: from, failed: failed,
		attrs: append([]attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
			semconv.GenAIRequestModel(model),
			attribute.String("inspan.step.id", st.ID), attribute.Int("inspan.turn", st.Turns+1), attribute.Int("inspan.attempt",
				attempt)}, attrs...)})
}

// summary makes the span of the request for a summary, which is made before the turn that is owed.
func (r *Recorder) summary(t runlog.StoredEvent, st *run.Step, d *events.HistoryCompactedData) {
	agent, _ := t.Before.Agent(st.AssignedAgent)
	provider, model := providerOf(agent.Model)
	r.emit(t, span{of: ofSummary(st.ID, d.Through), parent: ofTurn(st.ID, st.Turns+1), name: "chat " + model,
		kind: trace.SpanKindClient, from: t.Event.Time.Add(-ms(d.DurationMS)),
		attrs: append([]attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
			semconv.GenAIRequestModel(model),
			semconv.GenAIResponseModel(d.Model), semconv.GenAIUsageInputTokens(d.InputTokens),
			semconv.GenAIUsageOutputTokens(d.OutputTokens), semconv.GenAIUsageCacheReadInputTokens(d.CachedTokens),
			attribute.String("inspan.step.id", st.ID), attribute.String("inspan.purpose", "compaction"),
			attribute.Int("inspan.attempt", d.Attempt)}, r.content(semconv.GenAIOutputMessagesKey, d.Summary)...)})
}

// since is when the request could begin that an event says has failed.
func (r *Recorder) since(t runlog.StoredEvent, st *run.Step) time.Time {
	if !st.NotBefore.IsZero() && st.NotBefore.Before(t.Event.Time) {
		return st.NotBefore
	}
	if from, ok := r.when(t.Before.HarnessID, st.Owed); ok {
		return from
	}
	return t.Event.Time
}

// answer is what is said of the answer of a model.
func (r *Recorder) answer(d *events.TurnFinishedData) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.GenAIResponseModel(d.Model), semconv.GenAIResponseFinishReasons(d.FinishReason),
		semconv.GenAIUsageInputTokens(d.InputTokens), semconv.GenAIUsageOutputTokens(d.OutputTokens),
		semconv.GenAIUsageCacheReadInputTokens(d.CachedTokens)}
	return append(attrs, r.content(semconv.GenAIOutputMessagesKey, d.Text)...)
}

func (r *Recorder) call(t runlog.StoredEvent, ref events.ToolRef, from time.Time, failed string,
	attrs ...attribute.KeyValue) {
	s := t.Before
	number := 0
	c := s.Open[ref.Call]
	if c == nil {
		return
	}
	for _, turn := range run.All(s.Turns()) {
		if turn.Step == ref.Step && turn.Number <= c.Turn {
			number++
		}
	}
	attrs = append(attrs, r.content(semconv.GenAIToolCallArgumentsKey, string(c.Input))...)
	r.emit(t, span{of: ofCall(ref.Call), parent: ofTurn(ref.Step, number), name: "execute_tool " + ref.Tool,
		kind: trace.SpanKindInternal, from: from, failed: failed,
		attrs: append([]attribute.KeyValue{semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(ref.Tool),
			semconv.GenAIToolCallID(ref.Call), semconv.GenAIToolType("function"),
			attribute.String("inspan.step.id", ref.Step), attribute.String("inspan.tool.effect", c.Effect),
			attribute.Int("inspan.attempt", max(c.Attempt, 1))}, attrs...)})
}

func (r *Recorder) gate(t runlog.StoredEvent, id, decision string) {
	g := t.Before.Gate(id)
	if g == nil {
		return
	}
	r.emit(t, span{of: ofGate(id), parent: aboveGate(t.Before, g, decision), name: "gate",
		kind: trace.SpanKindInternal, from: g.CreatedAt,
		attrs: []attribute.KeyValue{attribute.String("inspan.gate.id", id), attribute.String("inspan.gate.decision",
			decision), attribute.String("inspan.step.id", g.StepID)}})
}

// aboveGate is the span that a gate is below: that of its step, where that will have one. A step that is an approval
// has none, and one that a person rejected may never begin.
func aboveGate(s run.State, g *run.Gate, decision string) string {
	st := s.Step(g.StepID)
	if st == nil || st.Flow.Controls() || g.Scope == "step" && decision != "approved" {
		return ofRun
	}
	return ofStep(g.StepID)
}

// content is a text of others, where that is wanted.
func (r *Recorder) content(key attribute.Key, text string) []attribute.KeyValue {
	if !r.cfg.Content || text == "" {
		return nil
	}
	switch key {
	case semconv.GenAIInputMessagesKey, semconv.GenAIOutputMessagesKey:
		role := "assistant"
		if key == semconv.GenAIInputMessagesKey {
			role = "user"
		}
		b, err := json.Marshal([]any{map[string]any{"role": role, "parts": []any{map[string]string{"type": "text",
			"content": text}}}})
		if err != nil {
			return nil
		}
		text = string(b)
	}
	return []attribute.KeyValue{key.String(text)}
}

// emit makes a span and ends it at once.
func (r *Recorder) emit(t runlog.StoredEvent, sp span) {
	s := t.Before
	traceID, above, _ := traceOf(s)
	ctx := context.WithValue(context.Background(), idsKey{}, ids{traceID, spanOf(s, sp.of)})
	if sp.parent != "" {
		above = spanOf(s, sp.parent)
	}
	if above.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID,
			SpanID: above, TraceFlags: trace.FlagsSampled, Remote: true}))
	}
	if sp.from.After(t.Event.Time) {
		sp.from = t.Event.Time
	}
	attrs := append(sp.attrs, attribute.String("inspan.run.id", s.HarnessID), attribute.String("inspan.station",
		t.Event.Station))
	if s.Identity.Session != "" {
		attrs = append(attrs, semconv.GenAIConversationID(s.Identity.Session), attribute.String("session.id",
			s.Identity.Session))
	}
	_, made := r.tracer.Start(ctx, sp.name, trace.WithTimestamp(sp.from), trace.WithSpanKind(sp.kind),
		trace.WithAttributes(attrs...))
	if sp.failed != "" {
		made.SetAttributes(attribute.String("error.type", sp.failed))
		made.SetStatus(codes.Error, sp.failed)
	}
	made.End(trace.WithTimestamp(t.Event.Time))
}

// providerOf takes "provider/name" apart and names the provider as the conventions do.
func providerOf(ref string) (provider, model string) {
	provider, model, ok := strings.Cut(ref, "/")
	if !ok {
		return "unknown", ref
	}
	if provider == "gemini" {
		provider = "gcp.gemini"
	}
	return provider, model
}
