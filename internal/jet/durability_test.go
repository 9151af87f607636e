package jet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
)

func TestDurability(t *testing.T) {
	t.Parallel()
	for _, lazy := range []bool{false, true} {
		word := map[bool]string{false: "always", true: "lazy"}[lazy]
		t.Run("SAFE-1 the mode of a server that is "+word+" is read from each source", func(t *testing.T) {
			t.Parallel()
			s := jettest.Server(t, func(cfg *natsserver.Config) {
				cfg.LazySync, cfg.Port, cfg.MonitorPort = lazy, -1, -1
				cfg.Users = []natsserver.User{{Name: "u", Password: "p"}}
				cfg.SystemUser = natsserver.User{Name: "sys", Password: "p"}
			})
			over := func(user string, monitors ...string) jet.Config {
				cfg := as(user, "p", "")
				cfg.URL, cfg.Monitors = s.URL(), monitors
				return cfg
			}
			embedded := as("u", "p", "")
			embedded.InProcess = s
			for source, cfg := range map[string]jet.Config{
				"embedded": embedded, "monitor": over("u", s.MonitorURL()), "system account": over("sys"), "nobody": over("u"),
			} {
				c, err := jet.Connect(within(t), cfg)
				if err != nil {
					t.Fatalf("%s: connect: %v", source, err)
				}
				defer c.Close()
				d, err := c.Servers().Durability(within(t))
				if err != nil {
					t.Fatalf("%s: %v", source, err)
				}
				known := source != "nobody"
				if d.Source != source || d.Known != known || d.SyncAlways != (known && !lazy) || (d.Interval > 0) != (known && lazy) {
					t.Errorf("%s: got %+v", source, d)
				}
				if d.ServerVersion == "" || known && (len(d.Servers) != 1 || d.Servers[0].Name != "test" || d.Servers[0].Version != d.ServerVersion) {
					t.Errorf("%s: got %+v, want name and version of the server", source, d)
				}
			}
		})
	}
	t.Run("SAFE-1 a monitoring port that does not answer is an error, not a guess", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port = -1 })
		c, err := jet.Connect(within(t), jet.Config{URL: s.URL(), Monitors: []string{"http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if d, err := c.Servers().Durability(within(t)); err == nil || d.SyncAlways {
			t.Errorf("got %+v, %v; want an error", d, err)
		}
	})
	t.Run("SAFE-1 of a cluster each server tells", func(t *testing.T) {
		t.Parallel()
		g := jettest.Cluster(t, 3)
		c := jettest.Connect(t, g.Server(0), jet.Config{})
		if d, err := c.Servers().Durability(within(t)); err != nil || d.Source != "embedded" || !d.SyncAlways {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestMicro(t *testing.T) {
	t.Parallel()
	t.Run("OBS-1 DEPL-6 ECO-2 a plain client lists the services and asks for their status", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := permissions(events.Planner)
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: "planner", Password: "p", Publish: publish, Subscribe: subscribe}}
		})
		c := jettest.Connect(t, s, as("planner", "p", inboxOf(events.Planner)))
		stop, err := c.Services().Register(events.Planner, "1.2.3", func([]byte) any { return map[string]int{"runs": 7} })
		if err != nil {
			t.Fatal(err)
		}
		nc, _ := raw(t, s, natsUser("admin", "a"))
		m, err := nc.RequestWithContext(within(t), "$SRV.PING", nil)
		if err != nil {
			t.Fatalf("ping: %v", err)
		}
		var ping micro.Ping
		if err := json.Unmarshal(m.Data, &ping); err != nil || ping.Name != "inspan-planner" || ping.Version != "1.2.3" {
			t.Errorf("got %s, %v", m.Data, err)
		}
		if m, err = nc.RequestWithContext(within(t), "inspan.planner.status", nil); err != nil || string(m.Data) != `{"runs":7}` {
			t.Errorf("status: got %v, %v", m, err)
		}
		if m, err = nc.RequestWithContext(within(t), "$SRV.STATS.inspan-planner", nil); err != nil || !strings.Contains(string(m.Data), `"runs":7`) {
			t.Errorf("stats: got %v, %v", m, err)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}
