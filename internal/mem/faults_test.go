package mem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/events"
)

// world is a station whose clock is in the hand.
type world struct {
	*mem.Station
	hand *mem.Hand
	in   chan kernel.Message
}

func byHand(t *testing.T, cfg mem.Config) *world {
	t.Helper()
	h := mem.NewHand(time.Unix(1000, 0).UTC())
	cfg.Clock = h
	return &world{Station: open(t, cfg), hand: h, in: make(chan kernel.Message, 64)} // more than any test hears
}

// listen hears as a role until the test is over.
func (w *world) listen(t *testing.T, role events.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := w.Inbox().Listen(ctx, role, 8, func(_ context.Context, m kernel.Message) { w.in <- m }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
}

// hear waits for the next delivery and says which it is.
func (w *world) receive(t *testing.T, want string) kernel.Message {
	t.Helper()
	select {
	case m := <-w.in:
		if got := fmt.Sprintf("%s %d", m.Data(), m.Deliveries()); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
		return m
	case <-time.After(5 * time.Minute):
		t.Fatalf("waited in vain for %q", want)
	}
	panic("not reached")
}

func (w *world) say(t *testing.T, run string) {
	t.Helper()
	if ack := w.Journal().Append(t.Context(), kernel.Entry{ID: run, Kind: events.CallAllowed, Bytes: []byte(run)}); ack.Outcome != kernel.Stored {
		t.Fatalf("append: %s", ack.Outcome)
	}
}

func (w *world) pending(t *testing.T, want int) {
	t.Helper()
	if got := w.Pending(events.Toolrunner); got != want {
		t.Errorf("got %d pending, want %d", got, want)
	}
}

func TestDeliveryFaults(t *testing.T) {
	t.Parallel()
	deliver := func(d ...mem.Delivery) mem.Faults {
		return mem.Faults{Deliver: func(n uint64, _ events.Service, _ string) mem.Delivery {
			if n > uint64(len(d)) {
				return mem.Delivery{}
			}
			return d[n-1]
		}}
	}
	// Each event is put before the persister first, which hears nothing here.
	none := mem.Delivery{}
	for _, c := range []struct {
		name string
		play func(t *testing.T, w *world)
	}{
		{"SAFE-4 a late delivery is overtaken", func(t *testing.T, w *world) {
			w.SetFaults(mem.Faults{Deliver: func(_ uint64, role events.Service, subject string) mem.Delivery {
				if role == events.Toolrunner && subject == events.RunEventSubject("exam", "a", events.CallAllowed) {
					return mem.Delivery{Late: time.Second}
				}
				return none
			}})
			w.say(t, "a")
			w.say(t, "b")
			_ = w.receive(t, "b 1").Ack(t.Context())
			w.hand.Advance(time.Second)
			_ = w.receive(t, "a 1").Ack(t.Context())
			w.pending(t, 0)
		}},
		{"SAFE-4 a delivery that no one heard counts and comes again after the ack wait", func(t *testing.T, w *world) {
			lost := mem.Delivery{Lost: true}
			w.SetFaults(deliver(lost, lost))
			w.say(t, "a")
			w.pending(t, 1)
			w.hand.Advance(mem.DefaultAckWait)
			_ = w.receive(t, "a 2").Ack(t.Context())
		}},
		{"SAFE-4 a message comes again although somebody handles it", func(t *testing.T, w *world) {
			again := mem.Delivery{Again: time.Second}
			w.SetFaults(deliver(again, again))
			w.say(t, "a")
			w.receive(t, "a 1")
			w.hand.Advance(time.Second)
			_ = w.receive(t, "a 2").Ack(t.Context())
		}},
		{"SAFE-4 a lost ack leads to another delivery", func(t *testing.T, w *world) {
			w.SetFaults(mem.Faults{Ack: func(n uint64, _ events.Service, _ string) bool { return n == 1 }})
			w.say(t, "a")
			if err := w.receive(t, "a 1").Ack(t.Context()); err != nil {
				t.Errorf("ack: got %v, want no error: no one notices", err)
			}
			w.pending(t, 1)
			w.hand.Advance(mem.DefaultAckWait)
			_ = w.receive(t, "a 2").Ack(t.Context())
			w.pending(t, 0)
		}},
		{"SAFE-4 an ack with an ended context is not sent", func(t *testing.T, w *world) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			w.say(t, "a")
			if err := w.receive(t, "a 1").Ack(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("ack: got %v, want %v", err, context.Canceled)
			}
			w.pending(t, 1)
		}},
		{"SAFE-4 a nak of an old delivery gives the message to another at once", func(t *testing.T, w *world) {
			w.say(t, "a")
			first := w.receive(t, "a 1")
			w.hand.Advance(mem.DefaultAckWait)
			second := w.receive(t, "a 2")
			_ = first.Nak(0)
			w.receive(t, "a 3")
			_ = second.Ack(t.Context())
			w.pending(t, 0)
		}},
		{"SAFE-4 a sign of life of an old delivery counts, and too late is no error", func(t *testing.T, w *world) {
			w.say(t, "a")
			first := w.receive(t, "a 1")
			w.hand.Advance(mem.DefaultAckWait)
			w.receive(t, "a 2")
			w.hand.Advance(mem.DefaultAckWait - time.Second)
			if err := first.Working(); err != nil {
				t.Error(err)
			}
			w.hand.Advance(mem.DefaultAckWait - time.Second)
			_ = first.Ack(t.Context())
			if err := first.Working(); err != nil {
				t.Error(err)
			}
			w.pending(t, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := byHand(t, mem.Config{})
			w.listen(t, events.Toolrunner)
			c.play(t, w)
			if len(w.in) > 0 {
				t.Errorf("heard %s too", (<-w.in).Subject())
			}
		})
	}
}

func TestClockFaults(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 timers fire early, late and twice", func(t *testing.T) {
		t.Parallel()
		w := byHand(t, mem.Config{})
		w.SetFaults(mem.Faults{Fire: func(n uint64, _, _ string) []time.Duration {
			return [][]time.Duration{{-time.Second}, {time.Second}, {0, 5 * time.Second}}[n-1]
		}})
		for _, run := range []string{"early", "late", "twice"} {
			if err := w.Timers().Set(t.Context(), run, "call.x", w.hand.Now().Add(10*time.Second), 0); err != nil {
				t.Fatal(err)
			}
		}
		w.listen(t, events.Toolrunner)
		for _, c := range []struct {
			after time.Duration
			run   string
		}{{9 * time.Second, "early"}, {time.Second, "twice"}, {time.Second, "late"}, {4 * time.Second, "twice"}} {
			w.hand.Advance(c.after)
			m := w.receive(t, " 1")
			if m.Subject() != events.DueSubject("exam", c.run, "call.x") {
				t.Errorf("heard %s, want %s", m.Subject(), c.run)
			}
			_ = m.Ack(t.Context())
		}
		if set := w.TimersSet(); len(set) != 0 {
			t.Errorf("still set: %q", set)
		}
	})
	t.Run("SAFE-4 DEPL-2 a lease outlives its term", func(t *testing.T) {
		t.Parallel()
		w := byHand(t, mem.Config{LeaseTerm: time.Second})
		w.SetFaults(mem.Faults{Expire: func(uint64, string) time.Duration { return time.Second }})
		if err := w.Leases().Renew(t.Context(), "i"); err != nil {
			t.Fatal(err)
		}
		w.hand.Advance(1900 * time.Millisecond)
		if alive, _ := w.Leases().Alive(t.Context(), "i"); !alive {
			t.Error("it ended before the server noticed")
		}
		w.hand.Advance(100 * time.Millisecond)
		if alive, _ := w.Leases().Alive(t.Context(), "i"); alive {
			t.Error("it never ended")
		}
	})
	t.Run("SAFE-13 handlers may go on for the grace of a drain, and their acks count", func(t *testing.T) {
		t.Parallel()
		w := byHand(t, mem.Config{DrainGrace: time.Minute})
		w.say(t, "a")
		ctx, stop := context.WithCancel(t.Context())
		var acked error
		err := w.Inbox().Listen(ctx, events.Toolrunner, 1, func(ctx context.Context, m kernel.Message) {
			stop()
			acked = m.Ack(ctx)
			for at, ok := w.hand.Next(); !ok || at.Sub(w.hand.Now()) < time.Minute; at, ok = w.hand.Next() {
				// the drain has not begun yet
			}
			w.hand.Advance(time.Minute)
			<-ctx.Done()
		})
		if err != nil || acked != nil {
			t.Errorf("listen: %v, ack: %v", err, acked)
		}
		w.pending(t, 0)
	})
}

func TestStoreFaults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	writes := map[mem.Store]func(s *mem.Station) error{
		mem.TimerStore: func(s *mem.Station) error { return s.Timers().Set(ctx, "r", "run.x", time.Now().Add(time.Hour), 0) },
		mem.BlobStore:  func(s *mem.Station) error { _, err := s.Blobs().Put(ctx, "", []byte("x")); return err },
		mem.KVStore:    func(s *mem.Station) error { return s.KV("b").Put(ctx, "k", []byte("x")) },
		mem.LeaseStore: func(s *mem.Station) error { return s.Leases().Renew(ctx, "i") },
		mem.InputStore: func(s *mem.Station) error { return s.Publish(ctx, events.TaskSubject("exam"), nil, nil) },
		mem.RefusalStore: func(s *mem.Station) error {
			return s.Refusals().Refuse(ctx, events.Planner, kernel.DeadLetter{Subject: "x"})
		},
	}
	made := map[mem.Store]func(s *mem.Station) bool{
		mem.TimerStore: func(s *mem.Station) bool { return len(s.TimersSet()) == 1 },
		mem.BlobStore: func(s *mem.Station) bool {
			_, err := s.Blobs().Get(ctx, events.Ref{SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", Size: 1})
			return err == nil
		},
		mem.KVStore:      func(s *mem.Station) bool { _, err := s.KV("b").Get(ctx, "k"); return err == nil },
		mem.LeaseStore:   func(s *mem.Station) bool { alive, _ := s.Leases().Alive(ctx, "i"); return alive },
		mem.InputStore:   func(s *mem.Station) bool { return s.Pending(events.Planner) == 1 },
		mem.RefusalStore: func(s *mem.Station) bool { return len(s.Dead()) == 1 },
	}
	for store, write := range writes {
		for fault, want := range map[mem.Fault]struct{ fails, made, lands bool }{
			mem.None: {made: true}, mem.LostAck: {fails: true, made: true}, mem.LostRequest: {fails: true},
			mem.LateRequest: {fails: true, lands: true}, mem.Busy: {fails: true}, mem.LowConflict: {fails: true}, mem.NoSpace: {fails: true}, mem.NoRight: {fails: true},
		} {
			t.Run(fmt.Sprintf("SAFE-4 %s fault %d", store, fault), func(t *testing.T) {
				t.Parallel()
				s := open(t, mem.Config{})
				s.SetFaults(mem.Faults{Put: func(_ uint64, in mem.Store, _ string) mem.Fault {
					if in != store {
						t.Errorf("asked about %s", in)
					}
					return fault
				}})
				if err := write(s); (err != nil) != want.fails || fault == mem.NoSpace && !errors.Is(err, kernel.ErrFull) {
					t.Errorf("got %v, want an error: %v", err, want.fails)
				}
				if got := made[store](s); got != want.made {
					t.Errorf("made: got %v, want %v", got, want.made)
				}
				s.Land()
				if got := made[store](s); got != (want.made || want.lands) {
					t.Errorf("made after all has landed: got %v", got)
				}
			})
		}
	}
}

func TestOldValues(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 a bucket shows old values, and keys that are deleted or not there yet", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		kv, ctx := s.KV("b"), t.Context()
		for i := range 12 {
			if err := kv.Put(ctx, "k", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := kv.Delete(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		behind := 0
		away := error(nil)
		s.SetFaults(mem.Faults{Get: func(uint64, mem.Store, string) (int, error) { return behind, away }})
		var got []string
		for behind = range 10 {
			v, _ := kv.Get(ctx, "k")
			keys, _ := kv.Keys(ctx, "")
			got = append(got, fmt.Sprintf("%s%d", v, len(keys)))
		}
		if want := []string{"0", "111", "101", "91", "81", "71", "61", "51", "0", "0"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if behind = 1; !errors.Is(kv.Create(ctx, "k", nil), kernel.ErrExists) {
			t.Error("a key whose deletion was not seen could be made again")
		}
		behind, away = 0, errors.New("no leader")
		if err := kv.Create(ctx, "k", nil); !errors.Is(err, away) {
			t.Errorf("create where no one knows whether it is deleted: got %v", err)
		}
		if _, err := kv.Get(ctx, "k"); !errors.Is(err, away) {
			t.Errorf("get: got %v", err)
		}
		if _, err := kv.Keys(ctx, ""); !errors.Is(err, away) {
			t.Errorf("keys: got %v", err)
		}
		if _, err := s.Leases().Alive(ctx, "i"); !errors.Is(err, away) {
			t.Errorf("alive: got %v", err)
		}
		if away = nil; kv.Create(ctx, "k", nil) != nil {
			t.Error("a deleted key could not be made again")
		}
	})
}
