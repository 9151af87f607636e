package localstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// alarm is a timer that has not fired; at is its time, which also tells it from another of the same name.
type alarm struct {
	at   int64
	stop func() bool
}

type timers struct {
	s         *Station
	aggregate string
}

// Set implements kernel.Timers. A timer is kept until its firing is acknowledged.
func (t timers) Set(ctx context.Context, id, name string, at time.Time) error {
	if err := events.CheckID(t.aggregate, id); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	family, name, err := kernel.TimerName(t.aggregate, name)
	if err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	if _, ok := topology.ReceiverOfTimer(family); !ok {
		return fmt.Errorf("set timer %s: no role receives timers of family %q", name, family)
	}
	key, when := id+"."+name, at.UnixNano()
	err = t.s.store.write(ctx, func(tx *tx) error { return tx.put(timersBucket, []byte(key), number(uint64(when))) })
	if err != nil {
		return fmt.Errorf("set timer %s: %w", name, err)
	}
	t.s.arm(key, when)
	return nil
}

// arm has a timer fire in this process, instead of any other of its name.
func (s *Station) arm(key string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if old := s.alarms[key]; old != nil {
		old.stop()
	}
	a := &alarm{at: at}
	s.alarms[key] = a
	t := time.AfterFunc(time.Until(time.Unix(0, at)), func() { s.fire(key, a) })
	a.stop = t.Stop
}

func (s *Station) fire(key string, a *alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.alarms[key] != a {
		return // replaced while it was about to fire
	}
	delete(s.alarms, key)
	run, name, _ := strings.Cut(key, ".")
	family, _, _ := strings.Cut(name, ".")
	role, ok := topology.ReceiverOfTimer(family)
	if !ok {
		return // of an older program; no one waits for it
	}
	s.firings++
	s.mail.Push(role, queue.Parcel{Subject: events.DueSubject(s.name, run, name), Seq: s.firings, Time: time.Now(),
		Acked: func() { s.store.deferWrite(func(t *tx) error { return t.disarm(key, a.at) }) }})
}

// disarm removes a timer, unless it was set to another time since.
func (t *tx) disarm(key string, at int64) error {
	set, err := t.get(timersBucket, []byte(key))
	if err != nil || !bytes.Equal(set, number(uint64(at))) {
		return err
	}
	return t.remove(timersBucket, []byte(key))
}
