package jet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// three is a station with three replicas, as seen from each of them.
func three(t *testing.T, o jet.ApplyOptions) (*jettest.Group, []*jet.Station) {
	t.Helper()
	g := jettest.Cluster(t, 3)
	o.Replicas = 3
	var seen []*jet.Station
	for i := range 3 {
		c := jettest.Connect(t, g.Server(i), jet.Config{Name: t.Name()})
		seen = append(seen, jettest.Station(t, c, "s1", o))
	}
	return g, seen
}

// anyReplica asks each replica in turn.
type anyReplica struct {
	journals []kernel.Journal
	n        *atomic.Uint64
}

func (a anyReplica) next() kernel.Journal { return a.journals[a.n.Add(1)%uint64(len(a.journals))] }
func (a anyReplica) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	return a.next().Append(ctx, e)
}
func (a anyReplica) Read(ctx context.Context, run string, after uint64) ([]kernel.Record, bool, error) {
	return a.next().Read(ctx, run, after)
}
func (a anyReplica) Last(ctx context.Context, run string) (kernel.Record, bool, error) {
	return a.next().Last(ctx, run)
}

// anyOf returns journals that speak to any of some replicas.
func anyOf(seen []*jet.Station) kerneltest.Journals {
	return func(aggregate string) kernel.Journal {
		a := anyReplica{n: new(atomic.Uint64)}
		for _, s := range seen {
			a.journals = append(a.journals, s.JournalFor(aggregate))
		}
		return a
	}
}

func TestJournalExamOnThreeReplicas(t *testing.T) {
	t.Parallel()
	kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals {
		_, seen := three(t, jet.ApplyOptions{})
		return anyOf(seen)
	})
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	const ackWait = 1500 * time.Millisecond
	g, seen := three(t, jet.ApplyOptions{AckWait: ackWait})
	ctx := within(t)

	t.Run("SAFE-4 with one server down appends, deliveries and timers go on", func(t *testing.T) {
		received := make(chan string, 64)
		listening, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- seen[0].Inbox().Listen(listening, events.Toolrunner, 4, func(ctx context.Context, m kernel.Message) {
				if m.Ack(ctx) == nil {
					received <- m.Subject()
				}
			})
		}()
		head := appendOne(t, seen[0].Journal(), "r1", events.CallAllowed, 0)
		await(t, received, "the first delivery")
		g.Stop(2)
		head = appendOne(t, seen[0].Journal(), "r1", events.CallAllowed, head)
		await(t, received, "a delivery with one server down")
		if err := untilDone(ctx, func() error { return seen[1].Timers().Set(ctx, "r1", "call.x", time.Now(), 0) }); err != nil {
			t.Fatalf("set a timer: %v", err)
		}
		if got := await(t, received, "a timer with one server down"); got != events.DueSubject("s1", "r1", "call.x") {
			t.Errorf("got %q, want the timer", got)
		}
		g.Restart(2)
		appendOne(t, seen[1].Journal(), "r1", events.CallAllowed, head)
		await(t, received, "a delivery after the restart")
		stop()
		if err := await(t, ended, "the listener to end"); err != nil {
			t.Errorf("listen: %v", err)
		}
	})
}

func TestInputOnReplicas(t *testing.T) {
	t.Parallel()
	g, seen := three(t, jet.ApplyOptions{})
	got := make(chan string, 64) // more than is said
	listen(t, seen[0], events.Planner, 4, func(ctx context.Context, m kernel.Message) {
		if m.Ack(ctx) == nil {
			got <- string(m.Data())
		}
	})
	say := func(body string) {
		t.Helper()
		ctx := within(t)
		if err := untilDone(ctx, func() error { return seen[1].Publish(ctx, events.TaskSubject("s1"), []byte(body), nil) }); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("SAFE-4 SAFE-12 after its consumer moved to another server a role is given what outsiders say, also behind an empty message", func(t *testing.T) {
		say("before")
		for await(t, got, "a task") != "before" {
		}
		ctx := within(t)
		if err := untilDone(ctx, func() error { return g.StepDownConsumer(1, topology.In("s1"), string(events.Planner)) }); err != nil {
			t.Fatal(err)
		}
		say("")
		say("after")
		for await(t, got, "a task after the move") != "after" {
		}
	})
}

// appendOne appends until it is stored, asking the leader where the outcome is unknown, and returns the position.
func appendOne(t *testing.T, j kernel.Journal, run string, kind events.Kind, head uint64) uint64 {
	t.Helper()
	ctx := within(t)
	var seq uint64
	data := []byte(rand16())
	err := untilDone(ctx, func() error {
		ack := j.Append(ctx, kernel.Entry{ID: run, Kind: kind, Head: head, Bytes: data})
		if ack.Outcome == kernel.Stored {
			seq = ack.Seq
			return nil
		}
		if last, ok, err := j.Last(ctx, run); err == nil && ok && string(last.Bytes) == string(data) {
			seq = last.Seq
			return nil
		}
		return ack.Err
	})
	if err != nil {
		t.Fatalf("append to run %s: %v", run, err)
	}
	return seq
}
