package e2e

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// userLine is where the configuration of a station names a user. Users of a server have different names.
var userLine = regexp.MustCompile(`(?m)^(\s+user: )`)

// together is the configuration of a server with several stations: the accounts of each, in one block. The users of a
// station have its name before theirs, as docs/stations.md says.
func together(stations ...string) string {
	var all strings.Builder
	all.WriteString("accounts {\n")
	for _, s := range stations {
		users := append(topology.Buckets{}.ShippedOutsiders(s), topology.Outsider(s, "anna", "anna", topology.MayWatch, topology.MayApprove))
		own := topology.Accounts(s, users, func(string) string { return `"x"` }, topology.Setup(s))
		own = strings.TrimSuffix(strings.TrimPrefix(own, "accounts {\n"), "}\n")
		all.WriteString(userLine.ReplaceAllString(own, "${1}"+s+"-"))
	}
	all.WriteString("}\n")
	return all.String()
}

// twoStations are the stations s1 and s2 on one server with the users of users.conf, each with its five services.
func twoStations(t *testing.T) (s *natsserver.Server, stations map[string]*foreignNATS) {
	t.Helper()
	s = jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, together("s1", "s2") })
	stations = map[string]*foreignNATS{}
	for _, name := range []string{"s1", "s2"} {
		f := newForeignNATS(t, s, func(cfg *service.Config, user string) {
			cfg.NATSUser, cfg.NATSPassword = name+"-"+user, secret.New("x")
		})
		f.cfg.Station = name
		if err := f.setup(); err != nil {
			t.Fatal(err)
		}
		f.start()
		stations[name] = f
	}
	return s, stations
}

// asUser is a client of a station with the credentials of a user, which may be those of another station.
func asUser(t *testing.T, s *natsserver.Server, user, station string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URL: strings.Replace(s.URL(), "://", "://"+user+":x@", 1), Station: station})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTwoStations(t *testing.T) {
	t.Parallel()
	s, stations := twoStations(t)
	operator := map[string]*client.Client{}
	for name := range stations {
		operator[name] = asUser(t, s, name+"-operator", name)
	}
	t.Run("CLI-9 two stations with users.conf on one server carry out runs of the same id, each its own", func(t *testing.T) {
		var both sync.WaitGroup
		for name, f := range stations {
			anna := asUser(t, s, name+"-anna", name)
			both.Go(func() { f.on(t).gated(operator[name], anna, "run-same") })
		}
		both.Wait()
		logs := map[string]string{}
		for name := range stations {
			logs[name] = readAll(t, operator[name], "run-same")
			if !strings.Contains(logs[name], `"stationid":"`+name+`"`) {
				t.Errorf("station %s:\n%s", name, logs[name])
			}
			all, err := client.StationsOf(t.Context(), operator[name])
			if err != nil || len(all) != 1 || all[0].Station != name || all[0].Runs != 1 || all[0].Open != 0 || all[0].Events == 0 ||
				all[0].Last.IsZero() {
				t.Errorf("station %s lists %+v, %v", name, all, err)
			}
		}
		if logs["s1"] == logs["s2"] {
			t.Error("both stations have the same log")
		}
	})
	t.Run("SAFE-6 credentials of one station read, watch and change nothing of the other", func(t *testing.T) {
		for _, user := range []string{"s1-operator", "s1-anna", "s1-planner"} {
			t.Run(user, func(t *testing.T) {
				if user == "s1-planner" { // a service receives answers on a subject of its own
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					conn, err := jet.Connect(ctx, jet.Config{URL: s.URL(), User: user, Password: secret.New("x"),
						InboxPrefix: topology.InboxPrefix("s1", events.Planner)})
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					st, err := conn.Station("s2")
					if err == nil {
						_, err = jet.SummaryOf(ctx, st)
					}
					if !errors.Is(err, jet.ErrDenied) {
						t.Errorf("the log of the other station: %v, want ErrDenied", err)
					}
					return
				}
				c := asUser(t, s, user, "s2")
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if all, err := client.StationsOf(ctx, c); !errors.Is(err, client.ErrDenied) {
					t.Errorf("stations: %+v, %v, want ErrDenied", all, err)
				}
				// The index is a bucket of the own account, with keys of the own station.
				if all, err := c.Runs().List(ctx); len(all) > 0 || err != nil && !errors.Is(err, client.ErrDenied) {
					t.Errorf("runs: %+v, %v, want none", all, err)
				}
				if state, err := c.State(ctx, "run-same"); !errors.Is(err, client.ErrDenied) {
					t.Errorf("state: %+v, %v, want ErrDenied", state, err)
				}
				if _, err := c.Start(ctx, events.Task{ID: "run-foreign", Agent: "a", Task: "go"}); !errors.Is(err, client.ErrDenied) {
					t.Errorf("start: %v, want ErrDenied", err)
				}
			})
		}
		all, err := client.StationsOf(t.Context(), operator["s2"])
		if err != nil || len(all) != 1 || all[0].Runs != 1 {
			t.Errorf("the other station has %+v, %v", all, err)
		}
	})
	t.Run("SAFE-6 a pattern for all stations shows the events of the own station alone", func(t *testing.T) {
		watcher := asUser(t, s, "s1-operator", "s1")
		seen := make(chan string, 1024) // more than both runs have events
		st, ok := watcher.Inside().(*jet.Station)
		if !ok {
			t.Fatalf("%T", watcher.Inside())
		}
		stop, err := st.WatchSubject("station.*.run.*.stream", func(subject string, _ []byte) { seen <- subject })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, name := range []string{"s2", "s1"} { // those of s1 come last, so they are the last to be waited for
			anna := asUser(t, s, name+"-anna", name)
			stations[name].on(t).gated(operator[name], anna, "run-watched")
		}
		select {
		case subject := <-seen:
			if !strings.HasPrefix(subject, "station.s1.") {
				t.Errorf("received %s", subject)
			}
		case <-time.After(patience):
			t.Fatal("no event of the own station was received")
		}
		for len(seen) > 0 {
			if subject := <-seen; !strings.HasPrefix(subject, "station.s1.") {
				t.Errorf("received %s", subject)
			}
		}
	})
}

// TestStationsOfAnAccount shows what stations of one account share.
func TestStationsOfAnAccount(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 several stations of one account are all listed, each with what is its own", func(t *testing.T) {
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port = -1 })
		for _, name := range []string{"s1", "s2"} {
			f := newForeignNATS(t, s, func(*service.Config, string) {})
			f.cfg.Station, f.cfg.NATSShared = name, true
			if err := f.setup(); err != nil {
				t.Fatal(err)
			}
		}
		c := connectWith(t, s.URL(), "")
		all, err := client.StationsOf(t.Context(), c)
		if err != nil || len(all) != 2 || all[0].Station != "s1" || all[1].Station != "s2" || all[1].Version != "" || all[1].Runs != 0 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
