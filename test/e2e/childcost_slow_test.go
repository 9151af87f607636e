//go:build slow

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// fan is how many pieces of work a round has, fanRounds how often all ways to do them take turns.
	fan, fanRounds = 200, 5
	// family is how many children one run has at most here, side how many of them at the same time.
	family, side = 1000, 50
	// profileEnv names a directory for profiles of the processor time of each way.
	profileEnv = "INSPAN_BENCH_PROFILES"
)

// crowd is an agent that gives work to n children, side by side.
func crowd(n int) (events.Agent, string) {
	var b strings.Builder
	b.WriteString("turns:\n")
	for turn := 1; n > 0; turn++ {
		fmt.Fprintf(&b, "  - when: {turn: %d}\n    calls:\n", turn)
		for i := range min(n, side) {
			fmt.Fprintf(&b, "      - {name: delegate, input: {agent: small, task: answer %d of turn %d}}\n", i, turn)
		}
		n -= side
	}
	b.WriteString("  - text: all done\n")
	a := gives("crowd", "small")
	a.MaxSteps = 1000
	return a, b.String()
}

// fanning is a station that says when runs have ended, without a look at their logs: that would be measured, too.
type fanning struct {
	*world
	ended chan string
}

func newFanning(t *testing.T) fanning {
	w := newWorld(t)
	w.agent(events.Agent{Name: "small", MaxToolCalls: 1}, "turns:\n  - text: here\n")
	w.agent(events.Agent{Name: "works", Tools: []string{"read"}, MaxToolCalls: 4}, `
turns:
  - {when: {turn: 1}, calls: [{name: read, input: {path: a.txt}}]}
  - {when: {turn: 2}, calls: [{name: read, input: {path: b.txt}}]}
  - {when: {turn: 3}, calls: [{name: read, input: {path: c.txt}}]}
  - text: here
`)
	w.start()
	f := fanning{w, make(chan string, 4*family)}
	stop, err := w.st.Watch(t.Context(), "*", false, func(s jet.Seen) {
		if s.Kind == events.RunCompleted || s.Kind == events.RunFailed {
			f.ended <- s.Run
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return f
}

// over waits until n runs whose ids begin like this have ended.
func (f fanning) over(n int, prefix string) {
	f.t.Helper()
	for ctx := f.ctx(); n > 0; {
		select {
		case id := <-f.ended:
			if strings.HasPrefix(id, prefix) {
				n--
			}
		case <-ctx.Done():
			f.t.Fatalf("%d runs %s* have not ended", n, prefix)
		}
	}
}

// delegated is a run that gives n pieces of work away in calls, side of them at the same time.
func (f fanning) delegated(id, agent string, n int) {
	a, script := crowd(n)
	a.Name, a.Delegates = "gives-"+agent, []string{agent}
	f.agent(a, strings.ReplaceAll(script, "agent: small", "agent: "+agent))
	calls := 8*n + 100
	f.task(events.Task{ID: id, Agent: a.Name, Task: "go", MaxToolCalls: &calls})
	f.over(1, id)
}

// planned is a run whose plan has a step for each piece of work, carried out by a child.
func (f fanning) planned(id, agent string, n int) {
	var steps []events.TaskStep
	for i := range n {
		steps = append(steps, events.TaskStep{ID: fmt.Sprint("s", i), Description: "answer", Agent: agent, Child: events.ChildOwn})
	}
	calls := 8*n + 100
	f.task(events.Task{ID: id, Agent: "small", Task: "go", MaxToolCalls: &calls, Plan: childPlan(steps...)})
	f.over(1, id)
}

// plain are n runs that are no child of another.
func (f fanning) plain(id, agent string, n int) {
	for at := 0; at < n; at += side {
		for i := at; i < min(at+side, n); i++ {
			f.task(events.Task{ID: fmt.Sprint(id, "-", i), Agent: agent, Task: "answer",
				Plan: childPlan(events.TaskStep{ID: "a", Description: "answer"})})
		}
		f.over(min(side, n-at), id)
	}
}

// middle is the median.
func middle[T int64 | float64 | time.Duration](of []T) T {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// profiled writes a profile of what is done, where a directory for it is named.
func profiled(t *testing.T, name string, do func()) {
	t.Helper()
	dir := os.Getenv(profileEnv)
	if dir == "" {
		do()
		return
	}
	file, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	do()
}

// TestFanCost compares the processor time of this process, which is that of the server, too, for the same work done by
// children of one run and by runs that are no child, by turns (make bench-children).
func TestFanCost(t *testing.T) {
	f := newFanning(t)
	for agent, limit := range map[string]float64{"small": 2.2, "works": 1.7} {
		t.Run("SUB-1 a fan-out of children of the agent "+agent+" costs little more than as many plain runs", func(t *testing.T) {
			f := fanning{f.on(t), f.ended}
			ways := []struct {
				name string
				do   func(id, agent string, n int)
			}{{"plain", f.plain}, {"calls", f.delegated}, {"steps", f.planned}}
			cost := map[string][]time.Duration{}
			for round := range fanRounds + 1 {
				for _, way := range ways {
					runtime.GC()
					before := used()
					name := fmt.Sprintf("%s-%s-%d", way.name, agent, round)
					profiled(t, name, func() { way.do(name, agent, fan) })
					if took := used2(before); round > 0 { // the first one warms up
						cost[way.name] = append(cost[way.name], took)
					}
				}
				slices.Reverse(ways)
			}
			for name, took := range cost {
				var ratios []float64
				for i := range took {
					ratios = append(ratios, float64(took[i])/float64(cost["plain"][i]))
				}
				t.Logf("agent %s, %d by %s: %.2f ms of CPU each, %.2f times that of plain runs (rounds: %.2f)", agent, fan, name,
					float64(middle(took).Microseconds())/1000/fan, middle(ratios), ratios)
				if middle(ratios) > limit {
					t.Errorf("%s: %.2f times the processor time of plain runs, want at most %.1f", name, middle(ratios), limit)
				}
			}
		})
	}
}

// TestThousandChildren has one run with a thousand children: none is lost, and what the process holds does not grow with
// all that they did.
func TestThousandChildren(t *testing.T) {
	f := newFanning(t)
	f.delegated("warm", "small", side)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most, sample := uint64(0), []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	cpu, began := used(), time.Now()
	f.delegated("crowd", "small", family)
	took, busy := time.Since(began), used2(cpu)
	close(stop)
	most := <-peak
	t.Run("SUB-2 SUB-3 a thousand children of one run: none is lost, each is settled once", func(t *testing.T) {
		f := f.on(t)
		s, n := f.state("crowd"), f.count("crowd")
		if s.Status != events.Completed || n["child.spawned"] != family || n["child.finished"] != family || n["call.finished"] != family {
			t.Fatalf("%s %+v %v", s.Status, s.Result, n)
		}
		if len(s.SubAgentResults) != family || len(s.Living()) != 0 || s.Result.Below.Runs != family {
			t.Errorf("%d results, %d living, %+v", len(s.SubAgentResults), len(s.Living()), s.Result.Below)
		}
		for _, id := range kids(s) {
			if k := f.state(id); k.Status != events.Completed || k.Created.Parent != "crowd" {
				t.Errorf("%s: %s", id, k.Status)
			}
		}
	})
	t.Logf("%d children in %s, %s of CPU (%.1f ms each), at most %d MiB of heap", family, took.Round(time.Millisecond), busy.Round(time.Millisecond),
		float64(busy.Microseconds())/1000/family, most>>20)
	if most > 384<<20 {
		t.Errorf("%d MiB of heap", most>>20)
	}
}
