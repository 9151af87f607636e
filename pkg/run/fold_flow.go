package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// StepCourse is the control flow of a step, and where it stands.
type StepCourse struct {
	// Flow as the plan has it, and Part where the step was made of another one. Never written after they were made.
	Flow *events.StepFlow `json:"flow,omitempty"`
	Part *events.StepPart `json:"part,omitempty"`
	// Parts counts the steps that were made of this one; Listed is true where they were made of a list.
	Parts  int  `json:"parts,omitempty"`
	Listed bool `json:"listed,omitempty"`
	// PartChild says where the runs work that the parts are given to; empty where the parts are steps of this run.
	PartChild string `json:"partChild,omitempty"`
	// Reason is the finish reason of a step that failed, or why it was skipped.
	Reason string `json:"reason,omitempty"`
	// BeganAt is when the step was permitted, ClockMS for how long the clock of the run had stood until then.
	BeganAt time.Time `json:"beganAt,omitzero"`
	ClockMS int64     `json:"clockMs,omitempty"`
	// Branched is what the child in a worktree that the step is given to begins with; nil before that is committed.
	// Never written after it was made.
	Branched *events.BranchAt `json:"branched,omitempty"`
}

// Ended reports whether nothing more happens in a step.
func (st *Step) Ended() bool {
	return st.Status == events.StepIsCompleted || st.Status == events.StepIsFailed || st.Status == events.StepIsBlocked ||
		st.Status == events.StepIsSkipped
}

// Spared reports whether the failure of a step is none of the run: the step may fail, or it is a part, whose failure is
// weighed by the step that it is part of.
func (st *Step) Spared() bool { return st.Part != nil || st.Flow.Soft() }

// Done reports whether a step does not stand in the way of the end of its run.
func (st *Step) Done() bool {
	return st.Status == events.StepIsCompleted || st.Status == events.StepIsSkipped || st.Ended() && st.Part != nil ||
		st.Status == events.StepIsFailed && st.Flow.Soft()
}

// Works reports whether an agent carries the step out.
func (st *Step) Works() bool { return st.Kind == "" && !st.Flow.Controls() }

// PartsOf are the steps that were made of a step, in their order.
func (p *Plan) PartsOf(id string) []*Step {
	var parts []*Step
	for _, st := range p.Steps {
		if st.Part != nil && st.Part.Of == id {
			parts = append(parts, st)
		}
	}
	return parts
}

// Deadline of the attempt of a step that runs. ok is false where it has none, or while the clock of the run stands.
func (s *State) StepDeadline(st *Step) (at time.Time, ok bool) {
	if st.Status != events.StepIsRunning || st.Flow == nil || st.Flow.TimeoutMS <= 0 || st.Parts > 0 ||
		st.BeganAt.IsZero() ||
		!s.Clock.Since.IsZero() || s.Status != events.Running {
		return time.Time{}, false
	}
	return st.BeganAt.Add(time.Duration(st.Flow.TimeoutMS+s.Clock.StoppedMS-st.ClockMS) * time.Millisecond), true
}

// flowFault returns what is wrong with the control flow of a planned step, or "".
func flowFault(st events.PlanStep) string {
	if st.Flow == nil {
		return ""
	}
	if st.Kind != "" {
		return fmt.Sprintf("step %s of the harness has a control flow", st.ID)
	}
	if fault := st.Flow.Fault(st.ID, st.Child); fault != "" {
		return fmt.Sprintf("step %s: %s", st.ID, fault)
	}
	if st.Flow.Check && (st.Accept == nil || st.Accept.Attempts() != 1) {
		return fmt.Sprintf("step %s only checks: it needs checks that are made once", st.ID)
	}
	return ""
}

// flowRules fold the events about what the plan itself decides.
var flowRules = []rule{
	on(func(s *State, _ events.Event, d *events.StepExpandedData) string { return s.expanded(d) }),
	on(func(s *State, f events.Event, d *events.StepSettledData) string { return s.settled(d) }),
}

// expanded makes the parts of a step. They stand right behind it.
func (s *State) expanded(d *events.StepExpandedData) string {
	st := s.Step(d.Step)
	if fault := s.expandFault(st, d); fault != "" {
		return fault
	}
	plan := *s.Plan
	next := *st
	next.Status, next.Parts, next.Listed = events.StepIsRunning, d.From+d.Count-1, len(d.Items) > 0
	var parts []*Step
	for i := range d.Count {
		part := st.part(d.From+i, s.found(st))
		if part.Part.NotBefore = d.NotBefore; len(d.Items) > 0 {
			part.Part.Item = d.Items[i]
		}
		if s.Step(part.ID) != nil || slices.Contains(plan.Removed, part.ID) {
			return fmt.Sprintf("the run has or had a step %s already", part.ID)
		}
		parts = append(parts, part)
	}
	at := slices.Index(plan.Steps, st) + st.Parts + s.attempts(st)
	plan.Steps = slices.Insert(slices.Clone(plan.Steps), at+1, parts...)
	plan.Steps[slices.Index(plan.Steps, st)] = &next
	s.Plan = &plan
	s.CurrentStepIndex = firstIncomplete(s.Plan)
	return ""
}

// found is the last look of a step that waits whose agent found something out; empty where there is none.
func (s *State) found(st *Step) string {
	if st.Flow.Wake == nil {
		return ""
	}
	for n := st.Parts; n > 0; n-- {
		if p := s.Step(events.PartID(st.ID, n)); p != nil && p.Status == events.StepIsCompleted {
			return p.ID
		}
	}
	return ""
}

// attempts counts the parts of the parts of a step.
func (s *State) attempts(st *Step) (n int) {
	for _, p := range s.Plan.PartsOf(st.ID) {
		n += p.Parts
	}
	return n
}

// part is the step that a part of a step is, before it begins. found is the part whose result it gets besides, if any.
func (st *Step) part(number int, found string) *Step {
	p := &Step{ID: events.PartID(st.ID, number), Description: st.Description, AssignedAgent: st.AssignedAgent,
		Dependencies: st.Dependencies, Critical: st.Critical, Accept: st.Accept, Git: st.Git, Status: events.StepIsPending}
	if st.Flow.Each != nil && st.Flow.Each.Over == "" && number > 1 { // a round gets the result of the one before
		p.Dependencies = append(slices.Clone(p.Dependencies), events.PartID(st.ID, number-1))
	}
	if found != "" { // a look gets what the last one found
		p.Dependencies = append(slices.Clone(p.Dependencies), found)
	}
	p.Part = &events.StepPart{Of: st.ID, Number: number}
	if st.Part != nil {
		p.Part.Item = st.Part.Item
	}
	flow := events.StepFlow{TimeoutMS: st.Flow.TimeoutMS, Check: st.Flow.Check}
	if st.Flow.Each != nil {
		flow.Retry = st.Flow.Retry
	}
	if flow.TimeoutMS > 0 || flow.Retry != nil || flow.Check {
		p.Flow = &flow
	}
	p.place(st.PartChild)
	return p
}

// place says where the run works that the step, or its parts, are given to.
func (st *Step) place(child string) {
	if st.Flow.Group() {
		st.PartChild = child
	} else {
		st.Child = child
	}
}

func (s *State) expandFault(st *Step, d *events.StepExpandedData) string {
	switch {
	case st == nil || !st.Flow.Parted():
		return fmt.Sprintf("step %s is not one that steps are made of", d.Step)
	case s.Status.Ended():
		return "the run has ended"
	case d.From != st.Parts+1 || d.Count < 1 || len(d.Items) > 0 && len(d.Items) != d.Count:
		return fmt.Sprintf("parts %d to %d of step %s do not follow %d", d.From, d.From+d.Count-1, d.Step, st.Parts)
	case (st.Parts == 0 && st.Flow.Wake == nil) != (st.Status == events.StepIsPending) ||
		(st.Parts > 0 || st.Flow.Wake != nil) != (st.Status == events.StepIsRunning):
		return fmt.Sprintf("step %s is %s", d.Step, st.Status)
	case st.Flow.Wake != nil && (d.Count != 1 || len(d.Items) > 0 || d.From > events.MaxParts || d.NotBefore.IsZero()):
		return fmt.Sprintf("step %s has no look %d without a time", d.Step, d.From)
	case st.Flow.Group() && st.Flow.Each == nil && (d.Count != 1 || len(d.Items) > 0 || d.From > st.Flow.Retry.Attempts):
		return fmt.Sprintf("step %s has no attempt %d", d.Step, d.From)
	case st.Flow.Each != nil && (d.From+d.Count-1 > events.MaxParts || st.Listed):
		return fmt.Sprintf("step %s has no parts %d to %d", d.Step, d.From, d.From+d.Count-1)
	case st.Parts == 0 && st.Flow.Wake == nil && d.When != st.Flow.When:
		return fmt.Sprintf("step %s has the condition %q", d.Step, st.Flow.When)
	}
	if st.Parts == 0 && st.Flow.Wake == nil {
		return s.waits(st)
	}
	for _, p := range s.Plan.PartsOf(st.ID) {
		if !p.Ended() {
			return fmt.Sprintf("part %s has not ended", p.ID)
		}
	}
	return ""
}

// waits returns which step another one still waits for, or "".
func (s *State) waits(st *Step) string {
	for _, dep := range st.Dependencies {
		if on := s.Step(dep); on == nil || !st.Follows(on) {
			return fmt.Sprintf("step %s depends on %s, which is not complete", st.ID, dep)
		}
	}
	return ""
}

// settled ends a step by what its plan says.
func (s *State) settled(d *events.StepSettledData) string {
	st := s.Step(d.Step)
	if fault := s.settleFault(st, d); fault != "" {
		return fault
	}
	fault := s.step(d.Step, st.Status, func(st *Step) {
		st.Status, st.Output, st.Error, st.Reason = d.Status, d.Output, d.Error, d.FinishReason
		if d.Status == events.StepIsSkipped {
			st.Reason = d.Reason
		}
		if d.Status == events.StepIsFailed && d.FinishReason == events.FinishTimeout {
			st.RunReason = d.FinishReason
		}
		st.Owed, st.Final, st.Attempt, st.NotBefore, st.Passed, st.TooLong = 0, false, 0, time.Time{}, false, 0
		st.Outage = nil
	})
	if fault != "" {
		return fault
	}
	s.took(d.Input)
	s.dropOpen(d.Step)
	blockDependents(s.Plan)
	s.CurrentStepIndex = firstIncomplete(s.Plan)
	return ""
}

func (s *State) settleFault(st *Step, d *events.StepSettledData) string {
	switch {
	case st == nil:
		return fmt.Sprintf("step %s is not in the plan", d.Step)
	case st.Kind != "" || st.Flow == nil && st.Part == nil:
		return fmt.Sprintf("step %s is not one that its plan decides about", d.Step)
	case st.Ended():
		return fmt.Sprintf("step %s is %s", d.Step, st.Status)
	case d.Status != events.StepIsCompleted && d.Status != events.StepIsFailed && d.Status != events.StepIsSkipped:
		return fmt.Sprintf("step %s cannot be settled as %s", d.Step, d.Status)
	case d.Status == events.StepIsCompleted && !st.Flow.Group() && !st.Flow.Controls():
		return fmt.Sprintf("step %s is an agent's, and only its agent completes it", d.Step)
	case st.Status == events.StepIsPending && st.Flow != nil && d.Status != events.StepIsFailed && st.Part == nil &&
		d.When != st.Flow.When:
		return fmt.Sprintf("step %s has the condition %q", d.Step, st.Flow.When)
	case d.Status == events.StepIsCompleted && st.Flow != nil && (st.Flow.Signal != "") != (d.Input > 0) && !s.saw(st):
		return fmt.Sprintf("step %s is completed by the signal that it waits for, and by nothing else", d.Step)
	case d.Input > 0 && s.Took(d.Input):
		return fmt.Sprintf("message %d was taken already", d.Input)
	case d.Status == events.StepIsCompleted && st.Flow.Kind == events.ControlApproval && s.unapproved(st):
		return fmt.Sprintf("no one has approved step %s", d.Step)
	}
	if c := s.ChildOf(st.ID); c != nil && c.Lives() {
		return fmt.Sprintf("child %s of step %s has not ended", c.ID, st.ID)
	}
	if st.Status == events.StepIsPending && st.Part == nil {
		return s.waits(st)
	}
	for _, p := range s.Plan.PartsOf(st.ID) {
		if !p.Ended() {
			return fmt.Sprintf("part %s has not ended", p.ID)
		}
	}
	return ""
}

// saw reports whether the last look of a step that waits was completed: its condition may hold.
func (s *State) saw(st *Step) bool {
	return st.Flow.Wake != nil && st.Parts > 0 && s.found(st) == events.PartID(st.ID, st.Parts)
}

// unapproved reports whether a step of the kind approval has no yes, and none of no one where its plan takes that.
func (s *State) unapproved(st *Step) bool {
	g := s.GateFor(st.ID, "")
	return st.Status != events.StepIsRunning || g == nil || g.Status != GateApproved && (g.Status != GateExpired ||
		g.OnExpiry != events.ExpiryApproves || st.Flow.Approval.OnTimeout != events.ExpiryApproves)
}
