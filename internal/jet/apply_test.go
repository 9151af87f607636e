package jet_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// raw is a plain NATS client, as an outsider or an operator has it.
func raw(t testing.TB, s *natsserver.Server, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("", append(opts, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("jetstream: %v", err)
	}
	return nc, js
}

func TestApply(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-7 five services at once set up one station, and again, and nothing changes", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t)
		ctx := within(t)
		_, js := raw(t, s)
		// The server answers an update that changes nothing too, so the requests to change are counted, not the
		// effects.
		changes := apiCalls(t, s, nil, "STREAM.CREATE.*", "STREAM.UPDATE.*", "CONSUMER.CREATE.>")
		for round := range 2 {
			var wg sync.WaitGroup
			errs := make([]error, 5)
			for i := range errs {
				c := jettest.Connect(t, s, jet.Config{})
				wg.Go(func() { errs[i] = c.Setup().Apply(ctx, "s1", jet.ApplyOptions{}) })
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("round %d: %v", round+1, err)
			}
			if n := changes(); (n == 0) != (round == 1) {
				t.Errorf("round %d: %d requests to create or update", round+1, n)
			}
		}
		for _, want := range topology.Streams("s1", topology.Limits{}) {
			st, err := js.Stream(ctx, want.Name)
			if err != nil {
				t.Fatalf("stream %s: %v", want.Name, err)
			}
			cfg := st.CachedInfo().Config
			if cfg.DenyDelete != want.DenyDelete || cfg.DenyPurge != want.DenyPurge || cfg.AllowRollup != want.Rollup ||
				cfg.AllowMsgTTL != want.TTL || cfg.AllowMsgSchedules != want.Schedules || cfg.Storage != jetstream.FileStorage ||
				cfg.AllowMsgCounter || cfg.AllowAtomicPublish != want.Batches || cfg.Sealed {
				t.Errorf("%s has other powers than the table gives it: %+v", want.Name, cfg)
			}
		}
		for _, role := range events.Services() {
			for _, want := range topology.Consumers("s1", role) {
				co, err := js.Consumer(ctx, want.Stream, want.Name)
				if err != nil {
					t.Fatalf("consumer %s of %s: %v", want.Name, want.Stream, err)
				}
				if cfg := co.CachedInfo().Config; cfg.MaxDeliver != -1 || cfg.AckWait != topology.AckWait || len(cfg.BackOff) != 0 ||
					cfg.AckPolicy != jetstream.AckExplicitPolicy || cfg.MaxAckPending < 4*topology.SubscriptionsOf(role).Workers {
					t.Errorf("consumer %s of %s: %+v", want.Name, want.Stream, cfg)
				}
			}
		}
	})
	t.Run("DEPL-7 a limit that is set later changes an old station, and one that is not leaves it", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t)
		c := jettest.Connect(t, s, jet.Config{})
		_, js := raw(t, s)
		for _, step := range []struct{ set, want int64 }{{0, -1}, {1 << 20, 1 << 20}, {0, 1 << 20}, {2 << 20, 2 << 20}} {
			jettest.Station(t, c, "s1", jet.ApplyOptions{Limits: topology.Limits{LogBytes: step.set}})
			st, err := js.Stream(within(t), topology.Log("s1"))
			if err != nil {
				t.Fatal(err)
			}
			if got := st.CachedInfo().Config.MaxBytes; got != step.want {
				t.Errorf("after a limit of %d: got %d, want %d", step.set, got, step.want)
			}
		}
	})
	t.Run("DEPL-7 a station is left as it is by those who may only look, and refused to them if it is not there", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := topology.Permissions("s1", events.Planner)
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: "planner", Password: "p", Publish: publish, Subscribe: subscribe}}
		})
		c := jettest.Connect(t, s, as("planner", "p", topology.InboxPrefix("s1", events.Planner)))
		begin := time.Now()
		if err := c.Setup().Apply(within(t), "s1", jet.ApplyOptions{}); !errors.Is(err, jet.ErrDenied) || time.Since(begin) >= 5*time.Second {
			t.Fatalf("apply without a station: got %v after %s, want ErrDenied at once", err, time.Since(begin))
		}
		jettest.Station(t, jettest.Connect(t, s, as("admin", "a", "")), "s1", jet.ApplyOptions{})
		// A role sees its own consumers only, so the whole table is for the setup user.
		if err := c.Setup().Check(within(t), "s1", events.Planner); err != nil {
			t.Errorf("check of a station that is set up: %v", err)
		}
	})
	t.Run("DEPL-7 a name that cannot be part of a subject is refused", func(t *testing.T) {
		t.Parallel()
		c := jettest.Connect(t, jettest.Server(t), jet.Config{})
		if err := c.Setup().Apply(within(t), "a.b", jet.ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "station") {
			t.Errorf("got %v, want an error that names the station", err)
		}
	})
}

// apiCalls counts requests of the JetStream API since the last count.
func apiCalls(t *testing.T, s *natsserver.Server, as []nats.Option, verbs ...string) func() int {
	t.Helper()
	nc, _ := raw(t, s, as...)
	var subs []*nats.Subscription
	for _, v := range verbs {
		sub, err := nc.SubscribeSync("$JS.API." + v)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() int {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, sub := range subs {
			pending, _, _ := sub.Pending()
			for range pending {
				// The server asks for the consumers of its sources itself, and when is its own affair.
				if m, err := sub.NextMsg(time.Second); err == nil && !strings.Contains(m.Subject, ".JS_SRC_") {
					n++
				}
			}
		}
		return n
	}
}

func TestLogOnlyGrows(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	c := jettest.Connect(t, s, jet.Config{})
	st := jettest.Station(t, c, "s1", jet.ApplyOptions{})
	seq := appendOne(t, st.Journal(), "r1", events.RunCreated, 0)
	nc, js := raw(t, s) // with every right there is
	ctx := within(t)
	log, err := js.Stream(ctx, topology.Log("s1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("EVT-10 no one deletes, purges or rolls up an event, nor takes the protection away", func(t *testing.T) {
		if err := log.DeleteMsg(ctx, seq); err == nil {
			t.Error("delete: got no error")
		}
		if err := log.SecureDeleteMsg(ctx, seq); err == nil {
			t.Error("secure delete: got no error")
		}
		if err := log.Purge(ctx); err == nil {
			t.Error("purge: got no error")
		}
		subject := events.RunEventSubject("s1", "r1", events.RunCreated)
		for name, headers := range map[string]nats.Header{
			"rollup of a subject": {"Nats-Rollup": {"sub"}}, "rollup of all": {"Nats-Rollup": {"all"}},
			"lifetime": {"Nats-TTL": {"1s"}}, "schedule": {"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {subject}},
			"counter": {"Nats-Incr": {"1"}}, "forged schedule end": {"Nats-Scheduler": {subject}, "Nats-Schedule-Next": {"purge"}},
		} {
			if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject + "", Header: headers, Data: []byte("x")}); err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
		cfg := log.CachedInfo().Config
		cfg.DenyDelete, cfg.DenyPurge = false, false
		if _, err := js.UpdateStream(ctx, cfg); err == nil {
			t.Error("update that takes the protection away: got no error")
		}
		info, err := log.Info(ctx)
		if err != nil || info.State.Msgs != 1 || info.State.NumDeleted != 0 || info.State.FirstSeq != 1 {
			t.Errorf("got state %+v, %v; want the one event", info.State, err)
		}
	})
	t.Run("SAFE-5 what outsiders write to has no powers", func(t *testing.T) {
		for name, headers := range map[string]nats.Header{
			"rollup": {"Nats-Rollup": {"all"}}, "lifetime": {"Nats-TTL": {"1s"}},
			"schedule": {"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {events.TaskSubject("s1")}},
		} {
			if err := st.Publish(ctx, events.TaskSubject("s1"), []byte("x"), first(headers)); err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
		in, err := js.Stream(ctx, topology.In("s1"))
		if err != nil || in.CachedInfo().State.Msgs != 0 {
			t.Errorf("IN: %v, want it empty", err)
		}
	})
	t.Run("OBS-1 OBS-2 each stored event is on the run's stream, for a plain client, a run, a station or all", func(t *testing.T) {
		var subs []*nats.Subscription
		for _, pattern := range []string{"station.s1.run.r2.stream", "station.s1.run.*.stream", "station.*.run.*.stream"} {
			sub, err := nc.SubscribeSync(pattern)
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		seen := make(chan jet.Seen, 8)
		stop, err := st.Watch(ctx, "r2", true, func(x jet.Seen) { seen <- x })
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		seq := appendOne(t, st.Journal(), "r2", events.StepReady, 0)
		for _, sub := range subs {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				t.Fatalf("%s: %v", sub.Subject, err)
			}
			if m.Subject != "station.s1.run.r2.stream" || m.Header.Get("Nats-Subject") != events.RunEventSubject("s1", "r2", events.StepReady) {
				t.Errorf("%s: got %s of %s", sub.Subject, m.Subject, m.Header.Get("Nats-Subject"))
			}
		}
		if x := await(t, seen, "the event"); x.Run != "r2" || x.Kind != events.StepReady || x.Seq != seq || x.Live || len(x.Data) != 16 {
			t.Errorf("watch: got %+v", x)
		}
		st.Live().Publish("r2", []byte("token"))
		if x := await(t, seen, "what is live"); !x.Live || x.Run != "r2" || string(x.Data) != "token" {
			t.Errorf("watch: got %+v", x)
		}
		stop()
		stop()
	})
}

func first(h nats.Header) map[string]string {
	m := map[string]string{}
	for k := range h {
		m[k] = h.Get(k)
	}
	return m
}

func TestBurst(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	c := jettest.Connect(t, s, jet.Config{})
	jettest.Station(t, c, "s1", jet.ApplyOptions{})
	_, js := raw(t, s)
	ctx := within(t)
	t.Run("SAFE-14 DISP-1 a burst of 10,000 tasks waits in IN while no planner is there", func(t *testing.T) {
		body, _ := json.Marshal(events.Task{Agent: "a", Task: "t"})
		js, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncMaxPending(topology.BurstTasks))
		if err != nil {
			t.Fatal(err)
		}
		for range topology.BurstTasks {
			if _, err := js.PublishAsync(events.TaskSubject("s1"), body); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			t.Fatal("not all tasks were stored in time")
		}
		in, err := js.Stream(ctx, topology.In("s1"))
		if err != nil {
			t.Fatal(err)
		}
		if got := in.CachedInfo().State.Msgs; got != topology.BurstTasks {
			t.Errorf("%d tasks are stored, want %d", got, topology.BurstTasks)
		}
		if max := in.CachedInfo().Config.MaxBytes; max < topology.BurstTasks*events.MaxTask {
			t.Errorf("IN holds %d bytes, want room for %d tasks of the largest size", max, topology.BurstTasks)
		}
	})
}
