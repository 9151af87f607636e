package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// WorkAggregate is the name of the aggregates that are work items, as it stands in subjects.
const WorkAggregate = "work"

// The kinds of the events of a work item.
const (
	WorkCreated    Kind = "work.created"
	WorkBound      Kind = "work.bound"
	WorkDispatched Kind = "work.dispatched"
	WorkStarted    Kind = "work.started"
	WorkHandedOff  Kind = "work.handed-off"
	WorkUnbound    Kind = "work.unbound"
	WorkProgressed Kind = "work.progressed"
	WorkClosed     Kind = "work.closed"
	WorkTracked    Kind = "work.tracked"
	WorkFollowed   Kind = "work.followed"
)

// WorkRegistry returns the event types of work items, in the order of an item's life.
func WorkRegistry() []Type { return workTypes }

var workTypes = append([]Type{
	{WorkCreated, Planner, "work_created", Recorded, InLog, line((*WorkCreatedData).line),
		"The work item was made.",
		func() Payload { return new(WorkCreatedData) }},
	{WorkBound, Planner, "work_bound", Recorded, InLog, line((*WorkBoundData).line),
		"The item has a holder. No one else gets it until this binding ends.",
		func() Payload { return new(WorkBoundData) }},
	{WorkDispatched, Planner, "work_dispatched", Recorded, InLog, line((*WorkDispatchedData).line),
		"The run of the binding is to begin. It is created after this, once.",
		func() Payload { return new(WorkDispatchedData) }},
	{WorkStarted, Planner, "work_started", Recorded, InLog, line((*WorkStartedData).line),
		"The run of the binding exists and has the item. It starts after this.",
		func() Payload { return new(WorkStartedData) }},
	{WorkHandedOff, Planner, "work_handed_off", Recorded, InLog, line((*WorkHandedOffData).line),
		"The run of a named agent has ended and the agent keeps the item: its next run has it.",
		func() Payload { return new(WorkHandedOffData) }},
	{WorkUnbound, Planner, "work_unbound", Recorded, InLog, line((*WorkUnboundData).line),
		"The item is free again: its run failed or was refused, the binding was not started in time, or somebody cleared it.",
		func() Payload { return new(WorkUnboundData) }},
	{WorkProgressed, Planner, "work_progressed", Recorded, InLog, line((*WorkProgressedData).line),
		"Somebody noted something at the item.",
		func() Payload { return new(WorkProgressedData) }},
	{WorkClosed, Planner, "work_closed", Recorded, InLog, line((*WorkClosedData).line),
		"The item is closed: its run completed, or somebody closed it.",
		func() Payload { return new(WorkClosedData) }},
	{WorkTracked, Planner, "work_tracked", Recorded, InLog, line((*WorkTrackedData).line),
		"The item is in a convoy, which is closed when all of its items are.",
		func() Payload { return new(WorkTrackedData) }},
	{WorkFollowed, Planner, "work_followed", Recorded, InLog, line((*WorkFollowedData).line),
		"The item is that of a step of a formula, and follows what became of the step in its run.",
		func() Payload { return new(WorkFollowedData) }},
}, deliveryTypes()...)

// LookupWork is Lookup for the event types of work items.
func LookupWork(k Kind) (Type, bool) { return lookup(workTypes, k) }

// WorkBy is who asked for a change. Input is the position of the control in the input stream, 0 where a planner
// decided.
type WorkBy struct {
	Input  uint64 `json:"input,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// WorkCreatedData is the payload of work.created.
type WorkCreatedData struct {
	Event string   `json:"event"`
	Work  string   `json:"work"`
	Spec  WorkSpec `json:"spec"`
	// Step is the one that the item follows; nil for an item that somebody made.
	Step *WorkStep `json:"step,omitempty"`
	WorkBy
}

// WorkBoundData is the payload of work.bound.
type WorkBoundData struct {
	Event string `json:"event"`
	// Epoch is one more than that of the binding before.
	Epoch    int          `json:"epoch"`
	Dispatch WorkDispatch `json:"dispatch"`
	// Run is the id that the run of the binding gets.
	Run string `json:"run"`
	// Start has it begin at once, without work.dispatched.
	Start bool `json:"start,omitempty"`
	// ExpiresAt is when the item is free again unless its run has started.
	ExpiresAt time.Time `json:"expires_at"`
	WorkBy
}

// WorkDispatchedData is the payload of work.dispatched.
type WorkDispatchedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// ExpiresAt is when the item is free again unless its run has started.
	ExpiresAt time.Time `json:"expires_at"`
	WorkBy
}

// WorkStartedData is the payload of work.started. AgentEpoch is that of a named agent whose run it is.
type WorkStartedData struct {
	Event      string `json:"event"`
	Epoch      int    `json:"epoch"`
	Run        string `json:"run"`
	AgentEpoch int    `json:"agent_epoch,omitempty"`
}

// WorkHandedOffData is the payload of work.handed-off. Code is the finish reason of the run.
type WorkHandedOffData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	Code  string `json:"code"`
}

// WorkUnboundData is the payload of work.unbound.
type WorkUnboundData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	// Run is that of the binding where it had one.
	Run string `json:"run,omitempty"`
	// Code is as in WorkEnd.
	Code string `json:"code"`
	WorkBy
}

// WorkProgressedData is the payload of work.progressed.
type WorkProgressedData struct {
	Event string `json:"event"`
	Note  string `json:"note"`
	WorkBy
}

// WorkClosedData is the payload of work.closed.
type WorkClosedData struct {
	Event string `json:"event"`
	// Epoch and Run are those of the binding whose run completed; empty where somebody closed the item.
	Epoch int    `json:"epoch,omitempty"`
	Run   string `json:"run,omitempty"`
	WorkBy
}

// WorkTrackedData is the payload of work.tracked.
type WorkTrackedData struct {
	Event  string `json:"event"`
	Convoy string `json:"convoy"`
}

// WorkFollowedData is the payload of work.followed.
type WorkFollowedData struct {
	Event string `json:"event"`
	WorkStep
}

// Kind implements Payload.
func (*WorkFollowedData) Kind() Kind { return WorkFollowed }

func (d *WorkFollowedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("step %s of run %s is %s %s", d.Step, d.Run, d.Status, d.Reason))
}

// Kind implements Payload.
func (*WorkCreatedData) Kind() Kind { return WorkCreated }

// Kind implements Payload.
func (*WorkBoundData) Kind() Kind { return WorkBound }

// Kind implements Payload.
func (*WorkDispatchedData) Kind() Kind { return WorkDispatched }

// Kind implements Payload.
func (*WorkStartedData) Kind() Kind { return WorkStarted }

// Kind implements Payload.
func (*WorkHandedOffData) Kind() Kind { return WorkHandedOff }

func (d *WorkHandedOffData) line() string {
	return fmt.Sprintf("run %s has ended (%s); the agent keeps the item (binding %d)", d.Run, d.Code, d.Epoch)
}

// Kind implements Payload.
func (*WorkUnboundData) Kind() Kind { return WorkUnbound }

// Kind implements Payload.
func (*WorkProgressedData) Kind() Kind { return WorkProgressed }

// Kind implements Payload.
func (*WorkClosedData) Kind() Kind { return WorkClosed }

// Kind implements Payload.
func (*WorkTrackedData) Kind() Kind { return WorkTracked }

func (d *WorkTrackedData) line() string { return "in the convoy " + d.Convoy }

func (d *WorkCreatedData) line() string {
	return fmt.Sprintf("work item %s created: %s", d.Work, d.Spec.Title)
}

func (d *WorkBoundData) line() string {
	return fmt.Sprintf("binding %d: agent %s, by %s", d.Epoch, d.Dispatch.Holder(), cmp.Or(d.By, "unknown"))
}

func (d *WorkDispatchedData) line() string {
	return fmt.Sprintf("binding %d: run %s is to begin", d.Epoch, d.Run)
}

func (d *WorkStartedData) line() string {
	return fmt.Sprintf("binding %d: run %s has the item", d.Epoch, d.Run)
}

func (d *WorkUnboundData) line() string {
	return strings.TrimSpace(fmt.Sprintf("binding %d ended (%s) %s", d.Epoch, d.Code, d.Reason))
}

func (d *WorkProgressedData) line() string { return "note: " + d.Note }

func (d *WorkClosedData) line() string { return strings.TrimSpace("work item closed " + d.Reason) }
