// Package telemetry makes OpenTelemetry spans and metrics of what is stored. It is the only package that knows
// OpenTelemetry.
//
// Promises: a span is made when the event that closes it is stored, by the service that stored it, with the time of the
// event that opened it: nothing is held in memory for as long as a span lasts, and a service that dies leaves no open
// span. Ids are derived from the run and from what the span is of, so those of all services, and of a service that
// comes after another, join to one tree. Recorder.Tell never waits: what does not fit is dropped and counted. A nil
// Recorder is off and costs nothing. What people and models wrote is in no span, unless Config.Content asks for it;
// keys never are.
package telemetry

import (
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// traceOf is the trace that a run belongs to, and the span in it that the run is part of. sampled is what the task said
// of that.
func traceOf(s run.State) (id trace.TraceID, parent trace.SpanID, sampled bool) {
	id, parent = s.Trace()
	if s.Created != nil && events.ValidTraceParent(s.Created.TraceParent) {
		flags, _ := hex.DecodeString(s.Created.TraceParent[53:55]) // hex, it is valid
		return id, parent, flags[0]&1 == 1
	}
	return id, parent, true
}

// spanOf is the id of the span of one thing in a run.
func spanOf(s run.State, what string) trace.SpanID { return s.SpanID(what) }

// What spans are of.
const ofRun = "run"

func ofStep(step string) string { return run.StepSpan(step) }

// ofTurn names a turn by its number within its step, which it has from its first request on.
func ofTurn(step string, number int) string { return "turn|" + step + "|" + strconv.Itoa(number) }

func ofChat(step string, number, attempt int) string {
	return "chat|" + step + "|" + strconv.Itoa(number) + "|" + strconv.Itoa(attempt)
}

func ofSummary(step string, through int) string {
	return "summary|" + step + "|" + strconv.Itoa(through)
}

func ofCall(call string) string { return run.CallSpan(call) }

func ofGate(gate string) string { return "gate|" + gate }
