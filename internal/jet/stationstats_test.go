package jet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestCensus(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.MaxStore = 2 << 30 })
	st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{Limits: topology.Limits{LogBytes: 1 << 20}})
	j, n := st.Journal(), st.StationStats()
	count := func() (running int) {
		t.Helper()
		running, err := n.Running(within(t))
		if err != nil {
			t.Fatal(err)
		}
		return running
	}
	t.Run("SAFE-14 runs that have not ended are counted in the log", func(t *testing.T) {
		if got := count(); got != 0 {
			t.Errorf("an empty log has %d runs", got)
		}
		for i := range 5 {
			id := fmt.Sprint("r", i)
			head := appendOne(t, j, id, events.RunCreated, 0)
			if i < 2 {
				appendOne(t, j, id, []events.Kind{events.RunCompleted, events.RunFailed}[i], head)
			}
		}
		if got := count(); got != 3 {
			t.Errorf("got %d running, want 3 of 5", got)
		}
	})
	t.Run("SAFE-14 runs created since a time are counted in the log", func(t *testing.T) {
		for ago, want := range map[time.Duration]int{time.Hour: 5, -time.Hour: 0} {
			if got, err := n.Created(within(t), time.Now().Add(-ago)); err != nil || got != want {
				t.Errorf("since %s ago: got %d, %v; want %d", ago, got, err, want)
			}
		}
		since := time.Now()
		appendOne(t, j, "later", events.RunCreated, 0)
		if got, err := n.Created(within(t), since); err != nil || got != 1 {
			t.Errorf("got %d since then, %v; want 1", got, err)
		}
	})
	t.Run("SAFE-14 the stores with a limit tell how full they are", func(t *testing.T) {
		fills, err := n.Fills(within(t))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, f := range fills {
			if f.Used <= 0 || f.Limit <= 0 {
				t.Errorf("%+v", f)
			}
			found[f.Store] = true
			if f.Store == "the stream LOG_s1" && f.Limit != 1<<20 || f.Store == "the server's storage" && f.Limit != 2<<30 {
				t.Errorf("%+v", f)
			}
		}
		if !found["the stream LOG_s1"] || !found["the server's storage"] {
			t.Errorf("got %+v, want the log and the server among them", fills)
		}
	})
	t.Run("SAFE-14 a server elsewhere tells on its monitoring port", func(t *testing.T) {
		t.Parallel()
		far := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.MonitorPort, cfg.MaxStore = -1, -1, 3<<30 })
		c, err := jet.Connect(within(t), jet.Config{URL: far.URL(), Monitors: []string{far.MonitorURL()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		fills, err := jettest.Station(t, c, "s1", jet.ApplyOptions{}).StationStats().Fills(within(t))
		if err != nil || len(fills) != 1 || fills[0].Limit != 3<<30 {
			t.Errorf("got %+v, %v", fills, err)
		}
	})
	t.Run("SAFE-6 the planner's own rights are enough for all of it", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := topology.Permissions("s1", events.Planner)
		guarded := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: "planner", Password: "p", Publish: publish, Subscribe: subscribe}}
		})
		jettest.Station(t, jettest.Connect(t, guarded, as("admin", "a", "")), "s1", jet.ApplyOptions{})
		st, err := jettest.Connect(t, guarded, as("planner", "p", topology.InboxPrefix("s1", events.Planner))).Station("s1")
		if err != nil {
			t.Fatal(err)
		}
		_, errRunning := st.StationStats().Running(within(t))
		_, errCreated := st.StationStats().Created(within(t), time.Now())
		_, errFills := st.StationStats().Fills(within(t))
		if errRunning != nil || errCreated != nil || errFills != nil {
			t.Errorf("%v, %v, %v", errRunning, errCreated, errFills)
		}
	})
}

func TestReadAmongMany(t *testing.T) {
	t.Parallel()
	st := jettest.Station(t, jettest.Connect(t, jettest.Server(t, func(cfg *natsserver.Config) { cfg.LazySync = true }), jet.Config{}), "s1", jet.ApplyOptions{})
	j := st.Journal()
	// Kinds that come again and kinds that do not, of runs that lie between each other.
	kinds := map[string][]events.Kind{
		"once":  {events.RunCreated, events.RunStarted, events.PlanMade, events.StepReady, events.GateOpened},
		"again": {events.RunCreated, events.TurnFinished, events.CallAllowed, events.TurnFinished, events.CallAllowed, events.TurnFinished},
	}
	at := map[string][]uint64{}
	for i := range 6 {
		for id, ks := range kinds {
			if i >= len(ks) {
				continue
			}
			head := uint64(0)
			if i > 0 {
				head = at[id][i-1]
			}
			at[id] = append(at[id], appendOne(t, j, id, ks[i], head))
		}
	}
	for id, want := range at {
		t.Run("PERS-2 every event of a run whose kinds come "+id+" is read, from any position on", func(t *testing.T) {
			for after := uint64(0); after <= want[len(want)-1]; after++ {
				evs, more, err := j.Read(within(t), id, after)
				if err != nil || more {
					t.Fatalf("after %d: %v, more %v", after, err, more)
				}
				var got, left []uint64
				for _, f := range evs {
					got = append(got, f.Seq)
				}
				for _, seq := range want {
					if seq > after {
						left = append(left, seq)
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(left) {
					t.Errorf("after %d: got %v, want %v", after, got, left)
				}
			}
		})
	}
	const others = 15_000
	t.Run("PERF-1 a run that lies behind many others is read as fast as a new one", func(t *testing.T) {
		for i := range others {
			appendOne(t, j, fmt.Sprint("other", i), events.RunCreated, 0)
		}
		took := func(id string, want int) time.Duration {
			best := time.Hour
			for range 50 {
				began := time.Now()
				if evs, _, err := j.Read(within(t), id, 0); err != nil || len(evs) != want {
					t.Fatalf("got %d events of %s, %v", len(evs), id, err)
				}
				best = min(best, time.Since(began))
			}
			return best
		}
		fresh, old := took(fmt.Sprint("other", others-3), 1), took("once", 5)
		t.Logf("the best of 50 reads: the newest run %s, the oldest %s", fresh, old)
		if old > 10*fresh+300*time.Microsecond {
			t.Errorf("the oldest run takes %s, the newest %s", old, fresh)
		}
	})
}
