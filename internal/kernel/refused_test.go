package kernel_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// unnumbered delivers each message as if it had never been delivered, as a server does that lost the counts.
type unnumbered struct{ kernel.Inbox }

func (u unnumbered) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context, kernel.Message)) error {
	return u.Inbox.Listen(ctx, role, workers, func(ctx context.Context, m kernel.Message) { receive(ctx, anew{m}) })
}

type anew struct{ kernel.Message }

func (anew) Deliveries() uint64 { return 1 }

// undoing is a planner that takes back what a refused message left, at the second try.
type undoing struct {
	judging
	undone *int
}

func (u undoing) Undo(context.Context, kernel.Message) error {
	if *u.undone++; *u.undone == 1 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestLoopRefusedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// inbox is that of the loop which takes the message the second time; died: that is another than the first one.
		inbox func(kernel.Inbox) kernel.Inbox
		died  bool
		// fails is how many looks for the letter fail.
		fails uint64
	}{
		"by the same instance":                         {},
		"by one that died":                             {died: true},
		"by one that died, and its delivery no longer": {died: true, inbox: func(i kernel.Inbox) kernel.Inbox { return unnumbered{i} }},
		"and the list cannot be read for a while":      {fails: 2},
	} {
		t.Run("SAFE-12 LIFE-15 a message that was refused, and its acknowledgement lost, is not judged again: refused "+name, func(t *testing.T) {
			t.Parallel()
			s, err := mem.New(station, mem.Config{AckWait: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			failed := uint64(0)
			s.SetFaults(mem.Faults{Ack: func(n uint64, _ events.Service, _ string) bool { return n == 1 },
				Get: func(_ uint64, in mem.Store, _ string) (int, error) {
					if in == mem.RefusalStore && failed < c.fails {
						failed++
						return 0, context.DeadlineExceeded
					}
					return 0, nil
				}})
			judged := 0
			undone := 0
			judge := undoing{judging(func(kernel.Message) error {
				if judged++; judged == 1 {
					return kernel.Refuse("gate_closed", "ask again", "it cannot be now")
				}
				return nil // by now it could
			}), &undone}
			if err := s.Publish(t.Context(), events.TaskSubject(station), []byte("{}"), nil); err != nil {
				t.Fatal(err)
			}
			run := func(inbox kernel.Inbox, until func(result string) bool) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(newLedger(t, s, events.Planner), judge)},
					Inbox: inbox, Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1, Observe: func(_, result string, _ time.Duration) {
						if until(result) {
							stop()
						}
					}})
				if err != nil {
					t.Fatal(err)
				}
				if err := loop.Run(ctx); err != nil {
					t.Fatal(err)
				}
			}
			inbox := s.Inbox()
			looks := 0
			run(inbox, func(string) bool { looks++; return c.died || s.Pending(events.Planner) == 0 })
			if c.died {
				if c.inbox != nil {
					inbox = c.inbox(inbox)
				}
				run(inbox, func(string) bool { return s.Pending(events.Planner) == 0 })
			}
			if dead := s.Dead(); judged != 1 || len(dead) != 1 || undone != 2 {
				t.Errorf("judged %d times, %d dead letters in %d looks, want one of each; undone %d times, want 2", judged, len(dead), looks, undone)
			}
		})
	}
}

func TestLoopLapsed(t *testing.T) {
	t.Run("SAFE-12 LIFE-15 what another instance may judge by now is neither refused nor taken, and left to that one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStation(t)
			ctx, stop := context.WithCancel(t.Context())
			var judged atomic.Int32
			var results []string
			judge := lingering(func(ctx context.Context) error {
				switch judged.Add(1) {
				case 1: // this process stands still, as far as the server can see
					<-ctx.Done()
					return kernel.Refuse("gate_closed", "ask again", "it cannot be now")
				case 2: // it only takes long
					<-time.After(3 * time.Minute)
					return ctx.Err()
				}
				return nil
			})
			loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(newLedger(t, s, events.Planner), judge)},
				Inbox: silent{s.Inbox(), &judged}, Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1,
				Observe: func(_, result string, _ time.Duration) {
					if results = append(results, result); result == "done" {
						stop()
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Publish(t.Context(), events.TaskSubject(station), []byte("{}"), nil); err != nil {
				t.Fatal(err)
			}
			if err := loop.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if dead := s.Dead(); !slices.Equal(results, []string{"lapsed", "done"}) || len(dead) != 0 {
				t.Errorf("got %q and %d dead letters", results, len(dead))
			}
		})
	})
}

// lingering is a planner whose judgement of an input depends on how long it may take.
type lingering func(ctx context.Context) error

func (lingering) Service() events.Service                                      { return events.Planner }
func (lingering) Event(context.Context, runlog.ReceivedEvent) error            { return nil }
func (lingering) Due(context.Context, string, string, string, run.State) error { return nil }
func (l lingering) Input(ctx context.Context, _ kernel.Message) error          { return l(ctx) }

// silent delivers messages whose signs of life are lost while the first of them is judged.
type silent struct {
	kernel.Inbox
	judged *atomic.Int32
}

func (s silent) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context, kernel.Message)) error {
	return s.Inbox.Listen(ctx, role, workers, func(ctx context.Context, m kernel.Message) { receive(ctx, mute{m, s.judged}) })
}

type mute struct {
	kernel.Message
	judged *atomic.Int32
}

func (m mute) Working() error {
	if m.judged.Load() == 1 {
		return context.DeadlineExceeded
	}
	return m.Message.Working()
}
