package jet_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestHearAgain(t *testing.T) {
	t.Parallel()
	may := topology.Reviver("one")
	s := jettest.Server(t, func(c *natsserver.Config) {
		c.LazySync = true
		c.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: may.Name, Password: "r", Publish: may.Publish, Subscribe: may.Subscribe}}
	})
	_, js := raw(t, s, nats.UserInfo("admin", "a"))
	one := jettest.Station(t, jettest.Connect(t, s, jet.Config{User: "admin", Password: secret.New("a")}), "one", jet.ApplyOptions{})
	c := jettest.Connect(t, s, jet.Config{User: may.Name, Password: secret.New("r")})
	ctx := within(t)
	tasks := func(t *testing.T) jetstream.Consumer {
		t.Helper()
		for _, co := range topology.Consumers("one", events.Planner) {
			if co.Stream == topology.In("one") {
				got, err := js.Consumer(ctx, co.Stream, co.Name)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
		}
		t.Fatal("the planner hears no task")
		return nil
	}
	task := func(t *testing.T) {
		t.Helper()
		if err := one.Publish(ctx, "station.one.task", fmt.Appendf(nil, `{"agent":"a","task":%q}`, rand16()), nil); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("DEPL-6 SAFE-4 what was given out and not acknowledged is given out again at once, what was acknowledged is not", func(t *testing.T) {
		for range 3 {
			task(t)
		}
		co := tasks(t)
		fetch := func(n int, wait time.Duration) (got []jetstream.Msg) {
			t.Helper()
			batch, err := co.Fetch(n, jetstream.FetchMaxWait(wait))
			if err != nil {
				t.Fatal(err)
			}
			for m := range batch.Messages() {
				got = append(got, m)
			}
			return got
		}
		first := fetch(3, 5*time.Second)
		if len(first) != 3 {
			t.Fatalf("%d messages", len(first))
		}
		if err := first[0].DoubleAck(ctx); err != nil {
			t.Fatal(err)
		}
		if early := fetch(1, 200*time.Millisecond); len(early) != 0 {
			t.Fatal("it is given out again before its time")
		}
		if err := c.Consumers().RedeliverOpen(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		again := fetch(2, 5*time.Second)
		if len(again) != 2 || string(again[0].Data()) != string(first[1].Data()) || string(again[1].Data()) != string(first[2].Data()) {
			t.Fatalf("%d messages again", len(again))
		}
		for _, m := range again {
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if more := fetch(1, 200*time.Millisecond); len(more) != 0 {
			t.Errorf("and once more: %s", more[0].Data())
		}
	})
	t.Run("DEPL-6 PERF-1 a consumer with nothing open, or with too much behind what is, is left as it is", func(t *testing.T) {
		resets := apiCalls(t, s, []nats.Option{nats.UserInfo("admin", "a")}, "CONSUMER.RESET.>")
		if err := c.Consumers().RedeliverOpen(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		if n := resets(); n != 0 {
			t.Errorf("%d consumers were put back, of which none had anything open", n)
		}
		task(t)
		co := tasks(t)
		batch, err := co.Fetch(1, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() { // put off again and again, each time is one more to hear
			for range jet.MaxAgain + 1 {
				if err := m.Nak(); err != nil {
					t.Fatal(err)
				}
				next, err := co.Next(jetstream.FetchMaxWait(5 * time.Second))
				if err != nil {
					t.Fatal(err)
				}
				m = next
			}
		}
		if err := c.Consumers().RedeliverOpen(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		if n := resets(); n != 0 {
			t.Errorf("%d consumers were put back by more than %d messages", n, jet.MaxAgain)
		}
	})
	t.Run("SAFE-6 whoever may do that may do nothing else", func(t *testing.T) {
		nc, _ := raw(t, s, nats.UserInfo(may.Name, "r"))
		tell := make(chan error, 16)
		nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { tell <- err })
		for _, subject := range []string{"$JS.API.CONSUMER.DELETE.IN_one.planner", "$JS.API.CONSUMER.CREATE.IN_one.planner", "$JS.API.CONSUMER.MSG.NEXT.IN_one.planner",
			"$JS.API.CONSUMER.PAUSE.IN_one.planner", "$JS.API.STREAM.PURGE.IN_one", "$JS.API.STREAM.MSG.GET.LOG_one", "station.one.task", events.RunEventSubject("one", "r", events.RunCreated), "$KV.harness-config.one.agent.x"} {
			if err := nc.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := await(t, tell, "a refusal of "+subject); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", subject, err)
			}
		}
	})
}
