package kernel_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// delivered is a message of a list.
type delivered struct {
	subject string
	data    []byte
	seq     uint64
	acks    *int
	after   string
}

func (d delivered) Subject() string { return d.subject }
func (d delivered) Data() []byte    { return d.data }
func (d delivered) Header(name string) string {
	return map[string]string{kernel.AfterHeader: d.after}[name]
}
func (d delivered) Seq() uint64               { return d.seq }
func (d delivered) Time() time.Time           { return time.Unix(1, 0) }
func (d delivered) Deliveries() uint64        { return 1 }
func (d delivered) Ack(context.Context) error { *d.acks++; return nil }
func (d delivered) Nak(time.Duration) error   { return errors.New("handed back") }
func (d delivered) Working() error            { return nil }

// list is an inbox with messages in an order.
type list []kernel.Message

// Listen implements kernel.Inbox.
func (l list) Listen(ctx context.Context, _ events.Service, _ int, receive func(context.Context, kernel.Message)) error {
	for _, m := range l {
		receive(ctx, m)
	}
	return nil
}

// watching is a planner of counters that notes what it receives.
type watching struct{ notes *[]string }

func (watching) Service() events.Service { return events.Planner }

func (w watching) Event(_ context.Context, r kernel.Received[kerneltest.Counter]) error {
	*w.notes = append(*w.notes, "counter event "+r.ID+" "+string(r.Kind))
	if r.State.Sum != 7 {
		return errors.New("not the state of the counter")
	}
	return nil
}

func (w watching) Due(_ context.Context, d kernel.Due[kerneltest.Counter]) error {
	*w.notes = append(*w.notes, "counter due "+d.ID+" "+d.Family+" "+d.Name)
	return nil
}

func (w watching) Input(_ context.Context, m kernel.Message) error {
	*w.notes = append(*w.notes, "counter input "+m.Subject())
	return nil
}

// planning is a planner of runs that notes what it receives.
type planning struct{ notes *[]string }

func (planning) Service() events.Service { return events.Planner }

func (p planning) Event(_ context.Context, h runlog.ReceivedEvent) error {
	*p.notes = append(*p.notes, "run event "+h.Run+" "+string(h.Kind))
	return nil
}

func (p planning) Due(_ context.Context, id, family, name string, _ run.State) error {
	*p.notes = append(*p.notes, "run due "+id+" "+family+" "+name)
	return nil
}

func (p planning) Input(_ context.Context, m kernel.Message) error {
	*p.notes = append(*p.notes, "run input "+m.Subject())
	return nil
}

func counters(t *testing.T, s *mem.Station) *kernel.Ledger[kerneltest.Counter] {
	t.Helper()
	l, err := kernel.NewLedger(kernel.LedgerConfig[kerneltest.Counter]{Aggregate: kerneltest.Counters(), Station: station, By: events.Planner,
		Journal: s.JournalFor(kerneltest.CounterAggregate), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLoopOfTwoAggregates(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-2 each message goes to the handler of its aggregate, also where the ids are the same", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("x", 1))
		c := counters(t, s)
		if _, err := c.Write(t.Context(), "x", func(kerneltest.Counter, time.Time) ([]events.Payload, error) {
			return []events.Payload{&kerneltest.Added{By: 7}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		ev, added := s.Log("x")[0], s.Log(kernel.Key(kerneltest.CounterAggregate, "x"))[0]
		var notes []string
		acks := 0
		message := func(subject string, r kernel.Record) kernel.Message {
			return delivered{subject: subject, data: r.Bytes, seq: r.Seq, acks: &acks}
		}
		inbox := list{
			message(events.RunEventSubject(station, "x", events.RunCreated), ev),
			message(events.EventSubject(station, kerneltest.CounterAggregate, "x", kerneltest.CountAdded), added),
			message(events.DueSubject(station, "x", "run.deadline"), kernel.Record{}),
			message(events.DueSubject(station, "x", kerneltest.CounterAggregate+"-lease.l"), kernel.Record{}),
			message("station."+station+".agent.x.control", kernel.Record{}),
			message(events.ControlSubject(station, "x"), kernel.Record{}),
			message(events.TaskSubject(station), kernel.Record{}),
			message(events.SessionSubject(station, "x"), kernel.Record{}),
			message(events.EventSubject(station, "session", "x", "session.locked"), added),
			message(events.DueSubject(station, "x", "session-lease.l"), kernel.Record{}),
		}
		loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(newLedger(t, s, events.Planner), planning{&notes}),
			kernel.Handle(c, kernel.Role[kerneltest.Counter](watching{&notes}))}, Inbox: inbox, Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := loop.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"run event x run.created", "counter event x count.added", "run due x run deadline", "counter due x lease l",
			"counter input station." + station + ".agent.x.control", "run input station." + station + ".run.x.control",
			"run input station." + station + ".task", "run input station." + station + ".session.x.control"}
		if got := strings.Join(notes, "\n"); got != strings.Join(want, "\n") || acks != len(inbox) {
			t.Errorf("%d acknowledged, received\n%s\nwant\n%s", acks, got, strings.Join(want, "\n"))
		}
		for i, d := range s.Dead() {
			if d.Letter.Code != "no_handler" {
				t.Errorf("dead letter %d: %+v", i, d.Letter)
			}
		}
		if len(s.Dead()) != 2 {
			t.Errorf("%d dead letters, want those of the session, which has no handler", len(s.Dead()))
		}
	})
	t.Run("DEPL-2 a loop has one handler of an aggregate, and all of them are of one service", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		one := runlog.Handle(newLedger(t, s, events.Planner), planning{})
		for name, handlers := range map[string][]kernel.Handler{"none": nil, "twice": {one, one},
			"of two services": {one, runlog.Handle(newLedger(t, s, events.Executor), counted{})}} {
			if _, err := kernel.NewLoop(kernel.LoopConfig{Handlers: handlers, Inbox: s.Inbox(), Refusals: s.Refusals(), Workers: 1}); err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
	})
}

func TestDueFollows(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 DEPL-2 a timer is handled with the state that it was set on, or comes again: a leader that was deposed has an older one", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		if _, err := counters(t, s).Write(t.Context(), "x", func(kerneltest.Counter, time.Time) ([]events.Payload, error) {
			return []events.Payload{&kerneltest.Added{By: 7}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		due := func(after string, behind mem.Faults) (acks int, notes []string) {
			t.Helper()
			s.SetFaults(behind)
			m := delivered{subject: events.DueSubject(station, "x", kerneltest.CounterAggregate+"-lease.l"), acks: &acks, after: after}
			loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{kernel.Handle(counters(t, s), kernel.Role[kerneltest.Counter](watching{&notes}))},
				Inbox: list{m}, Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1})
			if err == nil {
				err = loop.Run(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return acks, notes
		}
		all := func(uint64, string) (int, error) { return 9, nil }
		for name, c := range map[string]struct {
			after  string
			faults mem.Faults
			acks   int
		}{
			"everything is behind":                  {"1", mem.Faults{Last: all, Read: all}, 0},
			"the leader alone is behind":            {"1", mem.Faults{Last: all}, 1},
			"nothing is behind":                     {"1", mem.Faults{}, 1},
			"a timer of an earlier version":         {"", mem.Faults{Last: all, Read: all}, 1},
			"a timer of an event that is not there": {"2", mem.Faults{}, 0},
		} {
			if acks, notes := due(c.after, c.faults); acks != c.acks || len(notes) != acks {
				t.Errorf("%s: %d acknowledged, %q", name, acks, notes)
			}
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 a key is the id of a run, and names every other aggregate", func(t *testing.T) {
		t.Parallel()
		for key, want := range map[string][2]string{"r-1": {"run", "r-1"}, "session.r-1": {"session", "r-1"}} {
			if aggregate, id := kernel.ParseKey(key); aggregate != want[0] || id != want[1] || kernel.Key(aggregate, id) != key {
				t.Errorf("%s: got %s of %s", key, id, aggregate)
			}
		}
	})
	t.Run("DEPL-2 a timer is named as before for a run, and names every other aggregate", func(t *testing.T) {
		t.Parallel()
		for _, c := range [][4]string{{"run", "call.c1-1", "call", "call.c1-1"}, {"session", "lease.x", "session-lease", "session-lease.x"}} {
			if family, full, err := kernel.TimerName(c[0], c[1]); err != nil || family != c[2] || full != c[3] {
				t.Errorf("%s of %s: got %s, %s, %v", c[1], c[0], family, full, err)
			}
		}
		for _, name := range []string{"", "call", "call.", ".x", "session-lease.x", "a.b.c", "*.x"} {
			if _, _, err := kernel.TimerName("run", name); err == nil {
				t.Errorf("%q is taken", name)
			}
		}
	})
}

func TestPagesOfAnother(t *testing.T) {
	t.Parallel()
	_, err := kernel.NewLedger(kernel.LedgerConfig[kerneltest.Counter]{Aggregate: kerneltest.Counters(), Station: "s", By: events.Planner,
		Journal: newStation(t).JournalFor(kerneltest.CounterAggregate), Entropy: rand.Reader, Pages: runlog.NewPages(0)})
	if err == nil {
		t.Error("a ledger of counters takes the pages of runs")
	}
}
