package kerneltest

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Timers examines timers. open is called for each part and returns a station on which nothing was said yet.
func Timers(t *testing.T, open func(t *testing.T) Post) {
	t.Helper()
	for _, part := range []struct {
		name string
		exam func(*testing.T, Post)
	}{
		{"DEPL-2 each role receives the timers of its families, when they are due", fires},
		{"DEPL-2 a timer in the past fires at once, also before anybody listens", firesLate},
		{"DEPL-2 a timer set again is replaced, to an earlier or a later time", replaces},
		{"DEPL-2 a firing comes again until it is acknowledged", firesUntilAcked},
		{"SAFE-12 DEPL-2 a timer that no role would hear is refused", refusesUnheard},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, open(t))
		})
	}
}

func set(t *testing.T, p Post, run, name string, at time.Time) {
	t.Helper()
	if err := p.Timers.Set(within(t), run, name, at, 0); err != nil {
		t.Fatalf("set timer %s of run %s: %v", name, run, err)
	}
}

// familyOf is the aggregate of a family of timers, and its name there: those of other aggregates than runs name theirs.
func familyOf(family string) (aggregate, own string) {
	if aggregate, own, ok := strings.Cut(family, "-"); ok {
		return aggregate, own
	}
	return events.RunAggregate, family
}

func fires(t *testing.T, p Post) {
	families := 0
	for _, h := range topology.AllSubscriptions() {
		for _, family := range h.Timers {
			families++
			id := unique("run")
			in, stop := listen(t, p, h.Role, 1)
			at := time.Now().Add(300 * time.Millisecond)
			aggregate, own := familyOf(family)
			if err := p.TimersFor(aggregate).Set(within(t), id, own+".x-1", at, uint64(families)); err != nil {
				t.Fatalf("set timer %s.x-1 of %s %s: %v", own, aggregate, id, err)
			}
			got := await(t, in, "timer %s.x-1 to fire", family)
			run, fam, name, ok := events.ParseDue(got.subject)
			if !ok || run != id || fam != family || name != "x-1" || got.subject != events.DueSubject(p.Station, id,
				family+".x-1") {
				t.Errorf("got subject %q, want %q", got.subject, events.DueSubject(p.Station, id, family+".x-1"))
			}
			if after := kernel.After(got.msg); after != uint64(families) {
				t.Errorf("timer %s follows from event %d, want %d", family, after, families)
			}
			// A firing may come a little early by the contract, but then it must be a little.
			if early := at.Sub(got.at); early > time.Second {
				t.Errorf("timer %s fired %s early", family, early)
			}
			got.ack(t)
			stop()
		}
	}
	if families == 0 {
		t.Error("no role receives any timer: the exam proved nothing")
	}
}

func firesLate(t *testing.T, p Post) {
	id := unique("run")
	set(t, p, id, "run.timeout", time.Now().Add(-time.Hour))
	in, _ := listen(t, p, events.Planner, 1)
	h := await(t, in, "a timer of an hour ago to fire")
	if want := events.DueSubject(p.Station, id, "run.timeout"); h.subject != want {
		t.Errorf("got %q, want %q", h.subject, want)
	}
	h.ack(t)
}

func replaces(t *testing.T, p Post) {
	earlier, later, other := unique("run"), unique("run"), unique("run")
	in, _ := listen(t, p, events.Planner, 1)
	set(t, p, earlier, "run.timeout", time.Now().Add(time.Hour))
	set(t, p, later, "run.timeout", time.Now().Add(1500*time.Millisecond))
	set(t, p, earlier, "run.timeout", time.Now().Add(100*time.Millisecond))
	set(t, p, later, "run.timeout", time.Now().Add(time.Hour))
	h := await(t, in, "the timer that was set to an earlier time")
	if want := events.DueSubject(p.Station, earlier, "run.timeout"); h.subject != want {
		t.Errorf("got %q, want %q", h.subject, want)
	}
	h.ack(t)
	// This one is due after the replaced time of the second: if only it fires, the second was replaced.
	set(t, p, other, "run.timeout", time.Now().Add(3*time.Second))
	h = await(t, in, "the third timer")
	if want := events.DueSubject(p.Station, other, "run.timeout"); h.subject != want {
		t.Errorf("got %q, want %q: a timer that was set to a later time fired at its first time", h.subject, want)
	}
	h.ack(t)
}

func firesUntilAcked(t *testing.T, p Post) {
	id := unique("run")
	set(t, p, id, "run.timeout", time.Now())
	in, _ := listen(t, p, events.Planner, 1)
	first := await(t, in, "a timer to fire")
	close(first.done)
	again := await(t, in, "the firing to come again (ack wait %s)", p.AckWait)
	if again.subject != first.subject || again.deliveries != 2 {
		t.Errorf("got delivery %d of %q, want delivery 2 of %q", again.deliveries, again.subject, first.subject)
	}
	again.ack(t)
}

func refusesUnheard(t *testing.T, p Post) {
	for _, name := range []string{"", "run", "run.", ".x", "run.a.b", "nobody.x", "*.x", "run.*"} {
		if err := p.Timers.Set(within(t), unique("run"), name, time.Now(), 0); err == nil {
			t.Errorf("timer %q: got no error", name)
		}
	}
	for _, h := range topology.AllSubscriptions() {
		for _, family := range h.Timers {
			if err := p.TimersFor(CounterAggregate).Set(within(t), unique("both"), family+".x", time.Now(), 0); err == nil {
				t.Errorf("timer %s.x of an aggregate that is no run was taken for one of a run", family)
			}
		}
	}
}
