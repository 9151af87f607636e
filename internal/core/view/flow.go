package view

import (
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// FlowNode is when and how often a step is carried out, and what it is part of; nil for most steps. Parts counts the
// steps that were made of it.
type FlowNode struct {
	Flow  *events.StepFlow
	Part  *events.StepPart
	Parts int
}

// done and spared are as run.Step has them.
func (st *StepNode) done() bool {
	over := st.Status == events.StepIsFailed || st.Status == events.StepIsBlocked
	return st.Status == events.StepIsCompleted || st.Status == events.StepIsSkipped || over && st.Part != nil ||
		st.Status == events.StepIsFailed && st.Flow.Soft()
}

func (st *StepNode) spared() bool { return st.Part != nil || st.Flow.Soft() }

// expanded adds the parts of a step, behind it and the parts that it has.
func (t *Tree) expanded(at time.Time, d *events.StepExpandedData) {
	whole := t.steps[d.Step]
	if whole == nil {
		return
	}
	if whole.Status, whole.Parts = events.StepIsRunning, d.From+d.Count-1; d.From == 1 {
		whole.Began = at
	}
	var parts []*StepNode
	for i := range d.Count {
		n := &StepNode{ID: events.PartID(d.Step, d.From+i), Description: whole.Description, Agent: whole.Agent,
			Critical: whole.Critical,
			Needs:    whole.Needs, Status: events.StepIsPending, NotBefore: d.NotBefore,
			Child:    ChildNode{Workspace: whole.Child.Workspace},
			FlowNode: FlowNode{Part: &events.StepPart{Of: d.Step, Number: d.From + i, NotBefore: d.NotBefore}}}
		if len(d.Items) > 0 {
			n.Part.Item = d.Items[i]
			n.Description = Clip(string(d.Items[i]), 200)
		}
		if whole.Flow != nil && whole.Flow.Each != nil && whole.Flow.Retry != nil {
			n.Flow = &events.StepFlow{Retry: whole.Flow.Retry}
		}
		parts = append(parts, n)
		t.steps[n.ID] = n
	}
	behind := slices.Index(t.Steps, whole)
	for i, st := range t.Steps {
		if t.within(st, d.Step) {
			behind = i
		}
	}
	t.Steps = slices.Insert(slices.Clone(t.Steps), behind+1, parts...)
}

// within reports whether a step is a part of another one, or a part of a part.
func (t *Tree) within(st *StepNode, whole string) bool {
	for st != nil && st.Part != nil {
		if st.Part.Of == whole {
			return true
		}
		st = t.steps[st.Part.Of]
	}
	return false
}

func (t *Tree) settled(at time.Time, d *events.StepSettledData) {
	st := t.steps[d.Step]
	if st == nil {
		return
	}
	st.Status, st.Ended, st.Output, st.Error, st.Asked = d.Status, at, d.Output, d.Error, time.Time{}
	if d.Status == events.StepIsSkipped {
		st.Error = d.Reason
	}
	if d.Status == events.StepIsFailed {
		t.block()
	}
}

// Depth is how many steps the step is a part of, one within the other.
func (t *Tree) Depth(st *StepNode) int {
	n := 0
	for ; st != nil && st.Part != nil; st = t.steps[st.Part.Of] {
		n++
	}
	return n
}

// flowWait is the wait of a step that no agent carries out.
func flowWait(s run.State, st *run.Step, now time.Time) (w Wait, ok bool) {
	f := st.Flow
	if f == nil || f.Kind != events.ControlWait {
		return w, false
	}
	w = Wait{Step: st.ID, Since: st.BeganAt}
	if f.WaitMS > 0 {
		w.Until = st.BeganAt.Add(time.Duration(f.WaitMS) * time.Millisecond)
	}
	switch {
	case f.WaitMS > 0 && !now.Before(w.Until):
		w.On, w.Since, w.Until, w.Text = string(events.Planner), w.Until, time.Time{}, "step "+st.ID+": its time is up, and it waits for the planner"
	case f.Signal == "":
		w.On, w.Text = OnTime, "step "+st.ID+" lets time pass"
	default:
		w.On, w.Text, w.Command = OnSignal, "step "+st.ID+" waits for the signal "+f.Signal, "inspan signal "+s.HarnessID+" "+f.Signal
	}
	return w, true
}
