package telemetry

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const at = "http://127.0.0.1:4318"
	t.Run("ECO-10 the standard variables say where to and whether", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name            string
			cfg             Config
			traces, metrics string
		}{
			{"nothing is off", Config{}, "", ""},
			{"one for both", Config{Endpoint: at + "/"}, at + "/v1/traces", at + "/v1/metrics"},
			{"one of its own is whole", Config{Endpoint: at, Traces: "http://h/t"}, "http://h/t", at + "/v1/metrics"},
			{"none", Config{Endpoint: at, MetricsExporter: "none"}, at + "/v1/traces", ""},
			{"disabled", Config{Endpoint: at, Disabled: true}, "", ""},
		} {
			if c.cfg.traces() != c.traces || c.cfg.metrics() != c.metrics || c.cfg.Check() != nil || c.cfg.On() != (c.traces+c.metrics != "") {
				t.Errorf("%s: %q %q %v", c.name, c.cfg.traces(), c.cfg.metrics(), c.cfg.Check())
			}
		}
		for _, c := range []Config{{Endpoint: "127.0.0.1:4317"}, {Endpoint: at, Protocol: "grpc"}, {Endpoint: at, TracesExporter: "zipkin"},
			{Endpoint: at, Sampler: "sometimes"}, {Endpoint: at, Sampler: "traceidratio", Arg: "2"}} {
			if c.Check() == nil {
				t.Errorf("%+v is let through", c)
			}
			if r, err := New(t.Context(), c, Deps{}); r != nil || err == nil {
				t.Errorf("%+v makes a recorder", c)
			}
		}
	})
	t.Run("whole traces are sampled, as their task says where it says so", func(t *testing.T) {
		t.Parallel()
		yes := func(c Config, given, sampled bool) (n int) {
			choose, err := c.sampler()
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				if choose(random.Uint64(), given, sampled) {
					n++
				}
			}
			return n
		}
		if n := yes(Config{}, true, false); n != 0 {
			t.Errorf("%d traces that their task did not sample", n)
		}
		if n := yes(Config{Sampler: "always_on"}, true, false); n != 1000 {
			t.Errorf("%d of 1000 with always_on", n)
		}
		if n := yes(Config{Sampler: "parentbased_traceidratio", Arg: "0.25"}, false, true); n < 200 || n > 300 {
			t.Errorf("%d of 1000 with a share of a quarter", n)
		}
		if n := yes(Config{Sampler: "always_off"}, false, true); n != 0 {
			t.Errorf("%d with always_off", n)
		}
	})
}

func TestIDs(t *testing.T) {
	t.Parallel()
	t.Run("OBS-23 ids are derived from the run, and another one where an id is used again", func(t *testing.T) {
		t.Parallel()
		one := run.State{HarnessID: "r", CreatedAt: time.Unix(1, 0)}
		other := run.State{HarnessID: "r", CreatedAt: time.Unix(2, 0)}
		id, parent, _ := traceOf(one)
		same, _, _ := traceOf(one)
		differs, _, _ := traceOf(other)
		if id != same || id == differs || parent.IsValid() || spanOf(one, ofRun) == spanOf(other, ofRun) || spanOf(one, ofRun) == spanOf(one, ofStep("run")) {
			t.Error("ids are not what they are derived from")
		}
		one.Created = &events.RunCreatedData{TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
		if id, parent, sampled := traceOf(one); id.String() != "0af7651916cd43dd8448eb211c80319c" || parent.String() != "b7ad6b7169203331" || sampled {
			t.Errorf("%s %s %t", id, parent, sampled)
		}
	})
	t.Run("OBS-23 a gate is below its step where that has a span, else below the run", func(t *testing.T) {
		t.Parallel()
		s := run.State{Plan: &run.Plan{Steps: []*run.Step{{ID: "work"},
			{ID: "ask", StepCourse: run.StepCourse{Flow: &events.StepFlow{Kind: events.ControlApproval}}}}}}
		for _, c := range []struct{ step, scope, decision, above string }{{"work", "step", "approved", ofStep("work")},
			{"work", "step", "rejected", ofRun}, {"work", "call", "rejected", ofStep("work")},
			{"ask", "step", "approved", ofRun}, {"gone", "step", "expired", ofRun}} {
			if got := aboveGate(s, &run.Gate{StepID: c.step, Scope: c.scope}, c.decision); got != c.above {
				t.Errorf("%+v is below %q", c, got)
			}
		}
	})
	t.Run("OBS-23 SUB-3 a child is in the trace of its root, below the step or the call that it carries out, whatever came with the task", func(t *testing.T) {
		t.Parallel()
		for _, given := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"} {
			root := run.State{HarnessID: "r", CreatedAt: time.Unix(1, 0), Created: &events.RunCreatedData{TraceParent: given}}
			want, _, drawn := traceOf(root)
			child := run.State{HarnessID: "c", CreatedAt: time.Unix(2, 0), Created: &events.RunCreatedData{TraceParent: given,
				ChildOf: &events.Lineage{Parent: "r", Step: "a", Trace: root.TraceBelow("a", "")}}}
			id, above, sampled := traceOf(child)
			if id != want || above != spanOf(root, ofStep("a")) || sampled != drawn {
				t.Errorf("%q: %s below %s, %t; the root is in %s, %t", given, id, above, sampled, want, drawn)
			}
			below := run.State{HarnessID: "d", CreatedAt: time.Unix(3, 0), Created: &events.RunCreatedData{TraceParent: given,
				ChildOf: &events.Lineage{Parent: "c", Step: "step-1", Call: "c1-1", Trace: child.TraceBelow("step-1", "c1-1")}}}
			if id, above, _ := traceOf(below); id != want || above != spanOf(child, ofCall("c1-1")) {
				t.Errorf("%q: the child of the child is in %s below %s", given, id, above)
			}
		}
	})
}

// BenchmarkOff is what an event costs where nothing is exported.
func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	var r *Recorder
	tell := r.OnStored()
	payload, s := events.Payload(&events.TurnFinishedData{}), run.State{}
	for b.Loop() {
		if tell != nil {
			tell(runlog.StoredEvent{Payload: payload, Before: s})
		}
	}
}

// BenchmarkOn is what telling an event costs the service that stored it, where nothing can be exported any more.
func BenchmarkOn(b *testing.B) {
	b.ReportAllocs()
	r := &Recorder{queue: make(chan runlog.StoredEvent, 1)}
	tell := r.OnStored()
	payload, s := events.Payload(&events.TurnFinishedData{}), run.State{}
	for b.Loop() {
		tell(runlog.StoredEvent{Payload: payload, Before: s})
	}
}
