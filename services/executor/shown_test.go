package executor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// long is the turn that a step is owed after so many turns, each of a call with a result of 2 KiB, in a window that has
// room.
func long(tb testing.TB, turns int) (*Role, prompt.Input, turn.Task) {
	tb.Helper()
	c := runtest.Created()
	a := c.Agents["worker"]
	a.ContextWindow = 1_000_000
	c.Agents["worker"], c.Options.MaxSteps = a, turns+1
	b := runtest.New("s1", "r1")
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	for n := 1; n <= turns; n++ {
		asked := runtest.Asked(n, 1, "read", fmt.Sprintf(`{"path":"%d.txt"}`, n))
		ref := runtest.Ref("a", asked.ID, "read")
		b.Append(runtest.Turn(n, "a", "I look", asked), runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, strings.Repeat("some words ", 190)))
	}
	tools, err := tool.NewRegistry()
	if err != nil {
		tb.Fatal(err)
	}
	s := b.State()
	r := &Role{cfg: Config{ToolsOf: func(events.Agent) *tool.Registry { return tools }}}
	duty := turn.Next(s, "a", time.Now())
	if duty.Ask == nil {
		tb.Fatalf("no turn is owed: %+v", duty)
	}
	in, err := r.input(s, *duty.Ask, a)
	if err != nil {
		tb.Fatal(err)
	}
	return r, in, *duty.Ask
}

func TestShown(t *testing.T) {
	t.Parallel()
	t.Run("PRMT-8 LOOP-7 what was judged to fit is what the model is asked, the same as if it were assembled again", func(t *testing.T) {
		t.Parallel()
		r, in, task := long(t, 12)
		_, looked, fits, err := r.compact(t.Context(), in.State, task)
		if err != nil || looked || fits == nil {
			t.Fatal(err, looked, fits)
		}
		again, err := r.request(t.Context(), in.State, task, in.Agent, "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // making the request changes nothing of what is shown
			once, err := r.request(t.Context(), in.State, task, in.Agent, "m", fits)
			if err != nil || !reflect.DeepEqual(once, again) || len(once.Messages) != 25 {
				t.Fatalf("%v\n got %+v\nwant %+v", err, once, again)
			}
		}
	})
}

func TestTalks(t *testing.T) {
	t.Parallel()
	t.Run("PRMT-8 a turn is asked with the same messages whether or not the turns before it were asked here, and those stay as they were", func(t *testing.T) {
		t.Parallel()
		r := &Role{}
		var asked, copies [][]llm.Message
		for n := range 12 {
			fresh, in, task := long(t, n)
			r.cfg = fresh.cfg
			got, err := r.request(t.Context(), in.State, task, in.Agent, "m", nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := fresh.request(t.Context(), in.State, task, in.Agent, "m", nil)
			if err != nil || !reflect.DeepEqual(got, want) || len(got.Messages) != 1+2*n {
				t.Fatalf("after %d turns: %v\n got %+v\nwant %+v", n, err, got, want)
			}
			asked, copies = append(asked, got.Messages), append(copies, slices.Clone(want.Messages))
		}
		if !reflect.DeepEqual(asked, copies) {
			t.Error("messages of an earlier turn were changed")
		}
		if got, again := asked[11], r.talks.take("r1", "a").messages; &got[0] != &again[0] || r.talks.bytes != 0 {
			t.Errorf("they were made again, or %d bytes are still counted", r.talks.bytes)
		}
	})
	t.Run("LOOP-12 a conversation is kept until its step ends, and all of them take a bounded room", func(t *testing.T) {
		t.Parallel()
		k := talks{most: DefaultTalks}
		for i := range 20 {
			k.put(fmt.Sprint("r", i), "a", &talk{bytes: DefaultTalks / 4})
			k.put("r0", "a", &talk{bytes: 1})
		}
		if len(k.byStep) > 4 || k.bytes > DefaultTalks || k.byStep[stepOf{"r0", "a"}] == nil {
			t.Errorf("%d conversations of %d bytes", len(k.byStep), k.bytes)
		}
		long := &talk{bytes: DefaultTalks + 1}
		if k.put("r1", "a", long); len(k.byStep) > 1 || k.take("r1", "a") != long || k.bytes != 0 {
			t.Errorf("one that is longer than all may be is made anew each turn, or others stayed: %d, %d bytes", len(k.byStep), k.bytes)
		}
		b := runtest.New("s1", "r0")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		k.put("r0", "a", &talk{bytes: 1})
		if k.forget(b.State(), "a"); k.byStep[stepOf{"r0", "a"}] == nil {
			t.Error("the conversation of a step that goes on is not kept")
		}
		b.Append(runtest.Turn(1, "a", "done"))
		if k.forget(b.State(), "a"); k.byStep[stepOf{"r0", "a"}] != nil {
			t.Error("the conversation of a step that ends is kept")
		}
	})
}

// BenchmarkTurnOfWindow is what the executor does for the request of a turn whose model has a known window, of a step
// with 100 turns: judge its length and make it. It is done in turn with the prompt assembled once and twice; the median
// of twice/once is reported.
func BenchmarkTurnOfWindow(b *testing.B) {
	b.ReportAllocs()
	r, in, task := long(b, 100)
	do := func(again bool) time.Duration {
		began := time.Now()
		_, _, fits, err := r.compact(b.Context(), in.State, task)
		if again {
			fits = nil
		}
		if err == nil {
			_, err = r.request(b.Context(), in.State, task, in.Agent, "m", fits)
		}
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var ratios []float64
	for b.Loop() {
		once := do(false)
		ratios = append(ratios, float64(do(true))/float64(once))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "twice/once")
}
