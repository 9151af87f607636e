package localstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// alarm is a timer that has not fired; at is its time, which also tells it from another of the same name, and after
// what it follows from.
type alarm struct {
	at    int64
	after uint64
	stop  func() bool
}

type timers struct {
	s         *Station
	aggregate string
}

// Set implements kernel.Timers. A timer is kept until its firing is acknowledged.
func (t timers) Set(ctx context.Context, id, name string, at time.Time, after uint64) error {
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
	value := append(number(uint64(when)), number(after)...)
	err = t.s.store.write(ctx, func(tx *tx) error { return tx.put(timersBucket, []byte(key), value) })
	if err != nil {
		return fmt.Errorf("set timer %s: %w", name, err)
	}
	t.s.arm(key, when, after)
	return nil
}

// arm has a timer fire in this process, instead of any other of its name.
func (s *Station) arm(key string, at int64, after uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if old := s.alarms[key]; old != nil {
		old.stop()
	}
	a := &alarm{at: at, after: after}
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
		Header: map[string]string{kernel.AfterHeader: strconv.FormatUint(a.after, 10)},
		Acked:  func() { s.store.deferWrite(func(t *tx) error { return t.disarm(key, a.at) }) }})
}

// disarm removes a timer, unless it was set to another time since.
func (t *tx) disarm(key string, at int64) error {
	set, err := t.get(timersBucket, []byte(key))
	if err != nil || !bytes.HasPrefix(set, number(uint64(at))) {
		return err
	}
	return t.remove(timersBucket, []byte(key))
}
