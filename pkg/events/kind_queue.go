package events

import (
	"fmt"
	"strings"
	"time"
)

// QueueAggregate is the name of the aggregates that are merge queues, as it stands in subjects.
const QueueAggregate = "mergequeue"

// QueueRows begins the keys of the rows of merge queues in the bucket of sessions.
const QueueRows = QueueAggregate + "."

// The kinds of the events of a merge queue.
const (
	QueueCreated  Kind = "queue.created"
	QueueEnqueued Kind = "queue.enqueued"
	QueueTaken    Kind = "queue.taken"
	QueueReturned Kind = "queue.returned"
	QueueLanded   Kind = "queue.landed"
	QueueBounced  Kind = "queue.bounced"
	QueueDropped  Kind = "queue.dropped"
	QueueRetried  Kind = "queue.retried"
)

// QueueRegistry returns the event types of merge queues, in the order of an entry's life.
func QueueRegistry() []Type { return queueTypes[:] }

var queueTypes = [...]Type{
	{QueueCreated, Planner, "queue_created", Recorded, InLog, line((*QueueCreatedData).line),
		"The merge queue was made.",
		func() Payload { return new(QueueCreatedData) }},
	{QueueEnqueued, Planner, "queue_enqueued", Recorded, InLog, line((*QueueEnqueuedData).line),
		"A delivered branch waits to be landed.",
		func() Payload { return new(QueueEnqueuedData) }},
	{QueueTaken, Planner, "queue_taken", Recorded, InLog, line((*QueueTakenData).line),
		"One entry is taken. Its run merges it into the target branch, checks the merged tree and pushes it.",
		func() Payload { return new(QueueTakenData) }},
	{QueueReturned, Planner, "queue_returned", Recorded, InLog, line((*QueueReturnedData).line),
		"The attempt ended without a verdict: the target moved, or the remote did not answer. The entry is tried again.",
		func() Payload { return new(QueueReturnedData) }},
	{QueueLanded, Planner, "queue_landed", Recorded, InLog, line((*QueueLandedData).line),
		"The target branch of the remote has the commit: it was asked after the push, or had it before.",
		func() Payload { return new(QueueLandedData) }},
	{QueueBounced, Planner, "queue_bounced", Recorded, InLog, line((*QueueBouncedData).line),
		"The entry cannot be landed as it is. The work item is told why.",
		func() Payload { return new(QueueBouncedData) }},
	{QueueDropped, Planner, "queue_dropped", Recorded, InLog, line((*QueueDroppedData).line),
		"Somebody took the entry out of the queue.",
		func() Payload { return new(QueueDroppedData) }},
	{QueueRetried, Planner, "queue_retried", Recorded, InLog, line((*QueueRetriedData).line),
		"Somebody had an entry that waits tried at once.",
		func() Payload { return new(QueueRetriedData) }},
}

// LookupQueue is Lookup for the event types of merge queues.
func LookupQueue(k Kind) (Type, bool) { return lookup(queueTypes[:], k) }

// QueueCreatedData is the payload of queue.created.
type QueueCreatedData struct {
	Event string    `json:"event"`
	Queue string    `json:"queue"`
	Spec  QueueSpec `json:"spec"`
	WorkBy
}

// QueueEnqueuedData is the payload of queue.enqueued.
type QueueEnqueuedData struct {
	Event  string `json:"event"`
	Number int    `json:"number"`
	Queued
}

// QueueTakenData is the payload of queue.taken.
type QueueTakenData struct {
	Event   string `json:"event"`
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	// Run is the id that the run of the attempt gets.
	Run string `json:"run"`
}

// QueueReturnedData is the payload of queue.returned.
type QueueReturnedData struct {
	Event   string `json:"event"`
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	// Base is the commit of the target that was merged into.
	Base   string `json:"base,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	// NotBefore is when it is tried again; zero is at once.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// QueueLandedData is the payload of queue.landed.
type QueueLandedData struct {
	Event   string `json:"event"`
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	Run     string `json:"run"`
	// Base is the commit of the target before, Commit the one that has the work, and Tree what the checks passed on.
	Base   string `json:"base,omitempty"`
	Commit string `json:"commit"`
	Tree   string `json:"tree,omitempty"`
	// How is merge, forward, or nothing where the target had the commit before.
	How string `json:"how"`
	// Removed is true where the remote has the branch no more; else Kept says why it has.
	Removed bool   `json:"removed,omitempty"`
	Kept    string `json:"kept,omitempty"`
}

// QueueBouncedData is the payload of queue.bounced.
type QueueBouncedData struct {
	Event   string `json:"event"`
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	Base    string `json:"base,omitempty"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

// QueueDroppedData is the payload of queue.dropped.
type QueueDroppedData struct {
	Event  string `json:"event"`
	Number int    `json:"number"`
	WorkBy
}

// QueueRetriedData is the payload of queue.retried.
type QueueRetriedData struct {
	Event  string `json:"event"`
	Number int    `json:"number"`
	WorkBy
}

// Kind implements Payload.
func (*QueueCreatedData) Kind() Kind { return QueueCreated }

// Kind implements Payload.
func (*QueueEnqueuedData) Kind() Kind { return QueueEnqueued }

// Kind implements Payload.
func (*QueueTakenData) Kind() Kind { return QueueTaken }

// Kind implements Payload.
func (*QueueReturnedData) Kind() Kind { return QueueReturned }

// Kind implements Payload.
func (*QueueLandedData) Kind() Kind { return QueueLanded }

// Kind implements Payload.
func (*QueueBouncedData) Kind() Kind { return QueueBounced }

// Kind implements Payload.
func (*QueueDroppedData) Kind() Kind { return QueueDropped }

// Kind implements Payload.
func (*QueueRetriedData) Kind() Kind { return QueueRetried }

func (d *QueueCreatedData) line() string {
	return fmt.Sprintf("merge queue %s created: %s of %s", d.Queue, d.Spec.Branch, d.Spec.Repo)
}

func (d *QueueEnqueuedData) line() string {
	return fmt.Sprintf("entry %d: %s at %.12s, of work item %s", d.Number, d.Branch, d.Commit, d.Work)
}

func (d *QueueTakenData) line() string {
	return fmt.Sprintf("entry %d: attempt %d, run %s", d.Number, d.Attempt, d.Run)
}

func (d *QueueReturnedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("entry %d is tried again (%s) %s", d.Number, d.Code, d.Reason))
}

func (d *QueueLandedData) line() string {
	return fmt.Sprintf("entry %d landed at %.12s (%s)", d.Number, d.Commit, d.How)
}

func (d *QueueBouncedData) line() string {
	return fmt.Sprintf("entry %d bounced (%s): %s", d.Number, d.Code, d.Reason)
}

func (d *QueueDroppedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("entry %d dropped %s", d.Number, d.Reason))
}

func (d *QueueRetriedData) line() string { return fmt.Sprintf("entry %d is tried at once", d.Number) }
