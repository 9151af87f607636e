package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
)

// jittered is a schedule with jitter that was made at a time.
func jittered(t *rapid.T, id string, begin time.Time) schedule.State {
	spec := events.ScheduleSpec{Every: "1h", Jitter: rapid.SampledFrom([]string{"1s", "7m", "1h"}).Draw(t, "jitter"), Overlap: events.OverlapAllow,
		Missed: rapid.SampledFrom([]events.MissedPolicy{events.MissedOne, events.MissedSkip, events.MissedAll}).Draw(t, "missed"), Task: events.ScheduledTask{Agent: "a", Task: "x"}}
	s, err := schedule.Steer(schedule.State{}, schedule.Wish{ScheduleControl: events.ScheduleControl{Action: schedule.Set, Spec: &spec}, Schedule: id, Input: 1}, begin, number)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(id string, _ int) string { return id }

func TestJitter(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	t.Run("TRIG-5 with jitter each time is handled once and in order, never before its moment, however often and when it is looked at", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, last := jittered(t, "one", begin), begin
			now := begin
			for range 20 {
				wake, ok := schedule.Wake(s)
				if !ok || wake.Before(last) {
					t.Fatalf("wakes at %s after %s", wake, last)
				}
				now = now.Add(time.Duration(rapid.IntRange(0, 4*3600).Draw(t, "seconds")) * time.Second)
				before := s
				next, err := schedule.Due(s, now, number)
				if err != nil {
					t.Fatal(err)
				}
				if wake.After(now) && next.Handled != before.Handled || !wake.After(now) && !next.Handled.After(before.Handled) {
					t.Fatalf("wake %s, now %s: handled %s, before %s", wake, now, next.Handled, before.Handled)
				}
				if again, err := schedule.Due(next, now, number); err != nil || again.Fired != next.Fired || again.Skipped != next.Skipped {
					t.Fatalf("a second look: %d %d, before %d %d, %v", again.Fired, again.Skipped, next.Fired, next.Skipped, err)
				}
				if n := int(next.Handled.Sub(begin) / time.Hour); next.Fired+next.Skipped != n {
					t.Fatalf("%d fired, %d skipped of %d", next.Fired, next.Skipped, n)
				}
				for _, f := range next.Open {
					next = schedule.Close(next, f.Number, true, "done", now)
				}
				s, last = next, wake
			}
		})
	})
	t.Run("TRIG-5 jitter follows from the schedule and the time: planners agree, schedules differ", func(t *testing.T) {
		t.Parallel()
		spec := events.ScheduleSpec{Every: "1h", Jitter: "1h"}
		moments := map[time.Time]bool{}
		for _, id := range []string{"a", "b", "c", "d"} {
			s := events.Schedule{ID: id, Status: events.ScheduleIsActive, Spec: spec, Anchor: begin, Handled: begin}
			first, again := schedule.Next(s, 3), schedule.Next(s, 3)
			for i, at := range first {
				nominal := begin.Add(time.Duration(i+1) * time.Hour)
				if at.Before(nominal) || at.Sub(nominal) >= time.Hour || !at.Equal(again[i]) {
					t.Errorf("%s: time %d fires at %s", id, i, at)
				}
			}
			moments[first[0]] = true
		}
		if len(moments) < 3 {
			t.Errorf("four schedules fire at %v", moments)
		}
	})
}

func TestReplace(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-5 with overlap replace two firings are open at most: the one to be stopped, and the newest that waits", func(t *testing.T) {
		t.Parallel()
		begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		spec := events.ScheduleSpec{Every: "1h", Overlap: events.OverlapReplace, Task: events.ScheduledTask{Agent: "a", Task: "x"}}
		s, err := schedule.Steer(schedule.State{}, schedule.Wish{ScheduleControl: events.ScheduleControl{Action: schedule.Set, Spec: &spec}, Schedule: "one", Input: 1}, begin, number)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 4; n++ {
			if s, err = schedule.Due(s, begin.Add(time.Duration(n)*time.Hour), number); err != nil {
				t.Fatal(err)
			}
			old, by, ok := s.Replaced()
			if len(s.Open) != min(n, 2) || ok != (n > 1) || ok && (old.Number != 1 || by.Number != 2) || len(s.Ready()) != 1 || s.Ready()[0].Number != 1 {
				t.Fatalf("after %d times: %+v, %+v by %+v", n, s.Open, old, by)
			}
		}
		if s = schedule.Close(s, 1, false, "stopped", begin.Add(5*time.Hour)); s.Skipped != 2 || len(s.Ready()) != 1 || s.Ready()[0].Number != 2 {
			t.Errorf("%+v, %d skipped", s.Open, s.Skipped)
		}
		if _, _, ok := s.Replaced(); ok {
			t.Error("the last one is to be replaced")
		}
	})
}
