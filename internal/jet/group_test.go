package jet_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// grouped is a station whose appends are grouped.
func grouped(t *testing.T, o jet.ApplyOptions) (*jet.Conn, *jet.Station) {
	t.Helper()
	c, s := one(t, o)
	c.GroupAppends(jet.GroupOnDisk)
	return c, s
}

func TestGroupedJournalExam(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]jet.Grouping{"on disk": jet.GroupOnDisk, "in memory": jet.GroupInMemory} {
		t.Run("batches gathered "+name, func(t *testing.T) {
			t.Parallel()
			kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals {
				c, s := one(t, jet.ApplyOptions{})
				c.GroupAppends(how)
				return s.JournalFor
			})
		})
	}
}

func TestGroupedJournalExamOnThreeReplicas(t *testing.T) {
	t.Parallel()
	kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals {
		g := jettest.Cluster(t, 3)
		var seen []*jet.Station
		for i := range 3 {
			c := jettest.Connect(t, g.Server(i), jet.Config{Name: t.Name()})
			c.GroupAppends(jet.GroupOnDisk)
			seen = append(seen, jettest.Station(t, c, "s1", jet.ApplyOptions{Replicas: 3}))
		}
		return anyOf(seen)
	})
}

// atOnce appends one event to each of many runs at the same time and returns what became of them.
func atOnce(t *testing.T, j kernel.Journal, entries []kernel.Entry) []kernel.Ack {
	t.Helper()
	acks := make([]kernel.Ack, len(entries))
	var wg sync.WaitGroup
	for i, e := range entries {
		wg.Go(func() { acks[i] = j.Append(within(t), e) })
	}
	wg.Wait()
	return acks
}

func firstEvents(n int, prefix string) []kernel.Entry {
	var entries []kernel.Entry
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		entries = append(entries, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: []byte("first of " + id)})
	}
	return entries
}

func TestGroupedOutcomes(t *testing.T) {
	t.Parallel()
	const many = 200
	t.Run("SAFE-4 each member of a group is told its own position", func(t *testing.T) {
		t.Parallel()
		c, s := grouped(t, jet.ApplyOptions{})
		entries := firstEvents(many, "r")
		for i, ack := range atOnce(t, s.Journal(), entries) {
			last, ok, err := s.Journal().Last(within(t), entries[i].ID)
			if ack.Outcome != kernel.Stored || err != nil || !ok || last.Seq != ack.Seq || string(last.Bytes) != string(entries[i].Bytes) {
				t.Fatalf("%s: got %s at %d (%v), the log has %q at %d (%v)", entries[i].ID, ack.Outcome, ack.Seq, ack.Err, last.Bytes, last.Seq, err)
			}
		}
		if c.Grouped() == 0 {
			t.Error("no append was sent in a batch, want most of them")
		}
	})
	t.Run("SAFE-4 SAFE-15 one that is refused does not harm the others of its group, and is told why", func(t *testing.T) {
		t.Parallel()
		_, s := grouped(t, jet.ApplyOptions{})
		entries := firstEvents(many, "r")
		taken := appendOne(t, s.Journal(), entries[90].ID, events.RunCreated, 0)
		entries[120].Bytes = []byte(strings.Repeat("x", events.MaxEvent+1))
		entries[150].Head = 1 << 40
		for i, ack := range atOnce(t, s.Journal(), entries) {
			want := kernel.Stored
			switch i {
			case 90, 150:
				want = kernel.Conflict
			case 120:
				want = kernel.TooLarge
			}
			if ack.Outcome != want {
				t.Errorf("append %d: got %s (%v), want %s", i, ack.Outcome, ack.Err, want)
			}
			if i == 90 && ack.Seq != taken {
				t.Errorf("conflict names position %d, want %d", ack.Seq, taken)
			}
		}
		if evs, _, err := s.Journal().Read(within(t), entries[90].ID, 0); err != nil || len(evs) != 1 {
			t.Errorf("the run that was taken has %d events (%v), want 1", len(evs), err)
		}
	})
	t.Run("SAFE-6 what a user may not say is denied to it alone", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := topology.Permissions("s1", events.Executor)
		server := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: "executor", Password: "e", Publish: publish, Subscribe: subscribe}}
		})
		jettest.Station(t, jettest.Connect(t, server, as("admin", "a", "")), "s1", jet.ApplyOptions{})
		c := jettest.Connect(t, server, as("executor", "e", topology.InboxPrefix("s1", events.Executor)))
		c.GroupAppends(jet.GroupOnDisk)
		st, err := c.Station("s1")
		if err != nil {
			t.Fatal(err)
		}
		entries := firstEvents(many, "r")
		for i := range entries {
			entries[i].Kind = events.TurnFinished
			if i%50 == 49 {
				entries[i].Kind = events.CallAllowed
			}
		}
		for i, ack := range atOnce(t, st.Journal(), entries) {
			want := kernel.Stored
			if i%50 == 49 {
				want = kernel.Denied
			}
			if ack.Outcome != want {
				t.Errorf("append %d of %s: got %s (%v), want %s", i, entries[i].Kind, ack.Outcome, ack.Err, want)
			}
		}
	})
	t.Run("SAFE-4 a full log refuses all that has no room, and what it acknowledged it has", func(t *testing.T) {
		t.Parallel()
		_, s := grouped(t, jet.ApplyOptions{Limits: topology.Limits{LogBytes: 64 << 10}})
		entries := firstEvents(many, "r")
		for i := range entries {
			entries[i].Bytes = []byte(strings.Repeat("x", 1<<10))
		}
		stored := 0
		for i, ack := range atOnce(t, s.Journal(), entries) {
			_, there, err := s.Journal().Last(within(t), entries[i].ID)
			if err != nil || there != (ack.Outcome == kernel.Stored) || ack.Outcome != kernel.Stored && ack.Outcome != kernel.Full {
				t.Errorf("append %d: got %s (%v), in the log: %v (%v)", i, ack.Outcome, ack.Err, there, err)
			}
			if ack.Outcome == kernel.Stored {
				stored++
			}
		}
		if stored == 0 || stored > 64 {
			t.Errorf("%d events of 1 KiB were stored in 64 KiB", stored)
		}
	})
	t.Run("SAFE-4 a caller that gives up is told that nothing is known, and the others go on", func(t *testing.T) {
		t.Parallel()
		_, s := grouped(t, jet.ApplyOptions{})
		entries := firstEvents(many, "r")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		for i, e := range entries {
			ctx, want := within(t), kernel.Stored
			if i%3 == 0 {
				ctx, want = ended, kernel.Unknown
			}
			wg.Go(func() {
				if ack := s.Journal().Append(ctx, e); ack.Outcome != want && (want == kernel.Stored || ack.Outcome != kernel.Stored) {
					t.Errorf("append %d: got %s (%v), want %s", i, ack.Outcome, ack.Err, want)
				}
			})
		}
		wg.Wait()
		if ack := s.Journal().Append(within(t), firstEvents(1, "after")[0]); ack.Outcome != kernel.Stored {
			t.Errorf("afterwards: got %s (%v), want stored: a place was not given back", ack.Outcome, ack.Err)
		}
	})
}

// TestGroupsUnderTrouble lets chains of events grow while rivals write to the same runs and the server goes away and
// comes back: every event that was acknowledged is in the log, once, in its place.
func TestGroupsUnderTrouble(t *testing.T) {
	t.Parallel()
	const writers, runs, events = 80, 78, 25 // two runs have two writers
	cfg := natsserver.Config{StoreDir: t.TempDir(), Name: "n"}
	server, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &swap{}
	p.set(server)
	c, err := jet.Connect(within(t), jet.Config{InProcess: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j := jettest.Station(t, c, "s1", jet.ApplyOptions{}).Journal()
	c.GroupAppends(jet.GroupOnDisk)

	var written atomic.Int64
	acked := make([][]string, writers)
	half := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			acked[w] = chain(t, j, fmt.Sprintf("r%d", w%runs), fmt.Sprintf("w%d", w), events, func() {
				if written.Add(1) == writers*events/2 {
					close(half)
				}
			})
		})
	}
	await(t, half, "half of the events")
	for burst := 0; c.Grouped() == 0; burst++ { // a slow machine may have sent each append alone until now
		var more sync.WaitGroup
		for w := range writers {
			more.Go(func() { chain(t, j, fmt.Sprintf("more%d-%d", burst, w), "w", 2, func() {}) })
		}
		more.Wait()
	}
	server.Shutdown()
	again, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Shutdown)
	p.set(again)
	wg.Wait()
	t.Run("SAFE-4 EVT-15 DEPL-2 what was acknowledged is in the log once, in its order, whatever happened", func(t *testing.T) {
		for r := range runs {
			var all []kernel.Record
			for after, more := uint64(0), true; more; {
				var page []kernel.Record
				if page, more, err = j.Read(within(t), fmt.Sprintf("r%d", r), after); err != nil {
					t.Fatal(err)
				}
				if all = append(all, page...); len(all) > 0 {
					after = all[len(all)-1].Seq
				}
			}
			place := make(map[string]int)
			for i, f := range all {
				if _, twice := place[string(f.Bytes)]; twice {
					t.Errorf("run %d has %s twice", r, f.Bytes)
				}
				place[string(f.Bytes)] = i
			}
			here := [][]string{acked[r]}
			if rival := r + runs; rival < writers {
				here = append(here, acked[rival])
			}
			if want := len(here) * events; len(all) != want {
				t.Errorf("run %d has %d events, want %d", r, len(all), want)
			}
			for _, mine := range here {
				for i, ev := range mine {
					at, ok := place[ev]
					if !ok || i > 0 && at <= place[mine[i-1]] {
						t.Errorf("run %d: %s is at %d (%v)", r, ev, at, ok)
					}
				}
			}
		}
		if c.Grouped() == 0 {
			t.Error("no append was sent in a batch: nothing was tried")
		}
	})
}

// chain appends n events to a run that others write to as well, settling what is not known as a ledger does.
func chain(t *testing.T, j kernel.Journal, run, who string, n int, stored func()) (acked []string) {
	var head uint64
	for i := range n {
		ev := fmt.Sprintf("%s-%d", who, i)
		err := untilDone(within(t), func() error {
			ack := j.Append(within(t), kernel.Entry{ID: run, Kind: events.TurnFinished, Head: head, Bytes: []byte(ev)})
			if ack.Outcome == kernel.Stored {
				head = ack.Seq
				return nil
			}
			mine, _, err := j.Read(within(t), run, head)
			for _, f := range mine {
				if head = f.Seq; string(f.Bytes) == ev {
					return nil
				}
			}
			if last, ok, errLast := j.Last(within(t), run); errLast == nil && ok {
				head = max(head, last.Seq)
				if string(last.Bytes) == ev {
					return nil
				}
			}
			return fmt.Errorf("%s: %w (%w)", ack.Outcome, ack.Err, err)
		})
		if err != nil {
			t.Errorf("%s: %v", ev, err)
			return acked
		}
		acked = append(acked, ev)
		stored()
	}
	return acked
}
