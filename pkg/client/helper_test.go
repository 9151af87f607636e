package client_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// world is a station without services: the test says what they would say.
type world struct {
	t       testing.TB
	conn    *jet.Conn
	st      *jet.Station
	c       *client.Client
	ledgers map[events.Service]*runlog.Ledger
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, jettest.Connect(t, jettest.Server(t), jet.Config{}))
}

func newWorldOn(t testing.TB, conn *jet.Conn) *world {
	t.Helper()
	w := &world{t: t, conn: conn, st: jettest.Station(t, conn, "test", jet.ApplyOptions{Replicas: 1}), ledgers: map[events.Service]*runlog.Ledger{}}
	pages := runlog.NewPages(0) // shared, so that each ledger knows what the others said
	for _, by := range events.Services() {
		l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: by, Journal: w.st.Journal(), Pages: pages, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		w.ledgers[by] = l
	}
	var err error
	if w.c, err = operator.On(conn, "test"); err != nil {
		t.Fatal(err)
	}
	return w
}

// on is the same world seen from a subtest: its failures are the subtest's.
func (w *world) on(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// steer appends events, each by its author, and returns the state after them.
func (w *world) say(runID string, payloads ...events.Payload) run.State {
	w.t.Helper()
	var s run.State
	for _, p := range payloads {
		word, _ := events.Lookup(p.Kind())
		written, err := w.ledgers[word.Author].Write(within(w.t), runID, func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{p}, nil
		})
		if err != nil {
			w.t.Fatalf("say %s: %v", p.Kind(), err)
		}
		s = written.State
	}
	return s
}

// begin opens a run whose step "build" is allowed.
func (w *world) begin(runID string) {
	w.say(runID, runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"))
}

// rounds says turns with one refused call each: two events a round.
func (w *world) rounds(runID string, from, n int) {
	for turn := from; turn < from+n; turn++ {
		call := runtest.Asked(turn, 1, "bash", `{"command":"x"}`)
		w.say(runID, runtest.Turn(turn, "build", "again", call), runtest.CallNo(runtest.Ref("build", call.ID, "bash")))
	}
}

// index puts a run's row where the persister would.
func (w *world) index(s run.State) {
	w.t.Helper()
	b, err := marshal(run.InfoOf(s))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.st.KV(topology.StateBucket).Put(within(w.t), "run."+s.HarnessID, b); err != nil {
		w.t.Fatal(err)
	}
}

// serve hears the inputs of a role until the test is over.
func (w *world) serve(role events.Service, receive func(ctx context.Context, m kernel.Message)) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.st.Inbox().Listen(ctx, role, 1, receive); err != nil {
			w.t.Errorf("listen as %s: %v", role, err)
		}
	})
	w.t.Cleanup(func() { cancel(); done.Wait() })
}

// forge publishes on a run's stream what the server never stored. No one acknowledges that, so it ends by its time.
func (w *world) forge(runID string, data []byte) {
	ctx, cancel := context.WithTimeout(within(w.t), 100*time.Millisecond)
	defer cancel()
	header := map[string]string{"Nats-Sequence": "999999", "Nats-Subject": events.RunEventSubject("test", runID, events.RunPaused)}
	if err := w.st.Publish(ctx, events.StreamSubject("test", runID), data, header); err == nil {
		w.t.Error("somebody stored what was forged")
	}
}
