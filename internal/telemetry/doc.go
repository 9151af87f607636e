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
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// seed is what the ids of a run are made from. It stays the same wherever the run goes on, and is another one where a
// station runs the same id again.
func seed(s run.State) string {
	return s.HarnessID + "|" + strconv.FormatInt(s.CreatedAt.UnixNano(), 10)
}

// traceOf is the trace that a run belongs to, and the span in it that the run is part of: those that came with the
// task, or a trace of its own. sampled is what the task said of that.
func traceOf(s run.State) (id trace.TraceID, parent trace.SpanID, sampled bool) {
	if s.Created != nil && events.ValidTraceParent(s.Created.TraceParent) {
		tp := s.Created.TraceParent
		_, _ = hex.Decode(id[:], []byte(tp[3:35])) // hex, it is valid
		_, _ = hex.Decode(parent[:], []byte(tp[36:52]))
		flags, _ := hex.DecodeString(tp[53:55])
		return id, parent, flags[0]&1 == 1
	}
	h := sha256.Sum256([]byte("trace|" + seed(s)))
	copy(id[:], h[:])
	return id, parent, true
}

// spanOf is the id of the span of one thing in a run.
func spanOf(s run.State, what string) (id trace.SpanID) {
	h := sha256.Sum256([]byte(what + "|" + seed(s)))
	if copy(id[:], h[:]); !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], 1)
	}
	return id
}

// What spans are of.
const ofRun = "run"

func ofStep(step string) string { return "step|" + step }

// ofTurn names a turn by its number within its step, which it has from its first request on.
func ofTurn(step string, number int) string { return "turn|" + step + "|" + strconv.Itoa(number) }

func ofChat(step string, number, attempt int) string {
	return "chat|" + step + "|" + strconv.Itoa(number) + "|" + strconv.Itoa(attempt)
}

func ofSummary(step string, through int) string {
	return "summary|" + step + "|" + strconv.Itoa(through)
}

func ofCall(call string) string { return "call|" + call }

func ofGate(gate string) string { return "gate|" + gate }
