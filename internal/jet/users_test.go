package jet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestSetAccounts(t *testing.T) {
	t.Parallel()
	accounts := func(administrators ...topology.User) string {
		return topology.Accounts("s1", nil, func(string) string { return `"x"` }, administrators...)
	}
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, accounts(topology.Setup("s1")) })
	setup := as(topology.SetupUser, "x", "")
	admin, err := s.Connect(within(t), setup)
	if err != nil {
		t.Fatal(err)
	}
	jettest.Station(t, admin, "s1", jet.ApplyOptions{})
	admin.Close()
	planner := jettest.Connect(t, s, as(string(events.Planner), "x", inboxOf(events.Planner)))
	st, err := planner.Station("s1")
	if err != nil {
		t.Fatal(err)
	}
	head := appendOne(t, st.Journal(), "r1", events.RunCreated, 0)
	t.Run("SAFE-6 a user that is named takes the place of one in the address", func(t *testing.T) {
		at := strings.Replace(s.URL(), "nats://", "nats://"+string(events.Planner)+":x@", 1)
		named := setup
		named.URL = at + "," + at
		c, err := jet.Connect(within(t), named)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Setup().Apply(within(t), "s1", jet.ApplyOptions{}); err != nil {
			t.Error(err)
		}
	})
	gone := make(chan struct{})
	nc, err := nats.Connect(s.URL(), natsUser(topology.SetupUser, "x"), nats.NoReconnect(), quiet, nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	url := s.URL()
	if err := s.SetAccounts(accounts(), ""); err != nil {
		t.Fatal(err)
	}
	t.Run("SAFE-5 a user that is taken away is disconnected and not let in again", func(t *testing.T) {
		await(t, gone, "the end of the setup user's connection")
		setup.URL = s.URL()
		if _, err := jet.Connect(within(t), setup); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("connect as the setup user: got %v, want ErrUnauthorized", err)
		}
	})
	t.Run("SAFE-5 the others go on, at the same address, also after the server was started again", func(t *testing.T) {
		head = appendOne(t, st.Journal(), "r1", events.RunStarted, head)
		if err := planner.Setup().Check(within(t), "s1", events.Planner); err != nil || s.URL() != url {
			t.Errorf("%v, address %q, want %q", err, s.URL(), url)
		}
		s.Shutdown()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		appendOne(t, st.Journal(), "r1", events.RunPaused, head)
		setup.URL = s.URL()
		if _, err := jet.Connect(within(t), setup); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("connect as the setup user after a restart: got %v, want ErrUnauthorized", err)
		}
	})
}
