package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
)

// cost of one run.
type cost struct {
	events, bytes int
	took          time.Duration
}

// asker asks one question after the other.
type asker struct {
	*world
	ended chan string
}

func (w *world) asker() asker {
	w.t.Helper()
	w.agent(events.Agent{Name: "talker", Prompt: "You answer.", Tools: []string{"read"}}, "turns:\n  - when: {turn: 1}\n    text: hello\n")
	w.start()
	a := asker{w, make(chan string, 1)} // one run at a time
	stop, err := w.st.Watch(w.t.Context(), "*", false, func(s jet.Seen) {
		if s.Kind == events.RunCompleted || s.Kind == events.RunFailed {
			a.ended <- s.Run
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	return a
}

// question asks and returns what the run cost, from the task published to its end seen.
func (a asker) question(id string, long bool) cost {
	a.t.Helper()
	begin := time.Now()
	a.task(marked(events.Task{ID: id, Agent: "talker", Task: "say hello"}, long))
	select {
	case got := <-a.ended:
		if got != id {
			a.t.Fatalf("run %s ended, want %s", got, id)
		}
	case <-a.ctx().Done():
		a.t.Fatalf("run %s did not end\n%s", id, a.story(id))
	}
	c := cost{took: time.Since(begin)}
	for _, r := range a.events(id) {
		c.events++
		c.bytes += len(r.Bytes)
	}
	return c
}

func TestDirectCost(t *testing.T) {
	t.Parallel()
	t.Run("PERF-3 a question of one turn costs four events on the direct path, and less than half of the appends and two thirds of the bytes of a wrapped one", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).asker()
		direct, wrapped := w.question("q-1", false), w.question("q-2", true)
		if direct.events != 4 || wrapped.events < 9 || 2*direct.events >= wrapped.events || 3*direct.bytes >= 2*wrapped.bytes {
			t.Errorf("direct %+v, wrapped %+v\n%s", direct, wrapped, w.story("q-1"))
		}
	})
}

// BenchmarkPaths asks the same question on both paths by turns, through JetStream.
func BenchmarkPaths(b *testing.B) {
	w := newWorld(b).asker()
	for i := range 5 {
		w.question(fmt.Sprintf("warm-%d", i), i%2 == 0)
	}
	var all [2][]cost
	n := 0
	for b.Loop() {
		n++
		for k, long := range []bool{n%2 == 0, n%2 == 1} {
			at := 0
			if long {
				at = 1
			}
			all[at] = append(all[at], w.question(fmt.Sprintf("q-%d-%d", n, k), long))
		}
	}
	direct, wrapped := median(all[0]), median(all[1])
	b.ReportMetric(float64(direct.events), "direct-appends")
	b.ReportMetric(float64(wrapped.events), "wrapped-appends")
	b.ReportMetric(float64(direct.bytes), "direct-B")
	b.ReportMetric(float64(wrapped.bytes), "wrapped-B")
	b.ReportMetric(float64(direct.took.Microseconds())/1000, "direct-ms")
	b.ReportMetric(float64(wrapped.took.Microseconds())/1000, "wrapped-ms")
	b.ReportMetric(float64(direct.took)/float64(wrapped.took), "ratio-ms")
}

// median of each figure by itself.
func median(all []cost) cost {
	at := func(of func(cost) int64) int64 {
		v := make([]int64, len(all))
		for i, c := range all {
			v[i] = of(c)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return cost{events: int(at(func(c cost) int64 { return int64(c.events) })), bytes: int(at(func(c cost) int64 { return int64(c.bytes) })),
		took: time.Duration(at(func(c cost) int64 { return int64(c.took) }))}
}
