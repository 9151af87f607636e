package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// ScheduleAggregate is the name of the aggregates that are schedules, as it stands in subjects.
const ScheduleAggregate = "schedule"

// ScheduleRows begins the keys of the rows of schedules in the bucket of sessions.
const ScheduleRows = ScheduleAggregate + "."

// The kinds of the events of a schedule.
const (
	ScheduleCreated Kind = "schedule.created"
	ScheduleChanged Kind = "schedule.changed"
	SchedulePaused  Kind = "schedule.paused"
	ScheduleResumed Kind = "schedule.resumed"
	ScheduleRemoved Kind = "schedule.removed"
	ScheduleSkipped Kind = "schedule.skipped"
	ScheduleFired   Kind = "schedule.fired"
	ScheduleRefused Kind = "schedule.refused"
	ScheduleEnded   Kind = "schedule.ended"
)

// ScheduleRegistry returns the event types of schedules, in the order of a schedule's life.
func ScheduleRegistry() []Type { return scheduleTypes[:] }

var scheduleTypes = [...]Type{
	{ScheduleCreated, Planner, "schedule_created", Recorded, InLog, line((*ScheduleCreatedData).line),
		"The schedule was made, or made again after it was removed.",
		func() Payload { return new(ScheduleCreatedData) }},
	{ScheduleChanged, Planner, "schedule_changed", Recorded, InLog, line((*ScheduleChangedData).line),
		"The schedule fires at other times from now on, or begins something else.",
		func() Payload { return new(ScheduleChangedData) }},
	{SchedulePaused, Planner, "schedule_paused", Recorded, InLog, line((*SchedulePausedData).line),
		"The schedule does not fire until it is resumed.",
		func() Payload { return new(SchedulePausedData) }},
	{ScheduleResumed, Planner, "schedule_resumed", Recorded, InLog, line((*ScheduleResumedData).line),
		"The schedule fires again; times during the pause are not missed times.",
		func() Payload { return new(ScheduleResumedData) }},
	{ScheduleRemoved, Planner, "schedule_removed", Recorded, InLog, line((*ScheduleRemovedData).line),
		"The schedule does not fire any more; runs that it began go on.",
		func() Payload { return new(ScheduleRemovedData) }},
	{ScheduleSkipped, Planner, "schedule_skipped", Decided, InLog, line((*ScheduleSkippedData).line),
		"Times of the schedule passed without a firing.",
		func() Payload { return new(ScheduleSkippedData) }},
	{ScheduleFired, Planner, "schedule_fired", Decided, InLog, line((*ScheduleFiredData).line),
		"The schedule fired. The run of that id is created after this, once.",
		func() Payload { return new(ScheduleFiredData) }},
	{ScheduleRefused, Planner, "schedule_refused", Recorded, InLog, line((*ScheduleRefusedData).line),
		"The task of a firing was refused: there is no run.",
		func() Payload { return new(ScheduleRefusedData) }},
	{ScheduleEnded, Planner, "schedule_ended", Recorded, InLog, line((*ScheduleEndedData).line),
		"The run of a firing ended.",
		func() Payload { return new(ScheduleEndedData) }},
}

// LookupSchedule is Lookup for the event types of schedules.
func LookupSchedule(k Kind) (Type, bool) { return lookup(scheduleTypes[:], k) }

// ScheduleBy is who asked for a change. Input is the position of the control in the input stream.
type ScheduleBy struct {
	Input  uint64 `json:"input"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ScheduleCreatedData is the payload of schedule.created.
type ScheduleCreatedData struct {
	Event    string       `json:"event"`
	Schedule string       `json:"schedule"`
	Spec     ScheduleSpec `json:"spec"`
	ScheduleBy
}

// ScheduleChangedData is the payload of schedule.changed.
type ScheduleChangedData struct {
	Event string       `json:"event"`
	Spec  ScheduleSpec `json:"spec"`
	ScheduleBy
}

// SchedulePausedData is the payload of schedule.paused.
type SchedulePausedData struct {
	Event string `json:"event"`
	ScheduleBy
}

// ScheduleResumedData is the payload of schedule.resumed.
type ScheduleResumedData struct {
	Event string `json:"event"`
	ScheduleBy
}

// ScheduleRemovedData is the payload of schedule.removed.
type ScheduleRemovedData struct {
	Event string `json:"event"`
	ScheduleBy
}

// ScheduleSkippedData is the payload of schedule.skipped.
type ScheduleSkippedData struct {
	Event string `json:"event"`
	// First and Last of the times, and how many there were; more than 1000 are not counted.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
	// Reason is missed, overlap or full.
	Reason string `json:"reason"`
}

// Reasons of schedule.skipped: the station was down, a run of the schedule was under way, or too many were.
const (
	SkippedMissed  = "missed"
	SkippedOverlap = "overlap"
	SkippedFull    = "full"
)

// ScheduleFiredData is the payload of schedule.fired.
type ScheduleFiredData struct {
	Event  string `json:"event"`
	Number int    `json:"number"`
	// Run is the id of the run that the firing begins.
	Run string `json:"run"`
	// At is the time that it is for. Missed is how many missed times it stands for.
	At     time.Time `json:"at"`
	Missed int       `json:"missed,omitempty"`
	// Manual is who asked for it, where it was not time.
	Manual *ScheduleBy `json:"manual,omitempty"`
}

// ScheduleRefusedData is the payload of schedule.refused.
type ScheduleRefusedData struct {
	Event  string `json:"event"`
	Number int    `json:"number"`
	Run    string `json:"run"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

// ScheduleEndedData is the payload of schedule.ended.
type ScheduleEndedData struct {
	Event        string `json:"event"`
	Number       int    `json:"number"`
	Run          string `json:"run"`
	Success      bool   `json:"success"`
	FinishReason string `json:"finish_reason"`
}

// Kind implements Payload.
func (*ScheduleCreatedData) Kind() Kind { return ScheduleCreated }

// Kind implements Payload.
func (*ScheduleChangedData) Kind() Kind { return ScheduleChanged }

// Kind implements Payload.
func (*SchedulePausedData) Kind() Kind { return SchedulePaused }

// Kind implements Payload.
func (*ScheduleResumedData) Kind() Kind { return ScheduleResumed }

// Kind implements Payload.
func (*ScheduleRemovedData) Kind() Kind { return ScheduleRemoved }

// Kind implements Payload.
func (*ScheduleSkippedData) Kind() Kind { return ScheduleSkipped }

// Kind implements Payload.
func (*ScheduleFiredData) Kind() Kind { return ScheduleFired }

// Kind implements Payload.
func (*ScheduleRefusedData) Kind() Kind { return ScheduleRefused }

// Kind implements Payload.
func (*ScheduleEndedData) Kind() Kind { return ScheduleEnded }

// When is the timing of a spec in one line for people.
func (s ScheduleSpec) When() string {
	switch {
	case s.Cron != "":
		return s.Cron + " " + cmp.Or(s.TimeZone, "UTC")
	case s.Every != "":
		return "every " + s.Every
	case s.At != nil:
		return "at " + s.At.UTC().Format(time.RFC3339)
	}
	return "never"
}

func (d *ScheduleCreatedData) line() string {
	return fmt.Sprintf("schedule %s created: %s, agent %s", d.Schedule, d.Spec.When(), d.Spec.Task.Agent)
}

func (d *ScheduleChangedData) line() string {
	return fmt.Sprintf("schedule changed: %s, agent %s", d.Spec.When(), d.Spec.Task.Agent)
}

func (d *SchedulePausedData) line() string { return strings.TrimSpace("schedule paused " + d.Reason) }

func (d *ScheduleResumedData) line() string { return strings.TrimSpace("schedule resumed " + d.Reason) }

func (d *ScheduleRemovedData) line() string { return strings.TrimSpace("schedule removed " + d.Reason) }

func (d *ScheduleSkippedData) line() string {
	return fmt.Sprintf("skipped %d (%s), the last of %s", d.Count, d.Reason, d.Last.UTC().Format(time.RFC3339))
}

func (d *ScheduleFiredData) line() string {
	return fmt.Sprintf("firing %d of %s: run %s", d.Number, d.At.UTC().Format(time.RFC3339), d.Run)
}

func (d *ScheduleRefusedData) line() string {
	return fmt.Sprintf("firing %d refused (%s): %s", d.Number, d.Code, d.Reason)
}

func (d *ScheduleEndedData) line() string {
	return fmt.Sprintf("run %s of firing %d ended: %s", d.Run, d.Number, d.FinishReason)
}
