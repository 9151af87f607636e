package call

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxError is how much of an error is recorded, in bytes.
const maxError = 8 << 10

// ClipError shortens the text of an error to what is recorded of it.
func ClipError(text string) string {
	if len(text) > maxError {
		text = text[:maxError] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// StepEnded reports whether no call of a step is to come.
func StepEnded(s run.State, id string) bool {
	st := s.Step(id)
	return s.Status.Ended() || st != nil && slices.Contains([]events.StepStatus{events.StepIsCompleted,
		events.StepIsFailed, events.StepIsBlocked}, st.Status)
}
