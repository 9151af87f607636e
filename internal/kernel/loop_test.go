package kernel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// judging is a planner whose judgement of an input is a function.
type judging func(m kernel.Message) error

func (judging) Service() events.Service                                      { return events.Planner }
func (judging) Event(context.Context, runlog.ReceivedEvent) error            { return nil }
func (judging) Due(context.Context, string, string, string, run.State) error { return nil }
func (j judging) Input(_ context.Context, m kernel.Message) error            { return j(m) }

// hearOne publishes a task, lets the loop hear it once and returns the dead letters and the loop's log.
func receiveOne(t *testing.T, data []byte, header map[string]string, judge judging) ([]mem.Refused, string) {
	t.Helper()
	s := newStation(t)
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(newLedger(t, s, events.Planner), judge)}, Inbox: s.Inbox(), Refusals: s.Refusals(),
		Log: zerolog.New(&log), Workers: 1, Observe: func(string, string, time.Duration) { stop() }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(ctx, events.TaskSubject(station), data, header); err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.Pending(events.Planner); n != 0 {
		t.Errorf("%d messages are still to be heard: it would come again for ever", n)
	}
	return s.Dead(), log.String()
}

// onlyInputs hears no events.
type onlyInputs struct{ kernel.Inbox }

// Listen implements kernel.Inbox.
func (o onlyInputs) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context, kernel.Message)) error {
	return o.Inbox.Listen(ctx, role, workers, func(ctx context.Context, m kernel.Message) {
		if sub, ok := events.ParseRunSubject(m.Subject()); !ok || sub.Rest[0] != "evt" {
			receive(ctx, m)
		}
	})
}

func TestLoopInputs(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 an input that hits a fault of ours is put aside, and the fault is told", func(t *testing.T) {
		t.Parallel()
		dead, log := receiveOne(t, []byte("{}"), nil, func(kernel.Message) error { panic("an invariant is broken") })
		if len(dead) != 1 || dead[0].Letter.Code != "internal_error" {
			t.Errorf("got %+v, want one dead letter with the code internal_error", dead)
		}
		if !strings.Contains(log, `"level":"error"`) || !strings.Contains(log, "loop_test.go") {
			t.Errorf("the log does not say where: %s", log)
		}
	})
	t.Run("LIFE-15 GATE-8 an input about a run is judged on what the leader has, not on the state that is kept here", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		l := newLedger(t, s, events.Planner)
		mustState(t, l, "r")
		if _, err := newLedger(t, s, events.Toolrunner).Write(t.Context(), "r", begin("c1-1")); err != nil {
			t.Fatal(err)
		}
		want := folded(t, s, "r").Sequence
		s.SetFaults(mem.Faults{Read: func(n uint64, _ string) (int, error) { return max(0, 3-int(n)), nil }})
		ctx, stop := context.WithCancel(t.Context())
		judge := judging(func(kernel.Message) error {
			if got := mustState(t, l, "r").Sequence; got != want {
				t.Errorf("judged at event %d, the log has %d", got, want)
			}
			return nil
		})
		loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(l, judge)}, Inbox: onlyInputs{s.Inbox()},
			Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1, Observe: func(string, string, time.Duration) { stop() }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(ctx, events.ControlSubject(station, "r"), []byte("{}"), nil); err != nil {
			t.Fatal(err)
		}
		if err := loop.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("SAFE-15 SAFE-12 an input that no event has room for is refused", func(t *testing.T) {
		t.Parallel()
		dead, _ := receiveOne(t, []byte("{}"), nil, func(kernel.Message) error { return fmt.Errorf("append: %w", kernel.ErrTooLarge) })
		if len(dead) != 1 || dead[0].Letter.Code != "too_large" || dead[0].Letter.Hint == "" {
			t.Errorf("got %+v, want one dead letter with the code too_large and a hint", dead)
		}
	})
	t.Run("SAFE-12 SAFE-15 a dead letter fits its list whatever was sent", func(t *testing.T) {
		t.Parallel()
		for _, unit := range []string{"x", "<", "\x01", "\xff", "é", "\u202e", "\xff<"} {
			data := []byte(strings.Repeat(unit, 200<<10/len(unit)))
			dead, _ := receiveOne(t, data, map[string]string{"Inspan-Token": strings.Repeat(unit, 4<<10)}, func(m kernel.Message) error {
				return &kernel.Refusal{Code: "bad_input", Reason: string(m.Data()), Hint: string(m.Data())}
			})
			if len(dead) != 1 {
				t.Fatalf("%q: got %d dead letters, want 1", unit, len(dead))
			}
			l := dead[0].Letter
			b, err := json.Marshal(l)
			if err != nil || len(b) > events.MaxDeadLetter || l.DataBytes != len(data) || l.Data == "" || l.Reason == "" || l.Hint == "" || l.Token == "" {
				t.Errorf("%q: got %d bytes (%v), %d of the data, want at most %d and something of all", unit, len(b), err, len(l.Data), events.MaxDeadLetter)
			}
			if !utf8.ValidString(l.Data + l.Reason + l.Hint + l.Token) {
				t.Errorf("%q: not UTF-8", unit)
			}
		}
	})
}
