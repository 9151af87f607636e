package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func newWorkflows(t *testing.T) (*Workflows, *chain) {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newChain(t)
	return &Workflows{KV: st.KV(topology.StateBucket), Runs: c.logs}, c
}

func join(t *testing.T, w *Workflows, orchestrator, id string) []string {
	t.Helper()
	ids, err := w.Join(t.Context(), &events.RunCreatedData{Orchestrator: orchestrator}, id, time.Unix(2000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func row(t *testing.T, w *Workflows, name string) string {
	t.Helper()
	b, err := w.KV.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWorkflowNames(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 runs of one orchestrator find each other, else those of one workflow, and the keys are those that planners may write", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]*events.RunCreatedData{
			topology.OrchestratorKeys + "o": {Orchestrator: "o", WorkflowRun: "w"},
			topology.WorkflowKeys + "w":     {WorkflowRun: "w"},
			topology.WorkflowKeys + "v":     {Orchestrator: "no.token", WorkflowRun: "v"},
		} {
			if got := artifact.WorkflowOf(c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		for _, c := range []*events.RunCreatedData{nil, {}, {Orchestrator: "o.*"}, {WorkflowRun: ">"}, {Orchestrator: "o", ForkOf: &events.ForkOrigin{}}} {
			if got := artifact.WorkflowOf(c); got != "" {
				t.Errorf("%+v: got %q", c, got)
			}
		}
	})
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 the next run is given those that ended with files, in the order of their ends, whether or not the end was noted", func(t *testing.T) {
		t.Parallel()
		w, c := newWorkflows(t)
		if ids := join(t, w, "o", "b"); ids != nil {
			t.Errorf("the first has %v", ids)
		}
		join(t, w, "o", "a")
		join(t, w, "o", "goes-on")
		join(t, w, "o", "empty")
		join(t, w, "o", "never-created")
		join(t, w, "o", "damaged")
		c.logs.damaged = []string{"damaged"}
		b, a := c.ended("b", file{"b.md", "b"}), c.ended("a", file{"a.md", "a"})
		open := c.ended("goes-on", file{"c.md", "c"})
		open.EndedAt, open.Status = nil, events.Running
		c.logs.states["goes-on"] = open
		empty := c.ended("empty")
		if ids := join(t, w, "o", "next"); !slices.Equal(ids, []string{"b", "a"}) {
			t.Errorf("before the ends are noted: %v", ids)
		}
		for range 2 { // an end that is delivered twice
			for _, s := range []run.State{b, a, empty, open} {
				if err := w.Ended(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
		}
		once := row(t, w, "orchestrator.o")
		if err := w.Ended(t.Context(), a); err != nil || row(t, w, "orchestrator.o") != once {
			t.Errorf("the row written twice is another: %v", err)
		}
		if strings.Contains(once, "empty") {
			t.Errorf("a run without files is named: %s", once)
		}
		for range 2 { // and a task that is delivered twice
			if ids := join(t, w, "o", "next"); !slices.Equal(ids, []string{"b", "a"}) {
				t.Errorf("after: %v", ids)
			}
		}
		if ids := join(t, w, "other", "alone"); ids != nil {
			t.Errorf("another orchestrator has %v", ids)
		}
	})
	t.Run("ART-9 PERS-21 a row that is lost, or cannot be read, is made again by the next ends", func(t *testing.T) {
		t.Parallel()
		w, c := newWorkflows(t)
		if err := w.KV.Put(t.Context(), "orchestrator.o", []byte("{half")); err != nil {
			t.Fatal(err)
		}
		if err := w.Ended(t.Context(), c.ended("a", file{"a.md", "a"})); err != nil {
			t.Fatal(err)
		}
		if ids := join(t, w, "o", "next"); !slices.Equal(ids, []string{"a"}) {
			t.Errorf("%v", ids)
		}
	})
	t.Run("ART-9 a row keeps the newest runs, at its limit and above", func(t *testing.T) {
		t.Parallel()
		for _, n := range []int{maxMembers, maxMembers + 1} {
			w, c := newWorkflows(t)
			for i := range n {
				if err := w.Ended(t.Context(), c.ended(fmt.Sprintf("r%03d", i), file{"a.md", "a"})); err != nil {
					t.Fatal(err)
				}
			}
			all, _, err := w.load(t.Context(), "orchestrator.o")
			if err != nil || len(all) != maxMembers || all[len(all)-1].Run != fmt.Sprintf("r%03d", n-1) || (all[0].Run == "r000") != (n == maxMembers) {
				t.Errorf("%d of %d, %v", len(all), n, err)
			}
			if ids := join(t, w, "o", "next"); len(ids) != events.MaxEarlier || ids[len(ids)-1] != fmt.Sprintf("r%03d", n-1) {
				t.Errorf("%v", ids)
			}
		}
	})
	t.Run("ART-9 many that write one row at once lose nothing", func(t *testing.T) {
		t.Parallel()
		w, c := newWorkflows(t)
		const many = 20
		var ended []run.State
		for i := range many {
			ended = append(ended, c.ended(fmt.Sprintf("e%02d", i), file{"a.md", "a"}))
		}
		w.Runs = &logs{} // of the others nothing is known yet
		var wg sync.WaitGroup
		errs := make([]error, 2*many)
		for i := range many {
			wg.Go(func() { errs[i] = (&Workflows{KV: w.KV, Runs: &logs{}}).Ended(t.Context(), ended[i]) })
			wg.Go(func() {
				_, errs[many+i] = (&Workflows{KV: w.KV, Runs: &logs{}}).Join(t.Context(), &events.RunCreatedData{Orchestrator: "o"}, fmt.Sprintf("j%02d", i), time.Unix(2000, 0))
			})
		}
		wg.Wait()
		if all, _, err := w.load(t.Context(), "orchestrator.o"); len(all) != 2*many || errors.Join(append(errs, err)...) != nil {
			t.Errorf("%d runs, %v", len(all), errors.Join(append(errs, err)...))
		}
	})
	t.Run("ART-9 a planner with the permissions of an earlier version is given what persisters noted", func(t *testing.T) {
		t.Parallel()
		w, c := newWorkflows(t)
		if err := w.Ended(t.Context(), c.ended("a", file{"a.md", "a"})); err != nil {
			t.Fatal(err)
		}
		w.KV = readOnly{w.KV}
		if ids := join(t, w, "o", "next"); !slices.Equal(ids, []string{"a"}) {
			t.Errorf("%v", ids)
		}
	})
}

// readOnly is a shelf that may not be written.
type readOnly struct{ kernel.KV }

func (readOnly) Swap(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, kernel.ErrDenied
}

func TestWorkflowsExpire(t *testing.T) {
	t.Parallel()
	t.Run("ART-8 ART-9 a run is taken out of its workflow when the last of its artifacts goes, and not before", func(t *testing.T) {
		t.Parallel()
		w, c := newWorkflows(t)
		s := c.ended("a", file{"a.md", "a"}, file{"b.md", "bb"})
		if _, err := c.store.Put(t.Context(), "a", []byte("for long"), 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		s.EndedAt = &now
		c.logs.states["a"] = s
		if err := w.Ended(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		e := &Expirer{Store: c.store, Runs: c.logs, Workflows: w}
		for _, one := range []struct {
			after   time.Duration
			removed int
			want    []string
		}{{30 * time.Minute, 0, []string{"a"}}, {2 * time.Hour, 2, []string{"a"}}, {4 * time.Hour, 1, nil}} {
			got, err := e.Sweep(t.Context(), now.Add(one.after))
			if ids := join(t, w, "o", "next"); got.Artifacts != one.removed || err != nil || !slices.Equal(ids, one.want) {
				t.Errorf("after %s: %+v, %v, %v", one.after, got, err, ids)
			}
		}
	})
}
