package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
)

// dumb is a cron expression as lists of what each field permits. It looks at every minute.
type dumb struct {
	fields [5][]int // empty permits all
	zone   *time.Location
}

func (d dumb) text() string {
	var out []string
	for _, f := range d.fields {
		if len(f) == 0 {
			out = append(out, "*")
			continue
		}
		out = append(out, strings.Trim(strings.ReplaceAll(fmt.Sprint(f), " ", ","), "[]"))
	}
	return strings.Join(out, " ")
}

// wall reports whether what a clock on the wall shows is permitted.
func (d dumb) wall(w time.Time) bool {
	is := func(i, v int) bool { return len(d.fields[i]) == 0 || slices.Contains(d.fields[i], v) }
	day, weekday := is(2, w.Day()), is(4, int(w.Weekday()))
	if len(d.fields[2]) > 0 && len(d.fields[4]) > 0 {
		day, weekday = day || weekday, true
	}
	return is(0, w.Minute()) && is(1, w.Hour()) && is(3, int(w.Month())) && day && weekday
}

func shown(at time.Time, zone *time.Location) time.Time {
	l := at.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// fires reports whether it fires at a minute, by the rules of schedule.Timing.
func (d dumb) fires(at time.Time) bool {
	now, before := shown(at, d.zone), shown(at.Add(-time.Minute), d.zone)
	if len(d.fields[1]) == 0 {
		return d.wall(now)
	}
	if d.wall(now) {
		first := true
		for back := 30 * time.Minute; back <= 2*time.Hour; back += 30 * time.Minute { // was it shown before?
			first = first && !shown(at.Add(-back), d.zone).Equal(now)
		}
		if first {
			return true
		}
	}
	for missing := before.Add(time.Minute); missing.Before(now); missing = missing.Add(time.Minute) {
		if d.wall(missing) {
			return true
		}
	}
	return false
}

func TestNext(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Beirut", "America/Havana"}
	t.Run("TRIG-5 the next times of an expression are those that looking at each minute finds, around changes of the clock too", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
			if err != nil {
				t.Fatal(err)
			}
			d := dumb{zone: zone}
			for i, r := range [][2]int{{0, 59}, {0, 23}, {1, 28}, {1, 12}, {0, 6}} {
				if i < 2 || rapid.IntRange(0, 3).Draw(t, "restricted") == 0 {
					d.fields[i] = rapid.SliceOfNDistinct(rapid.IntRange(r[0], r[1]), 0, 3, rapid.ID).Draw(t, "field")
				}
			}
			if rapid.Bool().Draw(t, "at night") && len(d.fields[1]) > 0 {
				d.fields[1] = []int{rapid.IntRange(0, 3).Draw(t, "hour")}
			}
			begin := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 3*365*24).Draw(t, "hours")) * time.Hour)
			if _, change := begin.In(zone).ZoneBounds(); rapid.Bool().Draw(t, "near a change") && !change.IsZero() {
				begin = change.UTC().Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "before")) * 10 * time.Minute)
			}
			begin = begin.Truncate(time.Minute)
			timing, err := schedule.TimingOf(events.ScheduleSpec{Cron: d.text(), TimeZone: zone.String()}, begin)
			if err != nil {
				t.Fatalf("%s: %v", d.text(), err)
			}
			next := timing.Next(begin)
			for at, end := begin.Add(time.Minute), begin.Add(30*time.Hour); !at.After(end); at = at.Add(time.Minute) {
				if fires := d.fires(at); fires != next.Equal(at) {
					t.Fatalf("%s in %s after %s: at %s it fires: %v; the next time is %s", d.text(), zone, begin, at.In(zone), fires, next.In(zone))
				} else if fires {
					next = timing.Next(at)
				}
			}
		})
	})
	t.Run("TRIG-5 each time is in one event, none fires twice, and deciding again decides nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			begin := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
			spec := events.ScheduleSpec{Cron: rapid.SampledFrom([]string{"*/20 * * * *", "30 2 * * *", "0 */3 * * *"}).Draw(t, "cron"),
				TimeZone: "Europe/Berlin", Task: events.ScheduledTask{Agent: "a", Task: "x"},
				Missed: rapid.SampledFrom([]events.MissedPolicy{"", "skip", "one", "all"}).Draw(t, "missed"), Overlap: "queue"}
			if spec.Missed != "all" {
				spec.Overlap = rapid.SampledFrom([]events.OverlapPolicy{"skip", "queue", "allow"}).Draw(t, "overlap")
			}
			id := func(_ string, n int) string { return fmt.Sprint("firing_", n) }
			s, err := schedule.Steer(schedule.State{}, schedule.Wish{ScheduleControl: events.ScheduleControl{Action: "set", Spec: &spec}, Schedule: "s", Input: 1}, begin, id)
			if err != nil {
				t.Fatal(err)
			}
			now, seen, covered, stands := begin, map[time.Time]int{}, 0, 0
			for range rapid.IntRange(1, 12).Draw(t, "looks") {
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "minutes")) * time.Minute)
				for len(s.Open) > 0 && rapid.Bool().Draw(t, "ends") {
					s = schedule.Close(s, s.Open[0].Number, true, "", now)
				}
				before := len(s.Changes())
				if s, err = schedule.Due(s, now, id); err != nil {
					t.Fatal(err)
				}
				for _, p := range s.Changes()[before:] {
					switch d := p.(type) {
					case *events.ScheduleFiredData:
						seen[d.At]++
						stands += d.Missed
					case *events.ScheduleSkippedData:
						covered += d.Count
					}
				}
				again, err := schedule.Due(s, now, id)
				if err != nil || len(again.Changes()) != len(s.Changes()) {
					t.Fatalf("decided again: %+v, %v", again.Changes()[len(s.Changes()):], err)
				}
			}
			timing, err := schedule.TimingOf(spec, begin)
			if err != nil {
				t.Fatal(err)
			}
			all := 0
			for at := timing.Next(begin); !at.After(now); at = timing.Next(at) {
				all++
			}
			for at, n := range seen {
				if n != 1 {
					t.Fatalf("%s fired %d times", at, n)
				}
			}
			if len(seen)+covered+stands != all {
				t.Fatalf("%d fired, %d skipped, %d stood for, of %d", len(seen), covered, stands, all)
			}
		})
	})
}
