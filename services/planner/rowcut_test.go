package planner

import (
	"context"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// cutAt has one planner handle what waits, oldest first, until it dies at an operation. It reports whether it did; the
// message that it died with waits.
func (w *theater) cutAt(op int, late bool, look func() []string, handle func(context.Context, delivered) error) bool {
	w.t.Helper()
	before := w.deaths
	for w.left, w.late = op, late; len(look()) >= 0 && len(w.waiting) > 0; w.waiting = w.waiting[1:] {
		w.waiting[0].times++
		ctx, cancel := context.WithCancel(w.t.Context())
		w.kill = cancel
		err := handle(ctx, w.waiting[0])
		cancel()
		if w.deaths > before {
			break
		}
		if err != nil {
			w.t.Fatalf("%s: %v", w.waiting[0].what, err)
		}
	}
	w.left = -1
	return w.deaths > before
}

// TestRowCut ends runs of items and of schedules. settle holds that the rows are right once all messages are
// acknowledged, without the help of a timer.
func TestRowCut(t *testing.T) {
	t.Parallel()
	each := func(t *testing.T, play func(op int, late bool) (died bool)) {
		t.Helper()
		deaths := 0
		for _, late := range []bool{false, true} {
			for op := 0; play(op, late); op++ {
				deaths++
			}
		}
		if deaths < 4 {
			t.Errorf("only %d deaths", deaths)
		}
	}
	t.Run("WORK-3 PERS-21 SAFE-3 a planner that dies at any operation of the end of an item's run leaves no row behind its log", func(t *testing.T) {
		t.Parallel()
		each(t, func(op int, late bool) bool {
			o := newOffice(t, uint64(op))
			o.items = []string{"w"}
			o.control("w", events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "x"}})
			o.control("w", events.WorkControl{Action: work.Assign, Start: true, Dispatch: &events.WorkDispatch{Agent: "a"}})
			o.settle()
			o.stop(o.look()[0])
			died := o.cutAt(op, late, o.look, func(ctx context.Context, d delivered) error { return o.handle(ctx, o.planners[0], d) })
			o.planners[0] = o.planner()
			o.settle()
			return died
		})
	})
	t.Run("TRIG-5 PERS-21 SAFE-3 a planner that dies at any operation of the end of a schedule's run leaves no row behind its log", func(t *testing.T) {
		t.Parallel()
		each(t, func(op int, late bool) bool {
			w, told := newTheater(t, uint64(op)), map[string]bool{}
			look := func() []string { return w.living(told) }
			w.control(schedule.Set, &events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "a", Task: "look"}})
			w.settle(look)
			w.now = w.now.Add(time.Hour)
			w.waiting = append(w.waiting, delivered{what: "due"})
			w.settle(look)
			w.stop(look()[0])
			died := w.cutAt(op, late, look, func(ctx context.Context, d delivered) error { return w.handle(ctx, w.roles[0], d) })
			w.roles[0] = w.planner()
			w.settle(look)
			return died
		})
	})
	t.Run("MSG-4 PERS-21 SAFE-3 a planner that dies at any operation of an agent's turn leaves no row behind its log", func(t *testing.T) {
		t.Parallel()
		each(t, func(op int, late bool) bool {
			x := newExchange(t, uint64(op))
			x.addresses = []string{"a/b/c"}
			x.control("a/b/c", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
			x.settle()
			x.sent["m"] = true
			x.control("a/b/c", events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: "m", Body: "x"}})
			x.settle()
			id := x.look()[0]
			x.works(id, false)
			x.settle()
			w, err := x.ledger(events.Executor).Write(t.Context(), id, func(s run.State, _ time.Time) ([]events.Payload, error) {
				task := turn.Next(s, "step-1", x.now).Ask
				if task == nil {
					return nil, nil
				}
				return turn.Finish(s, *task, turn.Answer{Data: events.TurnFinishedData{FinishReason: "tool_calls", Model: "m", Provider: "p",
					Calls: []events.RequestedCall{runtest.Asked(1, 1, "bash", `{"command":"make"}`)}}}), nil
			})
			if err != nil || len(w.State.Open) != 1 {
				t.Fatal(err, w.State.Open)
			}
			x.waiting = append(x.waiting, delivered{what: string(events.TurnFinished), run: id})
			died := x.cutAt(op, late, x.look, func(ctx context.Context, d delivered) error { return x.handle(ctx, x.planners[0], d) })
			x.planners[0] = x.planner()
			x.settle()
			return died
		})
	})
	t.Run("MSG-15 CONT-12 PERS-21 SAFE-3 a planner that dies at any operation after the end of an agent's run leaves an agent that is woken for the mail that came", func(t *testing.T) {
		t.Parallel()
		each(t, func(op int, late bool) bool {
			x := newExchange(t, uint64(op))
			x.addresses = []string{"a/b/c"}
			x.control("a/b/c", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
			x.settle()
			send := func(m string) {
				x.sent[m] = true
				x.control("a/b/c", events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: m, Body: "x"}})
			}
			send("m1")
			x.settle()
			first := x.look()[0]
			x.works(first, false)
			x.settle()
			x.works(first, true)
			send("m2")
			x.deliver(len(x.waiting)-1, false) // before the end of the run, which alone wakes the agent then
			died := x.cutAt(op, late, x.look, func(ctx context.Context, d delivered) error { return x.handle(ctx, x.planners[0], d) })
			x.planners[0] = x.planner()
			x.settle()
			if living := x.look(); len(living) != 1 || living[0] == first {
				t.Errorf("operation %d, late %v: %v lives, %+v", op, late, living, x.box("a/b/c").Mailbox)
			}
			return died
		})
	})
}
