package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// setting is one Set of a timer, and when it began and ended.
type setting struct {
	due          time.Time
	began, ended time.Time
}

// alarm is one timer name, what it was set to and when it fired.
type alarm struct {
	sets  []setting
	fired []time.Time
}

// Bounds of what counts as in time; a machine with other work is slow now and then, so they are wide.
const (
	timerSlack = 150 * time.Millisecond
	timerTardy = 2 * time.Second
)

// ring sets timers again and again, while another listener hears them, and returns when each that must fire has fired.
func ring(t *testing.T, s *side, d *rand.Rand, names int, trouble func()) map[string]*alarm {
	t.Helper()
	ctx := within(t)
	var mu sync.Mutex
	alarms := map[string]*alarm{} // guarded by mu
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		_ = s.inbox.Listen(listening, events.Planner, 8, func(_ context.Context, m kernel.Message) {
			run, _, _, _ := events.ParseDue(m.Subject())
			mu.Lock()
			if a := alarms[run]; a != nil && m.Deliveries() == 1 { // more is a matter of deliveries
				a.fired = append(a.fired, time.Now())
			}
			mu.Unlock()
			_ = m.Ack(ctx)
		})
	})
	defer listener.Wait()
	defer stop()
	var last time.Time
	begin := time.Now()
	for round := range 3 {
		<-time.After(time.Until(begin.Add(time.Duration(round) * 300 * time.Millisecond))) // some fire between the rounds
		if trouble != nil && round == 1 {
			trouble()
		}
		for i := range names {
			name := fmt.Sprintf("n%d", i)
			offset := []time.Duration{-time.Second, 0, 200 * time.Millisecond, 500 * time.Millisecond, time.Hour}[d.IntN(5)]
			mu.Lock()
			if alarms[name] == nil {
				alarms[name] = &alarm{}
			}
			set := setting{began: time.Now()}
			mu.Unlock()
			set.due = set.began.Add(offset)
			for err := s.timers.Set(ctx, name, "run.x", set.due, 0); err != nil; err = s.timers.Set(ctx, name, "run.x", set.due, 0) {
				if ctx.Err() != nil || !s.replicated() {
					t.Fatalf("%s: set timer: %v", s.name, err)
				}
			}
			set.ended = time.Now()
			if offset < time.Hour {
				last = set.due
			}
			mu.Lock()
			alarms[name].sets = append(alarms[name].sets, set)
			mu.Unlock()
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		mu.Lock()
		missing := 0
		for _, a := range alarms {
			if least, _ := a.expects(); len(a.fired) < least {
				missing++
			}
		}
		mu.Unlock()
		if missing == 0 && time.Since(last) > 400*time.Millisecond {
			return alarms
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %d timers did not fire", s.name, missing)
		}
	}
}

// expects bounds how often a timer fires. A setting fires if it was due before the next one began, or there is none;
// where the next one came at about the same time it may or may not.
func (a *alarm) expects() (least, most int) {
	for i, set := range a.sets {
		if time.Until(set.due) > time.Minute {
			continue
		}
		switch {
		case i == len(a.sets)-1:
			least, most = least+1, most+1
		case a.sets[i+1].ended.Before(set.due.Add(-timerSlack)):
		default:
			most++ // one that no one has acknowledged may also be replaced by the next firing
		}
	}
	return least, most
}

func judgeAlarms(s *side, alarms map[string]*alarm, c *tally) {
	for name, a := range alarms {
		c.agreed(1)
		least, most := a.expects()
		for range a.fired {
			c.saw(s, "fired")
		}
		if len(a.fired) < least {
			c.violate(s, "timer %s fired %d times, want %d at least", name, len(a.fired), least)
		}
		if len(a.fired) > most {
			c.allow(s, timerTwice, "%s fired %d times, want %d at most", name, len(a.fired), most)
		}
		if len(a.fired) == 0 {
			continue
		}
		first, final := a.sets[0].due, a.sets[len(a.sets)-1].due
		for _, set := range a.sets {
			if set.due.Before(first) {
				first = set.due
			}
		}
		if early := first.Sub(a.fired[0]); early > 0 {
			c.allow(s, timerEarly, "%s by %s", name, early)
			if early > time.Second {
				c.violate(s, "timer %s fired %s early", name, early)
			}
		}
		if late := a.fired[len(a.fired)-1].Sub(final); time.Until(final) < 0 && late > timerTardy {
			c.allow(s, timerLate, "%s by %s", name, late)
		}
	}
}

// leases renews some leases and looks until all have ended.
func leases(t *testing.T, s *side, c *tally) {
	t.Helper()
	ctx := within(t)
	term := s.terms.lease
	alive := func(name string) bool {
		for {
			held, err := s.leases.Alive(ctx, name)
			if err == nil {
				return held
			}
			if ctx.Err() != nil || !s.replicated() {
				t.Fatalf("%s: alive: %v", s.name, err)
			}
		}
	}
	renew := func(name string) (began, ended time.Time) {
		for {
			began = time.Now()
			err := s.leases.Renew(ctx, name)
			if err == nil {
				return began, time.Now()
			}
			if ctx.Err() != nil || !s.replicated() {
				t.Fatalf("%s: renew: %v", s.name, err)
			}
		}
	}
	tick := time.NewTicker(term / 15)
	defer tick.Stop()
	begin := time.Now()
	began, ended := renew("held")
	idleBegan, idleEnded := renew("idle")
	idle := true
	for time.Since(begin) < 2*term || idle || alive("held") {
		if time.Since(begin) < 2*term { // one is renewed, the other is not
			began, ended = renew("held")
		}
		asked := time.Now()
		held := alive("held")
		c.saw(s, fmt.Sprintf("alive %v", held))
		c.agreed(1)
		if !held && time.Since(began) < term {
			c.violate(s, "a lease ended %s after a renewal, its term is %s", time.Since(began), term)
		}
		if idle {
			asked = time.Now()
			idle = alive("idle")
			if !idle && time.Since(idleBegan) < term {
				c.violate(s, "a lease ended %s after its renewal, its term is %s", time.Since(idleBegan), term)
			}
			if idle && asked.Sub(idleEnded) > term+100*time.Millisecond {
				c.allow(s, leaseOutlive, "by %s", asked.Sub(idleEnded)-term)
			}
		} else if held && asked.Sub(ended) > term+100*time.Millisecond {
			c.allow(s, leaseOutlive, "by %s", asked.Sub(ended)-term)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: a lease of %s never ended", s.name, term)
		}
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	c := newTally()
	seed := chance(t, 9).Uint64()
	atOnce(t, map[string]func(t *testing.T, s *side){
		"SAFE-4 DEPL-2 timers fire, and are replaced, as on one server": func(t *testing.T, s *side) {
			judgeAlarms(s, ring(t, s, rand.New(rand.NewPCG(seed, 9)), 24, nil), c)
		},
		"SAFE-4 DEPL-2 leases end as on one server": func(t *testing.T, s *side) { leases(t, s, c) },
	})
	c.tell(t)
}
