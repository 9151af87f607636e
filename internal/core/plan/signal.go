package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Signal is a message from outside that a step may wait for. Input is its position.
type Signal struct {
	Name  string
	Data  json.RawMessage
	By    string
	Input uint64
}

// SignalError says why a signal is not taken.
type SignalError struct{ Code, Text, Hint string }

func (e *SignalError) Error() string { return e.Text }

// Codes of a SignalError.
const (
	SignalUnknown = "unknown_signal"
	SignalEarly   = "signal_early"
	SignalLate    = "signal_late"
)

// Signalled completes the first step that waits for a signal. The same message again says nothing, one that no step
// waits for is refused: it is not kept.
func Signalled(s run.State, g Signal) ([]events.Payload, error) {
	if s.Took(g.Input) {
		return nil, nil
	}
	var all, early []string
	var names []string
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			switch f := st.Flow; {
			case f == nil || f.Signal == "":
			case f.Signal != g.Name:
				names = append(names, f.Signal)
			case st.Status == events.StepIsRunning && !s.Status.Ended():
				d := completed(st, signalText(g.Data))
				d.By, d.Input = g.By, g.Input
				return append(unlooked(s, st, "the signal has come"), d), nil
			case !st.Ended() && !s.Status.Ended():
				early = append(early, st.ID)
				fallthrough
			default:
				all = append(all, st.ID)
			}
		}
	}
	switch {
	case len(early) > 0:
		return nil, &SignalError{SignalEarly, fmt.Sprintf("step %s does not wait for the signal %q yet", early[0], g.Name),
			"send it again once inspan why says that the step waits for it"}
	case len(all) > 0:
		return nil, &SignalError{SignalLate, fmt.Sprintf("the steps that waited for the signal %q have ended: %s", g.Name,
			strings.Join(all, ", ")), "nothing waits for it any more"}
	case len(names) == 0:
		return nil, &SignalError{SignalUnknown, "no step of the run waits for a signal",
			"a step waits for one with kind = \"wait\", signal = \"NAME\""}
	}
	slices.Sort(names)
	return nil, &SignalError{SignalUnknown, fmt.Sprintf("no step of the run waits for the signal %q", g.Name),
		"the signals of its plan: " + strings.Join(slices.Compact(names), ", ")}
}

// CheckSignal returns what is wrong with the form of a signal, "" for nothing.
func CheckSignal(name string, data json.RawMessage) string {
	switch {
	case !events.ValidID(name):
		return fmt.Sprintf("the signal %.40q is not a name of at most %d characters of A-Z a-z 0-9 _ and -", name,
			events.MaxID)
	case len(data) > events.MaxSignal:
		return fmt.Sprintf("the data has %d bytes, the limit is %d", len(data), events.MaxSignal)
	case len(data) > 0 && !json.Valid(data):
		return "the data is no JSON"
	}
	return ""
}

// signalText is what a signal carries as the output of a step: a text as it is, all else as JSON.
func signalText(data json.RawMessage) string {
	var text string
	if len(data) == 0 {
		return "null"
	}
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return "null"
	}
	return b.String()
}

// unsignalled says what becomes of a step whose signal has not come: before its time is up no more than that its agent
// looks again.
func unsignalled(s run.State, st *run.Step, now time.Time) []events.Payload {
	if st.Flow.WaitMS == 0 || now.Before(waited(st)) {
		return looksAgain(s, st, now)
	}
	why := fmt.Sprintf("the signal %s did not come within %s", st.Flow.Signal,
		time.Duration(st.Flow.WaitMS)*time.Millisecond)
	say := unlooked(s, st, why)
	if st.Flow.OnTimeout == events.TimeoutSkips {
		return append(say, skippedFor(st, why))
	}
	return append(say, failed(st, events.FinishTimeout, why))
}
