package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
)

// side is how many children the parent of a benchmark has at the same time.
const side = 50

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

// benched is a station for runs of an agent that answers at once.
func benched(b *testing.B) *world {
	b.Helper()
	w := newWorld(b)
	w.agent(events.Agent{Name: "small", MaxToolCalls: 1}, "turns:\n  - text: here\n")
	return w
}

// BenchmarkChildren is one child of a run that has all of them: go test -bench Children -benchtime 1000x.
func BenchmarkChildren(b *testing.B) {
	w := benched(b)
	a, script := crowd(b.N)
	w.agent(a, script)
	w.start()
	calls := 3*b.N + 100
	b.ResetTimer()
	over := make(chan struct{})
	stop, err := w.st.Watch(b.Context(), "crowd", false, func(s jet.Seen) {
		if s.Kind == events.RunCompleted || s.Kind == events.RunFailed {
			close(over)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	w.task(events.Task{ID: "crowd", Agent: "crowd", Task: "go", MaxToolCalls: &calls})
	<-over
	b.StopTimer()
	s := w.state("crowd")
	if n := w.count("crowd"); s.Status != events.Completed || n["child.finished"] != b.N || n["child.spawned"] != b.N {
		b.Fatalf("%s %+v %v", s.Status, s.Result, n)
	}
}

// BenchmarkPlainRuns is one run that is no child, with as many at the same time.
func BenchmarkPlainRuns(b *testing.B) {
	w := benched(b)
	w.start()
	b.ResetTimer()
	for at := 0; at < b.N; at += side {
		for i := at; i < min(at+side, b.N); i++ {
			w.task(events.Task{ID: fmt.Sprint("plain", i), Agent: "small", Task: "answer", Plan: childPlan(events.TaskStep{ID: "a", Description: "answer"})})
		}
		for i := at; i < min(at+side, b.N); i++ {
			w.ended(fmt.Sprint("plain", i))
		}
	}
}
