package run

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/inspan/inspan/pkg/events"
)

// Trace is the trace that a run belongs to, and the span in it that the run is part of: those of the step or call that
// gave the run its work, those that came with the task, or a trace of its own without a span above.
func (s *State) Trace() (id [16]byte, above [8]byte) {
	if s.Created != nil {
		given := []string{s.Created.TraceParent}
		if of := s.Created.ChildOf; of != nil {
			given = []string{of.Trace, s.Created.TraceParent}
		}
		for _, tp := range given {
			if events.ValidTraceParent(tp) {
				_, _ = hex.Decode(id[:], []byte(tp[3:35])) // hex, it is valid
				_, _ = hex.Decode(above[:], []byte(tp[36:52]))
				return id, above
			}
		}
	}
	h := sha256.Sum256([]byte("trace|" + s.traceSeed()))
	copy(id[:], h[:])
	return id, above
}

// SpanID is the id of the span of one thing in a run.
func (s *State) SpanID(what string) (id [8]byte) {
	h := sha256.Sum256([]byte(what + "|" + s.traceSeed()))
	if copy(id[:], h[:]); id == [8]byte{} {
		binary.BigEndian.PutUint64(id[:], 1)
	}
	return id
}

// StepSpan and CallSpan name the spans of a step and of a call.
func StepSpan(step string) string { return "step|" + step }

// CallSpan is described with StepSpan.
func CallSpan(call string) string { return "call|" + call }

// TraceBelow is the place in the trace of what a step, or a call of it, gives to a child.
func (s *State) TraceBelow(step, call string) string {
	what := StepSpan(step)
	if call != "" && !events.IsCheckPlace(call) {
		what = CallSpan(call)
	}
	id, _ := s.Trace()
	span := s.SpanID(what)
	return "00-" + hex.EncodeToString(id[:]) + "-" + hex.EncodeToString(span[:]) + "-01"
}

// traceSeed is what the ids of a run are made from. It stays the same wherever the run goes on, and is another one
// where a station runs the same id again.
func (s *State) traceSeed() string {
	return s.HarnessID + "|" + strconv.FormatInt(s.CreatedAt.UnixNano(), 10)
}
