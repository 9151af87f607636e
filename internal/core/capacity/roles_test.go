package capacity_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/capacity"
	"github.com/inspan/inspan/internal/core/queueing"
)

// costs are round numbers: a planner takes 1 ms of a step and 10 of a run, the others 1 and 1, a persister no share.
var costs = capacity.Costs{Planner: capacity.CPU{Every: 0.001, Shared: 0.01}, Gatekeeper: capacity.CPU{Every: 0.001, Shared: 0.001},
	Executor: capacity.CPU{Every: 0.001, Shared: 0.001}, Toolrunner: capacity.CPU{Every: 0.001, Shared: 0.001},
	Persister: capacity.CPU{Every: 0.001}, Server: 0.002, Turn: 0.5, Call: 1}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		work      capacity.Work
		processes [5]int
	}{
		{"nothing to do needs one of each", capacity.Work{StepsPerRun: 10, Model: 20, Tool: 5, Turns: 64, Calls: 32}, [5]int{1, 1, 1, 1, 1}},
		// 10 steps/s have 11 turns of 20.5 s and 10 calls of 6 s a second: 225.5 and 60 are under way, of 64 and 32 at 70 %.
		{"what waits needs workers", capacity.Work{StepsPerSecond: 10, StepsPerRun: 10, Model: 20, Tool: 5, Turns: 64, Calls: 32}, [5]int{1, 1, 6, 3, 1}},
		// 499 steps/s leave 0.201 of each process for what is shared, which is 0.499.
		{"what is CPU needs cores", capacity.Work{StepsPerSecond: 499, StepsPerRun: 10, Turns: 1e6, Calls: 1e6}, [5]int{3, 3, 3, 3, 1}},
		{"a run of one step is all planning", capacity.Work{StepsPerSecond: 499, StepsPerRun: 1, Turns: 1e6, Calls: 1e6}, [5]int{25, 3, 3, 3, 1}},
		{"no number carries what each must take", capacity.Work{StepsPerSecond: 701, StepsPerRun: 10, Turns: 1e6, Calls: 1e6}, [5]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := [5]int{}
			for i, n := range costs.Roles(c.work) {
				got[i] = n.Processes
				if math.Abs(n.Most-700) > 1e-6 {
					t.Errorf("%s carries %v steps/s at most, want 700", n.Role, n.Most)
				}
			}
			if got != c.processes {
				t.Errorf("got %v processes, want %v", got, c.processes)
			}
		})
	}
	w := capacity.Work{StepsPerSecond: 10, StepsPerRun: 10, Model: 20, Tool: 5, Turns: 64, Calls: 32}
	n := costs.Roles(w)
	if e := n[2]; e.Limit != capacity.ByWorkers || math.Abs(e.StepsPerSecond-64/22.55) > 1e-9 || math.Abs(e.UnderWay-225.5) > 1e-9 {
		t.Errorf("executor: %+v, want 64 turns of 22.55 s to limit it", e)
	}
	if g := n[1]; g.Limit != capacity.ByCPU || g.StepsPerSecond != 500 || g.UnderWay != 0 || math.Abs(g.Cores-0.02) > 1e-12 {
		t.Errorf("gatekeeper: %+v, want 2 ms of CPU to limit it", g)
	}
	if got := costs.ServerCores(w); got != 0.02 {
		t.Errorf("a server has %v cores busy, want 0.02", got)
	}
}

// TestAsNetwork holds that so many processes are busy for at most Busy of their time, and that one fewer is not.
func TestAsNetwork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := capacity.Work{StepsPerSecond: rapid.Float64Range(0.01, 650).Draw(t, "steps/s"), StepsPerRun: rapid.Float64Range(1, 100).Draw(t, "steps"),
			Model: rapid.Float64Range(0, 60).Draw(t, "model"), Tool: rapid.Float64Range(0, 60).Draw(t, "tool"),
			Turns: rapid.IntRange(1, 256).Draw(t, "turns"), Calls: rapid.IntRange(1, 256).Draw(t, "calls")}
		e := costs.Roles(w)[2]
		if e.Processes == 0 {
			t.Fatalf("%+v: no number of executors", w)
		}
		carries := func(processes int) float64 {
			most, _ := queueing.Network{
				{Name: "workers", Demand: (w.StepsPerRun + 1) / w.StepsPerRun * (w.Model + costs.Turn), Places: processes * w.Turns},
				{Name: "core of each", Demand: costs.Executor.Of(processes), Places: 1}}.Most()
			return most * capacity.Busy
		}
		const grain = 1 + 1e-9
		if carries(e.Processes)*grain < w.StepsPerSecond {
			t.Fatalf("%d executors carry %v, want %v", e.Processes, carries(e.Processes), w.StepsPerSecond)
		}
		if e.Processes > 1 && carries(e.Processes-1) > w.StepsPerSecond*grain {
			t.Fatalf("%d executors carry %v, which is enough", e.Processes-1, carries(e.Processes-1))
		}
	})
}

func TestMeasuredCosts(t *testing.T) {
	t.Parallel()
	for _, n := range capacity.MeasuredCosts().Roles(capacity.Work{StepsPerSecond: 1, StepsPerRun: 10, Turns: 1, Calls: 1}) {
		if !(n.StepsPerSecond > 1 && n.StepsPerSecond < 1e5 && n.Most > 1) || n.Processes < 1 {
			t.Errorf("%+v is no figure of a role", n)
		}
	}
}
