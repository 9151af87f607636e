package work

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// StepSpec is the item of a step: what others wrote in the formula, without what an item cannot hold.
type StepSpec struct {
	events.WorkStep
	Formula, Text, By string
	// Gone is a step that is no part of the plan: no item is made for it.
	Gone bool
}

// Follow brings the item of a step to where the log of its run has the step, and makes it where there is none. It
// changes nothing where the item is there, where it knows more, or where it is closed: a step that has ended does not
// begin again.
func Follow(s State, id string, of StepSpec, now time.Time) State {
	if !s.Exists() && of.Gone {
		return s
	}
	if !s.Exists() {
		title, text, _ := strings.Cut(strings.TrimSpace(of.Text), "\n")
		step := of.WorkStep
		step.Status, step.Sequence, step.Closed, step.Reason = events.StepIsPending, 0, false, ""
		s = s.then(&events.WorkCreatedData{Event: "work_created", Work: id, Step: &step, WorkBy: events.WorkBy{By: of.By},
			Spec: events.WorkSpec{Title: heading(title, of.Step),
				Text:   clipTo(plain(strings.TrimSpace(text)), events.MaxWorkText),
				Labels: []string{clipTo(of.Formula, events.MaxWorkLabel)},
				Source: fmt.Sprintf("step %s of run %s", of.Step, of.Run)}}, now)
	}
	known := s.Step
	switch {
	case known == nil || known.Run != of.Run || known.Step != of.Step: // the item of somebody else
		return s
	case s.Status == events.WorkIsClosed || of.Sequence <= known.Sequence:
		return s
	case known.Status == of.Status && known.Closed == of.Closed && known.Agent == of.Agent:
		return s
	}
	next := of.WorkStep
	next.Reason = clip(plain(next.Reason))
	return s.then(&events.WorkFollowedData{Event: "work_followed", WorkStep: next}, now)
}

// heading is the first line of a step, or its id.
func heading(line, step string) string {
	if line = strings.Join(strings.Fields(plain(line)), " "); line == "" {
		return step
	}
	return clipTo(line, events.MaxWorkTitle)
}

// plain takes out of a text what an item cannot hold.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if events.Acts(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// followsStep refuses what is asked of an item that follows a step.
func (s State) followsStep() *Refused {
	return &Refused{BadMove, fmt.Sprintf("work item %q is step %s of run %s, and follows it", s.ID, s.Step.Step,
		s.Step.Run),
		"steer its run: inspan inspect " + s.Step.Run}
}

func followed(s State, d *events.WorkFollowedData, at time.Time) (State, error) {
	switch {
	case s.Step == nil || d.Run != s.Step.Run || d.Step != s.Step.Step:
		return s, fmt.Errorf("the item is not step %s of run %s", d.Step, d.Run)
	case s.Status == events.WorkIsClosed:
		return s, fmt.Errorf("the item is closed")
	case d.Sequence <= s.Step.Sequence:
		return s, fmt.Errorf("event %d of run %s is no newer than event %d, which is known", d.Sequence, d.Run, s.Step.Sequence)
	}
	step := d.WorkStep
	s.Step = &step
	works := step.Status == events.StepIsRunning && !step.Closed
	worked := step.Closed && (step.Status == events.StepIsCompleted || step.Status == events.StepIsFailed)
	if s.Binding == nil && (works || worked) { // whoever looks late sees it only once it has ended
		s.Status, s.Epoch = events.WorkIsBound, s.Epoch+1
		s.Binding = &events.WorkBinding{Epoch: s.Epoch, WorkDispatch: events.WorkDispatch{Agent: step.Agent}, Run: step.Run,
			Dispatched: true, Started: true, BoundAt: at, DispatchedAt: at, ExpiresAt: at}
	}
	if s.Binding != nil && !works {
		code := events.WorkUnassigned
		switch {
		case step.Closed && step.Status == events.StepIsCompleted:
			code = events.WorkCompleted
		case step.Closed:
			code = events.WorkFailed
		}
		s = s.ended(code, step.Reason)
	}
	switch {
	case step.Closed:
		s.Status, s.ClosedAs = events.WorkIsClosed, step.Reason
	case !works:
		s.Status = events.WorkIsOpen
	}
	return s, nil
}
