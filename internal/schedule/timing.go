package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
	_ "time/tzdata" // where the machine has no time zones

	"github.com/robfig/cron/v3"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of timings.
const (
	// MinEvery is the shortest interval, MaxEvery the longest.
	MinEvery, MaxEvery = 10 * time.Second, 366 * 24 * time.Hour
	// MaxJitter is the most that a time fires later.
	MaxJitter = 6 * time.Hour
	// maxCounted is the most times that passed which are counted one by one.
	maxCounted = 1000
	// maxWalls bounds how many times on the wall are tried for one firing: those of an hour that comes twice, or of a
	// day that a zone leaves out.
	maxWalls = 24 * 60 * 2
)

// Timing says at which times a schedule fires.
//
// A cron expression is read in a time zone. One whose hour field permits every hour follows real time: it fires at
// every local time that it matches, both times where an hour comes twice. Any other fires once for each local time that
// it matches: at the first where that comes twice, and where the clock is put forward over it, at the moment of the
// change.
type Timing struct {
	cron cron.Schedule
	// hourly is true for an expression that permits every hour.
	hourly        bool
	zone          *time.Location
	every         time.Duration
	anchor        time.Time
	at, until     time.Time
	isAt, isUntil bool
	// jitter is how much later a time of the schedule id fires at most.
	jitter time.Duration
	id     string
}

// TimingOf reads the timing of a spec whose intervals are counted from anchor.
func TimingOf(spec events.ScheduleSpec, anchor time.Time) (Timing, error) {
	t := Timing{anchor: anchor, zone: time.UTC}
	given := 0
	for _, is := range []bool{spec.Cron != "", spec.Every != "", spec.At != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return t, errors.New("a schedule needs one of cron, every and at")
	}
	if spec.TimeZone != "" {
		zone, err := time.LoadLocation(spec.TimeZone)
		if err != nil || spec.TimeZone == "Local" {
			return t, fmt.Errorf("timezone %.64q is not known: name one such as Europe/Berlin or UTC", spec.TimeZone)
		}
		t.zone = zone
	}
	if spec.Until != nil {
		t.until, t.isUntil = *spec.Until, true
	}
	if spec.Jitter != "" {
		jitter, err := time.ParseDuration(spec.Jitter)
		if err != nil || jitter < time.Second || jitter > MaxJitter {
			return t, fmt.Errorf("jitter %.64q: want a length of time from 1s to %s, such as 5m", spec.Jitter, MaxJitter)
		}
		t.jitter = jitter
	}
	switch {
	case spec.At != nil:
		t.at, t.isAt = *spec.At, true
		return t, nil
	case spec.Every != "":
		every, err := time.ParseDuration(spec.Every)
		if err != nil || every < MinEvery || every > MaxEvery {
			return t, fmt.Errorf("every %.64q: want a length of time from %s to %s, such as 15m", spec.Every, MinEvery, MaxEvery)
		}
		if t.jitter > every {
			return t, fmt.Errorf("jitter %s is longer than every %s", t.jitter, every)
		}
		t.every = every
		return t, nil
	}
	return t, t.readCron(spec.Cron)
}

// parser reads the five fields of a cron expression and the names for common ones. It is given no time zone.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// maxCron is the most bytes of a cron expression.
const maxCron = 256

func (t *Timing) readCron(text string) error {
	if len(text) > maxCron {
		return fmt.Errorf("cron: the expression has %d bytes, the limit is %d", len(text), maxCron)
	}
	if strings.Contains(text, "=") || strings.HasPrefix(text, "@every") {
		return fmt.Errorf("cron %q: time zones stand in timezone, intervals in every", text)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return cronFault(text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fmt.Errorf("cron %q: want five fields", text)
	}
	spec.Location = time.UTC
	t.cron, t.hourly = spec, bits.OnesCount64(spec.Hour&(1<<24-1)) == 24
	if t.cron.Next(t.anchor.UTC()).IsZero() {
		return fmt.Errorf("cron %q never fires: no month that it names has such a day", text)
	}
	return nil
}

// cronFields are the names of the fields, and what each may have.
var cronFields = [...]struct{ name, may string }{{"minute", "0-59"}, {"hour", "0-23"}, {"day of the month", "1-31"},
	{"month", "1-12 or JAN-DEC"}, {"day of the week", "0-6 or SUN-SAT"}}

// cronFault says which field of an expression is wrong, and where it begins.
func cronFault(text string, cause error) error {
	if strings.HasPrefix(text, "@") {
		return fmt.Errorf("cron %q: want five fields, or @hourly, @daily, @weekly, @monthly or @yearly", text)
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("cron %q has %d fields, want 5: minute, hour, day of the month, month, day of the week", text,
			len(fields))
	}
	column := 0
	for i, f := range fields {
		column += strings.Index(text[column:], f)
		alone := strings.Fields("* * * * *")
		alone[i] = f
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			return fmt.Errorf("cron %q, column %d: %q is no %s (%s): %w", text, column+1, f, cronFields[i].name,
				cronFields[i].may, err)
		}
		column += len(f)
	}
	return fmt.Errorf("cron %q: %w", text, cause)
}

// of is the timing of the schedule of that name, whose jitter differs from that of others.
func (t Timing) of(id string) Timing {
	t.id = id
	return t
}

// Fires is when a time of the schedule fires: with jitter a whole number of seconds later, which follows from the
// schedule and the time, so that planners agree and a second look finds the same.
func (t Timing) Fires(at time.Time) time.Time {
	if t.jitter == 0 || at.IsZero() {
		return at
	}
	sum := sha256.Sum256([]byte("jitter|" + t.id + "|" + at.UTC().Format(time.RFC3339Nano)))
	late := time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(t.jitter)) //nolint:gosec // jitter is above zero
	return at.Add(late.Truncate(time.Second))
}

// Next returns the first time after a time, in UTC, or the zero time where there is none.
func (t Timing) Next(after time.Time) time.Time {
	var next time.Time
	switch {
	case t.isAt:
		if t.at.After(after) {
			next = t.at
		}
	case t.every > 0:
		next = t.anchor.Add((max(0, after.Sub(t.anchor))/t.every + 1) * t.every)
	case t.hourly:
		next = t.inRealTime(after)
	case t.cron != nil:
		next = t.onTheWall(after)
	}
	if next.IsZero() || t.isUntil && next.After(t.until) {
		return time.Time{}
	}
	return next.UTC()
}

// inRealTime goes from change to change of the clock: between two of them local time is real time.
func (t Timing) inRealTime(after time.Time) time.Time {
	local := after.In(t.zone)
	for range maxWalls {
		_, offset := local.Zone()
		_, change := local.ZoneBounds()
		shift := time.Duration(offset) * time.Second
		next := t.cron.Next(after.UTC().Add(shift))
		if next.IsZero() {
			return next
		}
		if next = next.Add(-shift); change.IsZero() || next.Before(change) {
			return next
		}
		local, after = change.In(t.zone), change.Add(-time.Nanosecond)
	}
	return time.Time{}
}

func (t Timing) onTheWall(after time.Time) time.Time {
	wall := wallOf(after, t.zone)
	for range maxWalls {
		if wall = t.cron.Next(wall); wall.IsZero() {
			return wall
		}
		if at := instant(wall, t.zone); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// wallOf is what a clock on the wall of a zone shows, as if it were UTC.
func wallOf(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is when a clock on the wall shows a time: the first moment where it does so twice, and the moment at which it
// is put forward where it never does.
func instant(wall time.Time, zone *time.Location) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	begin, end := guess.ZoneBounds()
	var first, late time.Time
	for _, near := range []time.Time{begin.Add(-time.Nanosecond), guess, end} {
		if near.Year() <= 1 { // a zone without a change there
			continue
		}
		_, offset := near.In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if wallOf(at, zone).Equal(wall) && (first.IsZero() || at.Before(first)) {
			first = at
		}
		if late.IsZero() || at.After(late) {
			late = at
		}
	}
	if !first.IsZero() {
		return first
	}
	change, _ := late.In(zone).ZoneBounds()
	return change
}

// Upcoming returns the next n times after a time.
func (t Timing) Upcoming(after time.Time, n int) []time.Time {
	var all []time.Time
	for next := t.Next(after); !next.IsZero() && len(all) < n; next = t.Next(next) {
		all = append(all, next)
	}
	return all
}

// passed are times up to now that have not been handled: the last ones, and what is known of those before.
type passed struct {
	last []time.Time
	// older counts the times before them, of which first is the oldest and end the newest.
	older      int
	first, end time.Time
}

// passedSince returns the times after one time up to another, at most most of them one by one.
func (t Timing) passedSince(after, now time.Time, most int) passed {
	var p passed
	add := func(at time.Time) {
		p.last = append(p.last, at)
		if len(p.last) > most {
			if p.older++; p.older == 1 {
				p.first = p.last[0]
			}
			p.end, p.last = p.last[0], p.last[1:]
		}
	}
	n := 0
	for at := t.Next(after); !at.IsZero() && !t.Fires(at).After(now); at = t.Next(at) {
		if n++; n == maxCounted { // go on close to the end
			if near := t.near(now.Add(-t.jitter), most); near.After(at) {
				at = near
			}
		}
		add(at)
	}
	p.older = min(p.older, maxCounted)
	return p
}

// near is a time not long before now, with at least most more times behind it where there are so many.
func (t Timing) near(now time.Time, most int) time.Time {
	for back := time.Hour; back < 100*MaxEvery; back *= 2 {
		at := t.Next(now.Add(-back))
		if got := t.Upcoming(at, most+1); len(got) == most+1 && !got[most].After(now) {
			return at
		}
	}
	return time.Time{}
}

// Next returns when the next n times of a schedule fire that are not handled yet; none of one that does not fire.
func Next(s events.Schedule, n int) []time.Time {
	t, err := TimingOf(s.Spec, s.Anchor)
	if err != nil || s.Status != events.ScheduleIsActive {
		return nil
	}
	all := t.Upcoming(s.Handled, n)
	for i, at := range all {
		all[i] = t.of(s.ID).Fires(at)
	}
	return all
}
