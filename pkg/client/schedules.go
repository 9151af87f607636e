package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Schedules are the schedules of the station.
type Schedules struct{ c *Client }

// NewSchedules returns the schedules of the station of a client.
func NewSchedules(c *Client) Schedules { return Schedules{c} }

// List lists the schedules of the station by name.
func (ss Schedules) List(ctx context.Context) ([]events.Schedule, error) {
	all, err := rows[events.Schedule](ctx, ss.c, topology.SessionBucket, events.ScheduleRows)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	all = slices.DeleteFunc(all, func(s events.Schedule) bool { return s.Status == events.ScheduleIsRemoved })
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all, nil
}

// Get returns a schedule; ErrNotFound where there is none.
func (ss Schedules) Get(ctx context.Context, id string) (events.Schedule, error) {
	s, err := ss.get(ctx, id)
	if err == nil && (s.ID == "" || s.Status == events.ScheduleIsRemoved) {
		err = notFound("schedule", id)
	}
	return s, err
}

// get returns what is known of a schedule, also of a removed one.
func (ss Schedules) get(ctx context.Context, id string) (s events.Schedule, err error) {
	if err := events.CheckID("schedule", id); err != nil {
		return s, err
	}
	b, err := ss.c.st.KV(topology.SessionBucket).Get(ctx, events.ScheduleRows+id)
	if errors.Is(err, kernel.ErrNotFound) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("schedule %s: %w", id, err)
	}
	return s, nil
}

// Control does something to a schedule and returns it with that done: set makes or changes it, pause and resume hold it
// and let it go on, run has it fire now, remove ends it. It returns a *RefusedError with the code bad_schedule where it
// would never fire, unknown_schedule where there is none and schedule_busy where an earlier run is in the way.
func (ss Schedules) Control(ctx context.Context, id string, ctl events.ScheduleControl) (events.Schedule, error) {
	if err := events.CheckID("schedule", id); err != nil {
		return events.Schedule{}, err
	}
	return controlled(ctx, ss.c, "schedule "+id, events.ScheduleSubject(ss.c.st.Name(), id), ctl,
		func(ctx context.Context) (events.Schedule, error) { return ss.get(ctx, id) }, events.Schedule.Took)
}

// Began waits until the run of the last firing of a schedule exists, and returns the firing. One that is queued behind
// others is returned as it is. It returns a *RefusedError where the task of the firing was refused.
func (ss Schedules) Began(ctx context.Context, id string, number int) (events.FiringEnd, error) {
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		s, err := ss.Get(ctx, id)
		if err != nil || s.Last == nil || s.Last.Number != number {
			return events.FiringEnd{Firing: events.Firing{Number: number}}, err
		}
		f := *s.Last
		if f.Outcome == events.FiringIsRefused {
			code, reason, _ := strings.Cut(f.Reason, ": ")
			return f, &RefusedError{Code: code, Reason: reason, Hint: "inspan schedule history " + id}
		}
		if _, err = ss.c.State(ctx, f.Run); err == nil {
			return f, nil
		}
		if !errors.Is(err, ErrNotFound) || s.Spec.Overlap.InTurn() && len(s.Open) > 1 {
			return f, ignore(err, ErrNotFound)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return f, fmt.Errorf("schedule %s: firing %d is recorded, but its run does not exist yet: %w", id, number,
				context.Cause(ctx))
		}
	}
}

// ignore is an error, or nil where it is one that does not matter.
func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// controlled publishes a control, and returns what it was for once that has taken it.
func controlled[T any](ctx context.Context, c *Client, what, subject string, ctl any,
	get func(context.Context) (T, error),
	took func(T, uint64) bool) (T, error) {
	var none T
	input, letters, err := publisher{c}.send(ctx, subject, ctl)
	if err != nil {
		return none, err
	}
	defer letters.stop()
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		e, err := get(ctx)
		if err == nil && took(e, input) {
			return e, nil
		}
		if err != nil && ctx.Err() == nil {
			return e, err
		}
		select {
		case d := <-letters.come:
			return e, refused(d)
		case <-time.After(wait):
			if d, ok := letters.look(ctx); ok {
				return e, refused(d)
			}
		case <-ctx.Done():
			return e, fmt.Errorf("%s: stored, but station %s has not answered yet: it will when its services run, inspan doctor says which do: %w", what, c.st.Name(), context.Cause(ctx))
		}
	}
}

// ScheduleEntry is one firing of a schedule and what became of it, or times that did not fire.
type ScheduleEntry struct {
	events.FiringEnd
	// EndedAt is when the end of the run, or the refusal, was recorded.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Skipped is how many times did not fire; At is the last of them, Outcome "skipped" and Reason says why.
	Skipped int `json:"skipped,omitempty"`
}

// History returns what a schedule did, the oldest first, also before it was removed.
func (ss Schedules) History(ctx context.Context, id string) ([]ScheduleEntry, error) {
	if err := events.CheckID("schedule", id); err != nil {
		return nil, err
	}
	log := ss.c.st.JournalFor(events.ScheduleAggregate)
	var all []ScheduleEntry
	there := false
	for after, more := uint64(0), true; more; {
		batch, next, err := log.Read(ctx, id, after)
		if err != nil {
			return nil, fmt.Errorf("read schedule %s: %w", id, err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.ScheduleAggregate, events.LookupSchedule)
			if err != nil {
				return nil, fmt.Errorf("schedule %s: %w", id, err)
			}
			all, after, there = noted(all, f.Time, p), r.Seq, true
		}
		more = next
	}
	if !there {
		return nil, notFound("schedule", id)
	}
	return all, nil
}

// noted adds an event to a history.
func noted(all []ScheduleEntry, at time.Time, p events.Payload) []ScheduleEntry {
	end := func(number int, outcome, reason string) {
		for i := range all {
			if all[i].Number == number && all[i].Skipped == 0 {
				all[i].Outcome, all[i].Reason, all[i].EndedAt = outcome, reason, at
			}
		}
	}
	switch d := p.(type) {
	case *events.ScheduleFiredData:
		all = append(all, ScheduleEntry{FiringEnd: events.FiringEnd{Firing: events.Firing{Number: d.Number, Run: d.Run,
			At:      d.At,
			FiredAt: at, Manual: d.Manual != nil}, Outcome: events.FiringIsOpen}})
	case *events.ScheduleSkippedData:
		all = append(all, ScheduleEntry{Skipped: d.Count,
			FiringEnd: events.FiringEnd{Firing: events.Firing{At: d.Last, FiredAt: at},
				Outcome: "skipped", Reason: d.Reason}})
	case *events.ScheduleEndedData:
		outcome := events.FiringIsCompleted
		if !d.Success {
			outcome = events.FiringIsFailed
		}
		end(d.Number, outcome, d.FinishReason)
	case *events.ScheduleRefusedData:
		end(d.Number, events.FiringIsRefused, d.Code+": "+d.Reason)
	}
	return all
}
