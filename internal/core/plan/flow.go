package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxOutput bounds the output of a step that the plan computes, in bytes.
const MaxOutput = 32 << 10

// Next says what the plan itself decides about its steps as they stand: the end of steps whose parts have ended, whose
// time is up or that a person has approved, the next attempts of steps that failed, and the steps that are ready. A
// second look says only what is missing. What needs an expression evaluated is among the Questions.
func Next(s run.State, now time.Time) []events.Payload {
	var say []events.Payload
	turn := turns(s.Plan, now)
	for _, st := range s.Plan.Steps {
		switch {
		case st.Status == events.StepIsRunning && st.Parts > 0:
			say = append(say, ofParts(s, st, now)...)
		case st.Status == events.StepIsRunning && st.Flow != nil:
			say = append(say, ofTime(s, st, now)...)
		case st.Flow.Group() && !asks(st) && turn.begins(st):
			say = append(say, room(s.Plan, expanded(st, 1), st))
		}
	}
	if len(say) > 0 {
		return say // what is ready follows from what these come to
	}
	for _, st := range Ready(s.Plan, now) {
		say = append(say, ready(st))
	}
	return say
}

func ready(st *run.Step) *events.StepReadyData {
	return &events.StepReadyData{Event: "step_ready", Step: st.ID, Agent: st.AssignedAgent, Critical: st.Critical}
}

// Ready returns the pending steps that can be permitted: all that they depend on is done (PLAN-5), nothing is to be
// evaluated, and no more parts of a step are under way than may be. What a run delivers is ready once all other steps
// have ended, however they did.
func Ready(p *run.Plan, now time.Time) []*run.Step {
	var ready []*run.Step
	turn := turns(p, now)
	for _, st := range p.Steps {
		if !st.Flow.Group() && !asks(st) && turn.begins(st) {
			ready = append(ready, st)
		}
	}
	return ready
}

// turnOf says which steps can begin. active counts the parts under way, by what they are parts of.
type turnOf struct {
	on     index
	active map[string]int
	now    time.Time
}

func turns(p *run.Plan, now time.Time) *turnOf {
	t := &turnOf{indexed(p), map[string]int{}, now}
	for _, st := range p.Steps {
		if st.Part != nil && (st.Status == events.StepIsReady || st.Status == events.StepIsRunning) {
			t.active[st.Part.Of]++
		}
	}
	return t
}

// begins reports whether a step can begin now, and takes the room that it needs.
func (t *turnOf) begins(st *run.Step) bool {
	if !t.on.due(st) {
		return false
	}
	part := st.Part
	if part == nil {
		return true
	}
	whole := t.on[part.Of]
	if t.now.Before(part.NotBefore) || whole == nil || whole.Status != events.StepIsRunning ||
		full(whole, t.active[part.Of]) {
		return false
	}
	t.active[part.Of]++
	return true
}

// full reports whether so many parts of a step are all that may be under way.
func full(whole *run.Step, active int) bool {
	return whole.Flow != nil && whole.Flow.Each != nil && whole.Flow.Each.Parallel > 0 &&
		active >= whole.Flow.Each.Parallel
}

// index finds the steps of a plan by their ids.
type index map[string]*run.Step

func indexed(p *run.Plan) index {
	on := make(index, len(p.Steps))
	for _, st := range p.Steps {
		on[st.ID] = st
	}
	return on
}

// due reports whether a pending step waits for no other one.
func (on index) due(st *run.Step) bool {
	if st.Status != events.StepIsPending {
		return false
	}
	for _, d := range st.Dependencies {
		if on[d] == nil || !st.Follows(on[d]) {
			return false
		}
	}
	return true
}

// Waits reports whether a plan goes on by itself at some time although no step of it is ready or running.
func Waits(p *run.Plan) bool {
	on := indexed(p)
	return slices.ContainsFunc(p.Steps, on.due)
}

// Flows reports whether a plan has a control flow of its own.
func Flows(p *run.Plan) bool {
	return p != nil && slices.ContainsFunc(p.Steps, func(st *run.Step) bool { return st.Flow != nil })
}

// Wake is the next time at which the plan goes on by itself; ok is false where it waits for no time.
func Wake(s run.State) (at time.Time, ok bool) {
	if s.Plan == nil || s.Status.Ended() {
		return at, false
	}
	sooner := func(t time.Time, is bool) {
		if is && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, st := range s.Plan.Steps {
		deadline, has := s.StepDeadline(st)
		sooner(deadline, has)
		if st.Part != nil && st.Status == events.StepIsPending {
			sooner(st.Part.NotBefore, !st.Part.NotBefore.IsZero())
		}
		if st.Status == events.StepIsRunning && st.Flow != nil && st.Flow.Kind == events.ControlWait {
			sooner(waited(st), st.Flow.WaitMS > 0)
		}
	}
	return at, ok
}

// waited is when a step that waits has waited.
func waited(st *run.Step) time.Time {
	return st.BeganAt.Add(time.Duration(st.Flow.WaitMS) * time.Millisecond)
}

// ofTime says what time, or a person, has decided about a running step.
func ofTime(s run.State, st *run.Step, now time.Time) []events.Payload {
	if at, ok := s.StepDeadline(st); ok && !now.Before(at) {
		return []events.Payload{failed(st, events.FinishTimeout, fmt.Sprintf("the step took longer than its timeout of %s",
			time.Duration(st.Flow.TimeoutMS)*time.Millisecond))}
	}
	switch {
	case s.Status != events.Running:
		return nil
	case st.Flow.Signal != "":
		return unsignalled(s, st, now)
	case st.Flow.Kind == events.ControlWait && !now.Before(waited(st)):
		return []events.Payload{completed(st, "waited "+(time.Duration(st.Flow.WaitMS)*time.Millisecond).String())}
	case st.Flow.Kind == events.ControlApproval:
		by := "nobody"
		if g := s.GateFor(st.ID, ""); g != nil {
			by = g.By
		}
		return []events.Payload{completed(st, "approved by "+by)}
	}
	return nil
}

// ofParts says what follows from the parts of a running step: its end, the end of those that are not needed any more,
// or another one.
func ofParts(s run.State, st *run.Step, now time.Time) []events.Payload {
	if st.Flow.Wake != nil {
		return ofTime(s, st, now)
	}
	parts := s.Plan.PartsOf(st.ID)
	if st.Flow.Each == nil {
		return attempts(st, parts[len(parts)-1], now)
	}
	c := countParts(parts)
	need := st.Flow.Each.Need
	if need == 0 || need > len(parts) {
		need = len(parts)
	}
	if !st.Listed && st.Flow.Each.Over == "" {
		need = len(parts)
	}
	enough, short := c.done >= need, c.lost > len(parts)-need
	if !enough && !short {
		return nil
	}
	if say := skipped(s, parts, enough); len(say) > 0 || c.runs > 0 {
		return say
	}
	switch {
	case short:
		d := failed(st, events.FinishParts,
			fmt.Sprintf("%d of %d steps were completed, %d are needed; %s", c.done, len(parts), need, c.why))
		d.Class, d.Parts = c.class, len(parts)
		return []events.Payload{d}
	case st.Flow.Each.Until != "":
		return nil // whether it is the last round is to be evaluated
	}
	d := completed(st, joined(parts))
	d.Parts = len(parts)
	return []events.Payload{d}
}

type counts struct {
	// done are completed or may fail, lost are those that are neither, runs those that are under way.
	done, lost, runs int
	// why one of them failed, and the class of that.
	why, class string
}

func countParts(parts []*run.Step) (c counts) {
	for _, p := range parts {
		switch {
		case p.Status == events.StepIsCompleted || p.Status == events.StepIsFailed && p.Flow.Soft():
			c.done++
		case p.Ended():
			c.lost++
			if p.Status == events.StepIsFailed {
				c.why, c.class = p.ID+": "+p.Error, events.FailureClass(p.Reason)
			}
		case p.Status != events.StepIsPending:
			c.runs++
		}
	}
	return c
}

// skipped ends parts that are not needed any more: those that have not begun and, where enough are done, those that
// run, but for children and what has parts itself, which end first.
func skipped(s run.State, parts []*run.Step, enough bool) []events.Payload {
	var say []events.Payload
	for _, p := range parts {
		begun := p.Status == events.StepIsRunning && (!enough || p.Parts > 0 || p.Child != "" || p.Claim != nil)
		if p.Ended() || begun {
			continue
		}
		why := "enough other steps are done"
		if !enough {
			why = "too few of the steps can still be completed"
		}
		say = append(say, &events.StepSettledData{Event: "step_settled", Step: p.ID, Status: events.StepIsSkipped,
			Reason: why})
	}
	return say
}

// attempts says what follows from the last attempt of a step.
func attempts(st, last *run.Step, now time.Time) []events.Payload {
	r := st.Flow.Retry
	class := events.FailureClass(last.Reason)
	switch {
	case last.Status == events.StepIsCompleted:
		d := completed(st, last.Output)
		d.Parts = st.Parts
		return []events.Payload{d}
	case !last.Ended():
		return nil
	case last.Status == events.StepIsFailed && st.Parts < r.Attempts &&
		(class == events.FailureTransient || r.On == events.RetryAny):
		d := expanded(st, st.Parts+1)
		delay := r.Delay(st.Parts)
		d.Error, d.FinishReason, d.Class, d.DelayMS = clip(last.Error), last.Reason, class, delay.Milliseconds()
		d.When = ""
		if delay > 0 {
			d.NotBefore = now.Add(delay).UTC()
		}
		return []events.Payload{d}
	}
	d := failed(st, last.Reason, fmt.Sprintf("attempt %d of %d: %s", st.Parts, r.Attempts, last.Error))
	d.Class, d.Parts = class, st.Parts
	return []events.Payload{d}
}

func expanded(st *run.Step, from int) *events.StepExpandedData {
	return &events.StepExpandedData{Event: "step_expanded", Step: st.ID, From: from, Count: 1, When: st.Flow.When}
}

func completed(st *run.Step, output string) *events.StepSettledData {
	return &events.StepSettledData{Event: "step_settled", Step: st.ID, Status: events.StepIsCompleted, Output: output}
}

func failed(st *run.Step, reason, text string) *events.StepSettledData {
	return &events.StepSettledData{Event: "step_settled", Step: st.ID, Status: events.StepIsFailed, Error: clip(text),
		FinishReason: reason, Class: events.FailureClass(reason)}
}

// maxError bounds why a step failed, in bytes.
const maxError = 2 << 10

func clip(s string) string {
	if len(s) <= maxError {
		return s
	}
	return s[:maxError-3] + "..."
}

// joined are the outputs of the parts of a step, as a JSON list: documents as they are, texts as strings, null for a
// part that has none. Where all of it is too long, each has its share.
func joined(parts []*run.Step) string {
	for share := MaxOutput; ; share /= 2 {
		list := make([]json.RawMessage, 0, len(parts))
		for _, p := range parts {
			list = append(list, document(p, share))
		}
		b, err := json.Marshal(list)
		if err == nil && len(b) <= MaxOutput || share < 2 {
			return string(b)
		}
	}
}

func document(p *run.Step, most int) json.RawMessage {
	if p.Status != events.StepIsCompleted {
		return json.RawMessage("null")
	}
	if text := p.Output; len(text) <= most && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	text := p.Output
	if len(text) > most {
		text = text[:most] + "..."
	}
	b, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
