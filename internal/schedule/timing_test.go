package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// upcoming are the next times of a cron expression in a zone, as that zone writes them.
func upcoming(t *testing.T, cron, zone, after string, n int) []string {
	t.Helper()
	timing, err := schedule.TimingOf(events.ScheduleSpec{Cron: cron, TimeZone: zone}, at(t, after))
	if err != nil {
		t.Fatal(err)
	}
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, next := range timing.Upcoming(at(t, after), n) {
		all = append(all, next.In(in).Format(time.RFC3339))
	}
	return all
}

func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, cron, zone, after, want string }{
		{"a time that does not exist fires when the clock is put forward", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"several such times fire once", "0,15,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{"a time that comes twice fires at the first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			"2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"every hour follows real time where an hour comes twice", "30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
			"2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"every hour follows real time where an hour is missing", "30 * * * *", "Europe/Berlin", "2026-03-28T23:45:00Z",
			"2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00"},
		{"midnight that does not exist", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z",
			"2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{"a day that does not exist", "0 12 * * *", "Pacific/Apia", "2011-12-29T22:30:00Z", "2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"},
		{"a change of half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z",
			"2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{"the south: a time that does not exist", "30 2 * * *", "Australia/Sydney", "2026-10-03T00:00:00Z",
			"2026-10-04T03:00:00+11:00 2026-10-05T02:30:00+11:00"},
		{"the south: a time that comes twice", "30 2 * * *", "Australia/Sydney", "2026-04-04T00:00:00Z",
			"2026-04-05T02:30:00+11:00 2026-04-06T02:30:00+10:00"},
		{"the south: every quarter of an hour in an hour that comes twice", "*/30 2 * * *", "Pacific/Auckland", "2026-04-04T00:00:00Z",
			"2026-04-05T02:00:00+13:00 2026-04-05T02:30:00+13:00 2026-04-06T02:00:00+12:00"},
		{"every hour of the south where one is missing", "15 * * * *", "Pacific/Auckland", "2026-09-26T13:00:00Z",
			"2026-09-27T01:15:00+12:00 2026-09-27T03:15:00+13:00"},
		{"half an hour that does not exist", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			"2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"a time behind half an hour that does not exist", "45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			"2026-10-04T02:45:00+11:00 2026-10-05T02:45:00+11:00"},
		{"every hour where half an hour comes twice, outside of it", "15 * * * *", "Australia/Lord_Howe", "2026-04-04T13:30:00Z",
			"2026-04-05T01:15:00+11:00 2026-04-05T02:15:00+10:30"},
		{"every hour where half an hour comes twice, within it", "45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z",
			"2026-04-05T01:45:00+11:00 2026-04-05T01:45:00+10:30 2026-04-05T02:45:00+10:30"},
		{"days of the week across a change", "0 3 * * SUN", "America/New_York", "2026-03-02T00:00:00Z",
			"2026-03-08T03:00:00-04:00 2026-03-15T03:00:00-04:00"},
		{"an hour that comes twice in the north of America", "15 1 * * *", "America/New_York", "2026-10-31T12:00:00Z",
			"2026-11-01T01:15:00-04:00 2026-11-02T01:15:00-05:00"},
		{"a zone without changes", "30 2 * * *", "Asia/Kolkata", "2026-03-28T12:00:00Z",
			"2026-03-29T02:30:00+05:30 2026-03-30T02:30:00+05:30"},
		{"a change at midnight that comes twice", "30 23 * * *", "America/Havana", "2026-10-31T12:00:00Z",
			"2026-10-31T23:30:00-04:00 2026-11-01T23:30:00-05:00"},
		{"the last day of February in a leap year", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
	} {
		t.Run("TRIG-5 "+c.what, func(t *testing.T) {
			t.Parallel()
			if got := upcoming(t, c.cron, c.zone, c.after, len(strings.Fields(c.want))); strings.Join(got, " ") != c.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what, want string
		spec       events.ScheduleSpec
	}{
		{"nothing", "one of cron, every and at", events.ScheduleSpec{}},
		{"two of three", "one of cron, every and at", events.ScheduleSpec{Cron: "0 2 * * *", Every: "1h"}},
		{"a wrong field", `column 3: "25" is no hour (0-23)`, events.ScheduleSpec{Cron: "0 25 * * *"}},
		{"a field that stands twice", `column 7: "* *"`, events.ScheduleSpec{Cron: "* * *  * * * *"}},
		{"four fields", "has 4 fields, want 5", events.ScheduleSpec{Cron: "0 2 * *"}},
		{"a day that no month has", "never fires", events.ScheduleSpec{Cron: "0 0 31 2,4,6 *"}},
		{"a zone in the expression", "time zones stand in timezone", events.ScheduleSpec{Cron: "TZ=0 0 2 * * *"}},
		{"an interval in the expression", "intervals in every", events.ScheduleSpec{Cron: "@every 1s"}},
		{"an unknown name", "@hourly, @daily", events.ScheduleSpec{Cron: "@sometimes"}},
		{"an unknown zone", `timezone "Mars/Olympus" is not known`, events.ScheduleSpec{Cron: "0 2 * * *", TimeZone: "Mars/Olympus"}},
		{"a zone that is a path", "is not known", events.ScheduleSpec{Cron: "0 2 * * *", TimeZone: "../../etc/passwd"}},
		{"a short interval", "from 10s", events.ScheduleSpec{Every: "9s"}},
		{"no interval", "such as 15m", events.ScheduleSpec{Every: "often"}},
		{"a zone without cron", "timezone goes with cron", events.ScheduleSpec{Every: "1h", TimeZone: "Europe/Berlin"}},
		{"missed", "want skip, one or all", events.ScheduleSpec{Every: "1h", Missed: "some"}},
		{"overlap", "want skip, queue, replace or allow", events.ScheduleSpec{Every: "1h", Overlap: "wait"}},
		{"all missed that replace each other", "needs overlap: queue or allow", events.ScheduleSpec{Every: "1h", Missed: "all", Overlap: "replace"}},
		{"jitter", "want a length of time from 1s", events.ScheduleSpec{Every: "1h", Jitter: "-5m"}},
		{"jitter above the limit", "to 6h0m0s", events.ScheduleSpec{Cron: "@daily", Jitter: "6h1s"}},
		{"jitter above the interval", "longer than every", events.ScheduleSpec{Every: "1h", Jitter: "2h"}},
		{"a mode", "want normal, dream or overnight", events.ScheduleSpec{Every: "1h", Mode: "asleep"}},
		{"overnight without phases", "needs phases", events.ScheduleSpec{Every: "1h", Mode: events.ModeOvernight}},
		{"phases without a mode", "phases go with mode", events.ScheduleSpec{Every: "1h", Phases: []events.Phase{{Name: "a"}}}},
		{"two phases of a name", `two phases "a"`, events.ScheduleSpec{Every: "1h", Mode: events.ModeDream, Phases: []events.Phase{{Name: "a"}, {Name: "a"}}}},
		{"a phase that cannot be checked", "phases[0]", events.ScheduleSpec{Every: "1h", Mode: events.ModeDream, Phases: []events.Phase{{Name: "a", Accept: &events.Accept{}}}}},
		{"an interval without a mode", "checkpoint_interval goes with", events.ScheduleSpec{Every: "1h", CheckpointInterval: "5m"}},
		{"an interval", "from 1s to 24h", events.ScheduleSpec{Every: "1h", Mode: events.ModeDream, CheckpointInterval: "5ms"}},
		{"all missed without a queue", "needs overlap: queue or allow", events.ScheduleSpec{Every: "1h", Missed: "all"}},
		{"a limit without all", "goes with missed: all", events.ScheduleSpec{Every: "1h", MissedLimit: 3}},
		{"no agent", "names no agent", events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Task: "x"}}},
		{"money", "want a number above zero", events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "a", Task: "x", MaxUSD: "NaN"}}},
		{"too long", "put long instructions in the agent's file", events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "a", Task: strings.Repeat("x", events.MaxSchedule)}}},
	} {
		t.Run("TRIG-5 refused: "+c.what, func(t *testing.T) {
			t.Parallel()
			if c.what == "a field that stands twice" {
				c.want = "has 7 fields, want 5"
			}
			if err := schedule.CheckSpec(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("TRIG-5 a time that has passed is refused, whatever else is right", func(t *testing.T) {
		t.Parallel()
		spec := events.ScheduleSpec{At: &past, Task: events.ScheduledTask{Agent: "a", Task: "x"}}
		w := schedule.Wish{ScheduleControl: events.ScheduleControl{Action: "set", Spec: &spec}, Schedule: "s", Input: 1}
		if _, err := schedule.Steer(schedule.State{}, w, past.Add(time.Second), nil); err == nil || !strings.Contains(err.Error(), "never fires") {
			t.Errorf("got %v", err)
		}
		if s, err := schedule.Steer(schedule.State{}, w, past.Add(-time.Second), nil); err != nil || len(s.Changes()) != 1 {
			t.Errorf("before its time: %v", err)
		}
	})
}
