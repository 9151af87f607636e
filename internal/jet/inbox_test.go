package jet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// listen has a role hear until the test or stop ends it.
func listen(t *testing.T, st *jet.Station, role events.Service, workers int, receive func(context.Context, kernel.Message)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- st.Inbox().Listen(ctx, role, workers, receive) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := await(t, ended, "Listen to return"); err != nil {
				t.Errorf("listen: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func TestListen(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-13 after the drain grace the handlers' context ends, not before", func(t *testing.T) {
		t.Parallel()
		const grace = 500 * time.Millisecond
		c := jettest.Connect(t, jettest.Server(t), jet.Config{DrainGrace: grace})
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{})
		appendOne(t, st.Journal(), "r1", events.CallAllowed, 0)
		begun, lasted := make(chan struct{}), make(chan time.Duration, 1)
		var told time.Time
		stop := listen(t, st, events.Toolrunner, 1, func(ctx context.Context, m kernel.Message) {
			close(begun)
			<-ctx.Done()
			lasted <- time.Since(told)
		})
		await(t, begun, "the handler")
		told = time.Now()
		stop()
		if d := await(t, lasted, "the handler to end"); d < grace*9/10 {
			t.Errorf("the context ended %s after the drain began, the grace is %s", d, grace)
		}
	})
	t.Run("DEPL-2 what a busy instance was given and cannot begin goes to another well within the ack wait", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t)
		st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
		release := make(chan struct{})
		held := make(chan struct{}, 16)
		stopBusy := listen(t, st, events.Planner, 2, func(ctx context.Context, m kernel.Message) {
			held <- struct{}{}
			<-release
			_ = m.Ack(ctx)
		})
		// Events, inputs and timers come at once, so the instance is given more than it has workers for.
		for i := range 4 {
			appendOne(t, st.Journal(), fmt.Sprintf("r%d", i), events.StepFinished, 0)
			if err := st.Publish(within(t), events.TaskSubject("s1"), []byte("{}"), nil); err != nil {
				t.Fatal(err)
			}
			if err := st.Timers().Set(within(t), fmt.Sprintf("r%d", i), "run.x", time.Now(), 0); err != nil {
				t.Fatal(err)
			}
		}
		await(t, held, "one handler")
		await(t, held, "two handlers")
		got := make(chan string, 16)
		begin := time.Now()
		other := jettest.Connect(t, s, jet.Config{})
		st2, _ := other.Station("s1")
		listen(t, st2, events.Planner, 2, func(ctx context.Context, m kernel.Message) {
			if m.Ack(ctx) == nil {
				got <- m.Subject()
			}
		})
		for range 10 {
			await(t, got, "what the busy instance has left")
		}
		if took := time.Since(begin); took > topology.AckWait/3 {
			t.Errorf("it took %s", took)
		}
		close(release)
		stopBusy()
	})
	t.Run("SAFE-13 a listener goes on after its consumer was deleted and made again, and after a restart of the server", func(t *testing.T) {
		t.Parallel()
		cfg := natsserver.Config{StoreDir: t.TempDir(), Name: "n"}
		p := &swap{}
		s, err := natsserver.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.set(s)
		c, err := jet.Connect(within(t), jet.Config{InProcess: p})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{})
		got := make(chan string, 64)
		listen(t, st, events.Toolrunner, 4, func(ctx context.Context, m kernel.Message) {
			if m.Ack(ctx) == nil {
				got <- m.Subject()
			}
		})
		receive := func(id string) {
			t.Helper()
			appendOne(t, st.Journal(), id, events.CallAllowed, 0)
			for await(t, got, id) != events.RunEventSubject("s1", id, events.CallAllowed) {
			}
		}
		receive("r1")
		_, js := raw(t, s)
		if err := js.DeleteConsumer(within(t), topology.Log("s1"), string(events.Toolrunner)); err != nil {
			t.Fatal(err)
		}
		jettest.Station(t, c, "s1", jet.ApplyOptions{})
		receive("r2")
		s.Shutdown()
		if s, err = natsserver.Start(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		p.set(s)
		receive("r3")
	})
	t.Run("DEPL-2 a listener without workers is an error", func(t *testing.T) {
		t.Parallel()
		_, st := one(t, jet.ApplyOptions{})
		if err := st.Inbox().Listen(within(t), events.Planner, 0, nil); err == nil {
			t.Error("got no error")
		}
	})
}
