package mem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/events"
)

func open(t *testing.T, cfg mem.Config) *mem.Station {
	t.Helper()
	s, err := mem.New("exam", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func post(t *testing.T) kerneltest.Post {
	s := open(t, mem.Config{AckWait: 200 * time.Millisecond})
	return kerneltest.Post{Station: s.Name(), Journal: s.Journal(), Other: s.JournalFor(kerneltest.CounterAggregate),
		Inbox: s.Inbox(), Timers: s.Timers(), TimersFor: s.TimersFor, Publish: s.Publish, AckWait: 200 * time.Millisecond}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals { return open(t, mem.Config{}).JournalFor })
}

func TestInbox(t *testing.T) {
	t.Parallel()
	kerneltest.Inbox(t, post)
}

func TestTimers(t *testing.T) {
	t.Parallel()
	kerneltest.Timers(t, post)
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	kerneltest.Blobs(t, func(t *testing.T) (kernel.Blobs, func(*testing.T, events.Ref, []byte)) {
		s := open(t, mem.Config{})
		return s.Blobs(), func(_ *testing.T, ref events.Ref, data []byte) { s.DamageBlob(ref.SHA256, data) }
	})
}

func TestShelf(t *testing.T) {
	t.Parallel()
	kerneltest.KV(t, func(t *testing.T) kernel.KV { return open(t, mem.Config{}).KV("harness-state") })
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	kerneltest.Refusals(t, func(t *testing.T) kernel.Refusals { return open(t, mem.Config{}).Refusals() })
}

func TestLeases(t *testing.T) {
	t.Parallel()
	kerneltest.Leases(t, func(t *testing.T) (kernel.Leases, time.Duration) {
		return open(t, mem.Config{LeaseTerm: 200 * time.Millisecond}).Leases(), 200 * time.Millisecond
	})
}

func entry(run string, head uint64, body string) kernel.Entry {
	return kernel.Entry{ID: run, Kind: events.RunCreated, Head: head, Bytes: []byte(body)}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fault  mem.Fault
		want   kernel.Outcome
		stored int
	}{
		{"SAFE-4 none stores", mem.None, kernel.Stored, 1},
		{"SAFE-4 a lost answer is unknown and stored", mem.LostAck, kernel.Unknown, 1},
		{"SAFE-4 a lost request is unknown and not stored", mem.LostRequest, kernel.Unknown, 0},
		{"SAFE-4 a late request is unknown and stored later", mem.LateRequest, kernel.Unknown, 0},
		{"SAFE-4 busy is transient and not stored", mem.Busy, kernel.Transient, 0},
		{"SAFE-4 a conflict with a lower sequence is not stored", mem.LowConflict, kernel.Conflict, 0},
		{"SAFE-14 full is not stored", mem.NoSpace, kernel.Full, 0},
		{"SAFE-6 no right is not stored", mem.NoRight, kernel.Denied, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, mem.Config{})
			s.SetFaults(mem.Faults{Append: func(uint64, kernel.Entry) mem.Fault { return c.fault }})
			ack := s.Journal().Append(t.Context(), entry("r", 0, "a"))
			if ack.Outcome != c.want {
				t.Errorf("got %s (%v), want %s", ack.Outcome, ack.Err, c.want)
			}
			if got := len(s.Log("r")); got != c.stored {
				t.Errorf("got %d events in the log, want %d", got, c.stored)
			}
		})
	}
	t.Run("SAFE-4 a late request lands before the next append, where it fits", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		s.SetFaults(mem.Faults{Append: func(n uint64, _ kernel.Entry) mem.Fault {
			return map[uint64]mem.Fault{1: mem.LateRequest}[n]
		}})
		s.Journal().Append(t.Context(), entry("r", 0, "late"))
		if ack := s.Journal().Append(t.Context(), entry("r", 0, "quick")); ack.Outcome != kernel.Conflict || ack.Seq != 1 {
			t.Errorf("got %s at %d, want conflict at 1", ack.Outcome, ack.Seq)
		}
		s.SetFaults(mem.Faults{Append: func(uint64, kernel.Entry) mem.Fault { return mem.LateRequest }})
		s.Journal().Append(t.Context(), entry("r", 0, "too late"))
		s.Land()
		if log := s.Log("r"); len(log) != 1 || string(log[0].Bytes) != "late" {
			t.Errorf("got %d events, want the late one alone", len(log))
		}
	})
	t.Run("SAFE-4 stale reads and a deposed leader do not see the newest events", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		for i := range uint64(3) {
			s.Journal().Append(t.Context(), entry("r", i, "x"))
		}
		two := func(uint64, string) (int, error) { return 2, nil }
		s.SetFaults(mem.Faults{Read: two, Last: two})
		evs, _, err := s.Journal().Read(t.Context(), "r", 0)
		if err != nil || len(evs) != 1 {
			t.Errorf("read: got %d events, %v; want 1", len(evs), err)
		}
		if last, ok, err := s.Journal().Last(t.Context(), "r"); err != nil || !ok || last.Seq != 1 {
			t.Errorf("last: got %d, %v, %v; want 1", last.Seq, ok, err)
		}
		away := errors.New("no leader")
		s.SetFaults(mem.Faults{
			Read: func(uint64, string) (int, error) { return 0, away },
			Last: func(uint64, string) (int, error) { return 0, away },
		})
		if _, _, err := s.Journal().Read(t.Context(), "r", 0); !errors.Is(err, away) {
			t.Errorf("read: got %v, want %v", err, away)
		}
		if _, _, err := s.Journal().Last(t.Context(), "r"); !errors.Is(err, away) {
			t.Errorf("last: got %v, want %v", err, away)
		}
	})
}

func TestRights(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 a service may say its own kinds and no other", func(t *testing.T) {
		t.Parallel()
		for _, by := range events.Services() {
			for _, w := range events.Registry() {
				s := open(t, mem.Config{})
				ack := s.JournalOf(by).Append(t.Context(), kernel.Entry{ID: "r", Kind: w.Kind, Bytes: []byte("x")})
				want := kernel.Denied
				if w.Author == by {
					want = kernel.Stored
				}
				if ack.Outcome != want {
					t.Errorf("%s by %s: got %s, want %s", w.Kind, by, ack.Outcome, want)
				}
			}
		}
	})
	t.Run("SAFE-12 an id that is no token is denied", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		for _, id := range []string{"", "a.b", "*", ">", "a b"} {
			if ack := s.Journal().Append(t.Context(), entry(id, 0, "x")); ack.Outcome != kernel.Denied {
				t.Errorf("run %q: got %s, want denied", id, ack.Outcome)
			}
		}
		if _, err := mem.New("a.b", mem.Config{}); err == nil {
			t.Error("station a.b: got no error")
		}
	})
	t.Run("SAFE-14 a full log refuses and keeps what it has", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{MaxEvents: 2})
		for i, want := range []kernel.Outcome{kernel.Stored, kernel.Stored, kernel.Full} {
			if ack := s.Journal().Append(t.Context(), entry("r", uint64(i), "x")); ack.Outcome != want {
				t.Errorf("append %d: got %s, want %s", i+1, ack.Outcome, want)
			}
		}
		if got := len(s.Log("r")); got != 2 {
			t.Errorf("got %d events, want 2", got)
		}
	})
	t.Run("SAFE-5 no one hears a subject that is no input", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		for _, subject := range []string{"station.exam.run.r.evt.run.created", "station.other.task", "station.exam.task.a.b", "task", "station.exam.task.", "station.exam.due.r.run.x"} {
			if err := s.Publish(t.Context(), subject, nil, nil); err == nil {
				t.Errorf("publish on %q: got no error", subject)
			}
		}
	})
}

func TestHand(t *testing.T) {
	t.Parallel()
	t.Run("a clock in the hand calls in order and at the time", func(t *testing.T) {
		t.Parallel()
		start := time.Unix(1000, 0).UTC()
		h := mem.NewHand(start)
		var calls []string
		at := func(name string, d time.Duration) func() {
			return h.AfterFunc(d, func() { calls = append(calls, name+h.Now().Sub(start).String()) })
		}
		at("b", 2*time.Second)
		at("a", time.Second)
		at("c", 2*time.Second)
		stop := at("never", time.Second)
		h.AfterFunc(time.Second, func() { at("nested", time.Second) })
		stop()
		if next, ok := h.Next(); !ok || !next.Equal(start.Add(time.Second)) {
			t.Errorf("next: got %v %v", next, ok)
		}
		h.Advance(999 * time.Millisecond)
		if len(calls) != 0 {
			t.Errorf("got %v before anything was due", calls)
		}
		h.Advance(2 * time.Second)
		want := "a1s b2s c2s nested2s"
		got := ""
		for _, c := range calls {
			got += " " + c
		}
		if got != " "+want {
			t.Errorf("got%s, want %s", got, want)
		}
		if _, ok := h.Next(); ok {
			t.Error("something is still due")
		}
	})
	t.Run("DEPL-2 with it, ack waits, delays, timers and leases end when it says so", func(t *testing.T) {
		t.Parallel()
		h := mem.NewHand(time.Unix(1000, 0).UTC())
		s := open(t, mem.Config{Clock: h})
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan kernel.Message)
		ended := make(chan error)
		go func() {
			ended <- s.Inbox().Listen(ctx, events.Planner, 1, func(_ context.Context, m kernel.Message) { got <- m })
		}()
		if err := s.Leases().Renew(ctx, "i"); err != nil {
			t.Fatal(err)
		}
		if err := s.Timers().Set(ctx, "r", "run.timeout", h.Now().Add(10*time.Second), 0); err != nil {
			t.Fatal(err)
		}
		if set := s.TimersSet(); len(set) != 1 || set[0] != "r.run.timeout" {
			t.Errorf("timers: got %q", set)
		}
		if s.Pending(events.Planner) != 0 {
			t.Error("the timer fired by itself")
		}
		h.Advance(10 * time.Second)
		first := <-got
		h.Advance(mem.DefaultAckWait)
		second := <-got
		if first.Deliveries() != 1 || second.Deliveries() != 2 {
			t.Errorf("got deliveries %d and %d, want 1 and 2", first.Deliveries(), second.Deliveries())
		}
		if alive, _ := s.Leases().Alive(ctx, "i"); alive {
			t.Error("the lease outlived its term")
		}
		if err := second.Nak(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s.Pending(events.Planner) != 1 {
			t.Errorf("got %d pending, want 1", s.Pending(events.Planner))
		}
		h.Advance(time.Minute)
		if err := (<-got).Ack(ctx); err != nil {
			t.Fatal(err)
		}
		if s.Pending(events.Planner) != 0 {
			t.Errorf("got %d pending after the ack, want 0", s.Pending(events.Planner))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestOutlets(t *testing.T) {
	t.Parallel()
	t.Run("OBS-9 live messages are kept up to a limit", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		for i := range 1025 {
			s.Live().Publish("r", []byte{byte(i), byte(i >> 8)})
		}
		if got := s.LiveOf("r"); len(got) != 1024 || got[0][0] != 1 {
			t.Errorf("got %d messages, the first %v; want 1024 from the second on", len(got), got[0])
		}
	})
	t.Run("OBS-3 a watcher hears the events of its run", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		var got []string
		stop := s.Watch("r", func(f []byte) { got = append(got, string(f)) })
		s.Journal().Append(t.Context(), entry("r", 0, "one"))
		s.Journal().Append(t.Context(), entry("other", 0, "two"))
		stop()
		s.Journal().Append(t.Context(), entry("r", 1, "three"))
		if len(got) != 1 || got[0] != "one" {
			t.Errorf("got %q, want one", got)
		}
	})
	t.Run("SAFE-12 what was refused is listed", func(t *testing.T) {
		t.Parallel()
		s := open(t, mem.Config{})
		if err := s.Refusals().Refuse(t.Context(), events.Planner, kernel.DeadLetter{Code: "bad_input"}); err != nil {
			t.Fatal(err)
		}
		if dead := s.Dead(); len(dead) != 1 || dead[0].By != events.Planner || dead[0].Letter.Code != "bad_input" {
			t.Errorf("got %+v", dead)
		}
	})
}
