package jet_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// modes are how the server of a benchmark writes.
var modes = []struct {
	name string
	lazy bool
}{{"sync", false}, {"lazy", true}}

func benchStation(b *testing.B, lazy bool) *jet.Station {
	b.Helper()
	s := jettest.Server(b, func(cfg *natsserver.Config) { cfg.LazySync = lazy })
	return jettest.Station(b, jettest.Connect(b, s, jet.Config{}), "s1", jet.ApplyOptions{})
}

func mustAppend(b *testing.B, j kernel.Journal, run string, kind events.Kind, head uint64, data []byte) uint64 {
	ack := j.Append(b.Context(), kernel.Entry{ID: run, Kind: kind, Head: head, Bytes: data})
	if ack.Outcome != kernel.Stored {
		b.Errorf("append: got %s (%v)", ack.Outcome, ack.Err)
	}
	return ack.Seq
}

// BenchmarkAppend stores events of 1 KiB, one writer or many.
func BenchmarkAppend(b *testing.B) {
	data := make([]byte, 1<<10)
	for _, mode := range modes {
		b.Run(mode.name+"/one", func(b *testing.B) {
			j := benchStation(b, mode.lazy).Journal()
			var head uint64
			b.ReportAllocs()
			for b.Loop() {
				head = mustAppend(b, j, "r1", events.TurnFinished, head, data)
			}
		})
		b.Run(mode.name+"/many", func(b *testing.B) {
			j := benchStation(b, mode.lazy).Journal()
			var n atomic.Uint64
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				run, head := fmt.Sprintf("r%d", n.Add(1)), uint64(0)
				for pb.Next() {
					head = mustAppend(b, j, run, events.TurnFinished, head, data)
				}
			})
		})
	}
}

// BenchmarkRead reads a run of 200 events of 1 KiB, or asks for what is new where nothing is, or for the last event.
func BenchmarkRead(b *testing.B) {
	j := benchStation(b, true).Journal()
	var head uint64
	for range 200 {
		head = mustAppend(b, j, "r1", events.TurnFinished, head, make([]byte, 1<<10))
	}
	read := func(after uint64, want int) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if evs, _, err := j.Read(b.Context(), "r1", after); err != nil || len(evs) != want {
					b.Fatalf("read: got %d events, %v", len(evs), err)
				}
			}
		}
	}
	b.Run("whole", read(0, 200))
	b.Run("news", read(head-1, 1))
	b.Run("last", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := j.Last(b.Context(), "r1"); err != nil || !ok {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReadAmong reads runs of 10 turns of 4 events each that a process does not know, where 1,000 such runs are under
// way side by side: whole, or the last two turns.
func BenchmarkReadAmong(b *testing.B) {
	const runs, turns = 1000, 10
	kinds := []events.Kind{events.TurnFinished, events.CallAllowed, events.CallStarted, events.CallFinished}
	j := benchStation(b, true).Journal()
	heads := make([][]uint64, runs)
	for i := range turns * len(kinds) {
		var all sync.WaitGroup
		for r := range runs {
			all.Go(func() {
				var head uint64
				if i > 0 {
					head = heads[r][i-1]
				}
				heads[r] = append(heads[r], mustAppend(b, j, fmt.Sprintf("r%d", r), kinds[i%len(kinds)], head, make([]byte, 1<<10)))
			})
		}
		all.Wait()
	}
	for _, part := range []struct {
		name string
		want int
	}{{"whole", turns * len(kinds)}, {"news", 2 * len(kinds)}} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for r := 0; b.Loop(); r = (r + 1) % runs {
				after := uint64(0)
				if at := len(heads[r]) - part.want; at > 0 {
					after = heads[r][at-1]
				}
				if evs, _, err := j.Read(b.Context(), fmt.Sprintf("r%d", r), after); err != nil || len(evs) != part.want {
					b.Fatalf("got %d events, %v", len(evs), err)
				}
			}
		})
	}
}

// BenchmarkHop is one hop: an event is appended, delivered, and answered by its handler with the next one, which
// another role hears. Chains run beside each other.
func BenchmarkHop(b *testing.B) {
	for _, mode := range modes {
		for _, chains := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", mode.name, chains), func(b *testing.B) { hops(b, mode.lazy, chains) })
		}
	}
}

func hops(b *testing.B, lazy bool, chains int) {
	st := benchStation(b, lazy)
	j := st.Journal()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{}, 1<<16) // more than there are chains
	var left atomic.Int64
	listener := func(role events.Service, says events.Kind) chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- st.Inbox().Listen(ctx, role, 64, func(ctx context.Context, m kernel.Message) {
				sub, _ := events.ParseRunSubject(m.Subject())
				if left.Add(-1) > 0 {
					ack := j.Append(ctx, kernel.Entry{ID: sub.Run, Kind: says, Head: m.Seq(), Bytes: m.Data()})
					if ack.Outcome == kernel.Conflict {
						left.Add(1) // heard twice
					}
				} else {
					done <- struct{}{}
				}
				_ = m.Ack(ctx)
			})
		}()
		return ended
	}
	// toolrunner hears call.allowed and says call.finished, which the executor hears; it says call.allowed here.
	ends := []chan error{listener(events.Toolrunner, events.CallFinished), listener(events.Executor, events.CallAllowed)}
	b.ResetTimer()
	begin := time.Now()
	left.Store(int64(b.N))
	for c := range chains {
		mustAppend(b, j, fmt.Sprintf("c%d", c), events.CallAllowed, 0, make([]byte, 1<<10))
	}
	for range min(chains, b.N) {
		<-done
	}
	b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "hops/s")
	b.StopTimer()
	cancel()
	for _, ended := range ends {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkInput is a message of an outsider on its way to its role, over the shipped accounts: alone, or among many
// that wait in the queue.
func BenchmarkInput(b *testing.B) {
	for _, waiting := range []int{1, 256} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) { inputs(b, waiting) })
	}
}

func inputs(b *testing.B, waiting int) {
	outsider := topology.Outsider("s1", "outsider", "", topology.MayDispatch)
	s := jettest.Server(b, func(cfg *natsserver.Config) {
		cfg.LazySync = true
		cfg.Accounts = topology.Accounts("s1", []topology.User{outsider}, func(string) string { return `"x"` }, topology.Setup("s1"))
	})
	jettest.Station(b, jettest.Connect(b, s, as(topology.SetupUser, "x", "")), "s1", jet.ApplyOptions{})
	planner, err := jettest.Connect(b, s, as(string(events.Planner), "x", inboxOf(events.Planner))).Station("s1")
	if err != nil {
		b.Fatal(err)
	}
	person, err := jettest.Connect(b, s, as("outsider", "x", "")).Station("s1")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	taken := make(chan struct{}, waiting)
	ended := make(chan error, 1)
	go func() {
		ended <- planner.Inbox().Listen(ctx, events.Planner, 32, func(ctx context.Context, m kernel.Message) {
			_ = m.Ack(ctx) // the benchmark ends with the connection
			taken <- struct{}{}
		})
	}()
	var published sync.WaitGroup
	for range waiting {
		published.Go(func() { // each is followed by the next once it was taken
			for range (b.N + waiting - 1) / waiting {
				if err := person.Publish(b.Context(), events.TaskSubject("s1"), []byte("{}"), nil); err != nil {
					b.Error(err)
				}
				<-taken
			}
		})
	}
	b.ResetTimer()
	published.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
