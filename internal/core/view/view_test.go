package view_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// evil is what a model may write into any text.
const evil = "a\x1b[2Jb\x00c\u202ed\ne\rf\u2066g"

// spoil puts a text into every string of a value, however deep.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		spoil(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.String:
		v.SetString(evil)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, w := range events.Registry() {
		t.Run("EVT-12 "+string(w.Kind)+" has one line, in words", func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "events", "testdata", string(w.Kind)+".json"))
			if err != nil {
				t.Fatal(err)
			}
			f, p, err := events.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got := view.Line(f, p, nil)
			if text := view.Text(p); text == "" || text == string(w.Kind) || !strings.HasSuffix(got, text) {
				t.Errorf("text %q, line %q", text, got)
			}
			if strings.Contains(got, "\n") || !strings.Contains(got, string(w.Author)) {
				t.Errorf("line %q", got)
			}
			if again := view.Line(f, p, nil); again != got {
				t.Errorf("%q then %q", got, again)
			}
		})
		t.Run("SAFE-12 "+string(w.Kind)+" shows control characters", func(t *testing.T) {
			t.Parallel()
			p := w.New()
			spoil(reflect.ValueOf(p))
			if got := view.Text(p); got == "" || strings.ContainsFunc(got, acts) {
				t.Errorf("text %q", got)
			}
		})
	}
}

func acts(r rune) bool { return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) }

func TestWhole(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 lines stay, control characters do not", func(t *testing.T) {
		t.Parallel()
		if got := view.Whole("a\r\n\tb\x1b[2J\u202ec\rd"); got != "a\n\tb·[2J·c·d" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("EVT-12 Clip cuts by characters, at the limit and above", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"äöü": "äöü", "äöüx": "äö…", " a \n b ": "a b", "": ""} {
			if got := view.Clip(in, 3); got != want {
				t.Errorf("Clip(%q) = %q, want %q", in, got, want)
			}
		}
	})
	t.Run("EVT-12 spans have the unit a person would use", func(t *testing.T) {
		t.Parallel()
		for d, want := range map[time.Duration]string{0: "0 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 61 * time.Second: "1 min 1 s",
			90 * time.Minute: "1 h 30 min", 47 * time.Hour: "47 h 0 min", 49 * time.Hour: "2 days"} {
			if got := view.Span(d); got != want {
				t.Errorf("Span(%v) = %q, want %q", d, got, want)
			}
		}
	})
}

// begun is a run whose step "build" is allowed.
func begun(more ...events.Payload) run.State {
	b := runtest.New("default", "run-a")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("test", "build")), runtest.Ready("build"), runtest.Allowed("build"))
	b.Append(more...)
	return b.State()
}

func TestWhy(t *testing.T) {
	t.Parallel()
	say := func(p ...events.Payload) run.State {
		b := runtest.New("default", "run-a")
		b.Append(p...)
		return b.State()
	}
	planned := []events.Payload{runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build")}
	asked := runtest.Turn(1, "build", "", runtest.Asked(1, 1, "bash", `{"command":"make"}`))
	ref := runtest.Ref("build", "c1-1", "bash")
	started := begun(asked, runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
	waits := runtest.TurnWaits(1, "build", 2, runtest.Start.Add(10*time.Minute), false)
	for _, c := range []struct {
		name string
		s    run.State
		want []string
	}{
		{"no run", run.State{}, []string{"no such run"}},
		{"a planner", say(runtest.Created()), []string{"created, and waits to be started by the planner for 1 min 0 s"}},
		{"a plan", say(planned[:2]...), []string{"waits for the planner, whose model makes the plan for 1 min 0 s"}},
		{"the next step", say(planned[:3]...), []string{"waits for the next step from the planner for 1 min 0 s"}},
		{"a gatekeeper for a step", say(planned...), []string{"step build waits for the gatekeeper for 1 min 0 s"}},
		{"a gate of a step", say(append(planned, runtest.GateAt("g-1", "build", ""))...), []string{"step build waits for a person at gate g-1", "for 1 min 0 s", "may build go on?", "inspan approve run-a/g-1"}},
		{"a model", begun(), []string{"step build waits for the executor's model turn for 1 min 0 s"}},
		{"a pause of the model", begun(runtest.TurnDeferred(1, "build", 1, runtest.Start.Add(10*time.Minute))), []string{"the model request failed once, again in 8 min 57 s"}},
		{"a gatekeeper for a call", begun(asked), []string{"call bash c1-1 (make) waits for the gatekeeper"}},
		{"a gate of a call", begun(asked, runtest.GateAt("g-2", "build", "c1-1")), []string{"call c1-1 of step build waits for a person at gate g-2"}},
		{"a toolrunner", begun(asked, runtest.CallYes(ref, "once")), []string{"call bash c1-1 (make) waits for a toolrunner"}},
		{"a tool", started, []string{"call bash c1-1 (make) runs on runner-a for 1 min 0 s"}},
		{"a pause of a tool", begun(asked, runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1), runtest.CallDeferred(ref, 1, started.Sequence, runtest.Start.Add(10*time.Minute))),
			[]string{"call bash c1-1 (make) failed once, again in"}},
		{"children of a run that is stopping", func() run.State {
			b := runtest.New("default", "run-a")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.ChildStep("build")), runtest.Ready("build"), runtest.Allowed("build"))
			b.Append(runtest.Spawned(b.State(), "build", events.Reserve{}))
			b.Append(runtest.StoppingFor(b.State(), events.FinishStopped))
			return b.State()
		}(), []string{"stopping (stopped): waits for 1 child run to end", "for 1 min 0 s"}},
		{"a person who paused it", begun(runtest.Paused("lunch")), []string{"paused: lunch", "for 1 min 0 s", "inspan resume run-a"}},
		{"a person who resumes it or revises its plan after a no", func() run.State {
			b := runtest.New("default", "run-a")
			b.Append(append(planned, runtest.GateAt("g-1", "build", ""))...)
			s := b.State()
			b.Append(runtest.No(s.Gate("g-1"), "not so"), runtest.Paused("gate rejected: not so"))
			return b.State()
		}(), []string{"paused: gate rejected: not so", "inspan resume run-a goes on as planned", "inspan revise run-a --plan FILE"}},
		{"a provider", begun(runtest.TurnWaits(1, "build", 1, runtest.Start, false), waits), []string{
			"step build: waiting for provider anthropic (503) since 1 min 1 s; next try in 8 min 56 s at 05:16:09; try 3"}},
		{"a provider, and the request is due", begun(runtest.TurnWaits(1, "build", 1, runtest.Start, false)), []string{
			"step build: waits for the executor's model turn, try 2 after provider anthropic (503) did not answer"}},
		{"a provider, for its plan", func() run.State {
			b := runtest.New("default", "run-a")
			b.Append(append(planned[:2:2], &events.PlanRequestedData{Event: "plan_requested", Try: 1}, runtest.PlanWaits(1, 1, runtest.Start.Add(time.Hour), false))...)
			return b.State()
		}(), []string{"the plan: waiting for provider anthropic (503) since 1 min 0 s; next try in", "try 2"}},
		{"the pause for a provider that was given up", begun(runtest.TurnWaits(1, "build", 1, runtest.Start, true)), []string{"waits for the planner, which pauses the run because of provider anthropic (503) for"}},
		{"a person who resumes it after an outage", begun(runtest.TurnWaits(1, "build", 1, runtest.Start, true), runtest.PausedClock("provider anthropic: overloaded")), []string{"paused: provider anthropic: overloaded", "inspan resume run-a"}},
		{"the executor, once it was resumed", begun(runtest.TurnWaits(1, "build", 1, runtest.Start, true), runtest.PausedClock("provider"), runtest.Resumed()), []string{"step build waits for the executor's model turn"}},
		{"nothing, as a person stopped it", func() run.State {
			b := runtest.New("default", "run-a")
			b.Append(planned[:2]...)
			end := runtest.Failed(b.State(), events.FinishStopped, "stopped: wrong branch")
			end.By = "anna"
			b.Append(end)
			return b.State()
		}(), []string{"stopped by anna: stopped: wrong branch, 1 min 0 s ago"}},
		{"nothing, as it failed", func() run.State {
			b := runtest.New("default", "run-a")
			b.Append(planned[:2]...)
			b.Append(runtest.Failed(b.State(), events.FinishError, "broken\x1b[2J"))
			return b.State()
		}(), []string{"failed (error): broken·[2J, 1 min 0 s ago"}},
	} {
		t.Run("PLUS-5 a run waits for "+c.name, func(t *testing.T) {
			t.Parallel()
			got := view.Why(c.s, c.s.UpdatedAt.Add(time.Minute))
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q does not say %q", got, w)
				}
			}
			if strings.ContainsFunc(got, acts) {
				t.Errorf("not one clean line: %q", got)
			}
			if early := view.Why(c.s, c.s.CreatedAt.Add(-time.Hour)); strings.Contains(early, "for -") {
				t.Errorf("a slow clock gives %q", early)
			}
		})
	}
	t.Run("PLUS-5 what a person wrote as a reason cannot steer the terminal", func(t *testing.T) {
		t.Parallel()
		s := begun(runtest.Paused("lu\x1b[2Jnch\nfake"))
		if got := view.Why(s, s.UpdatedAt); strings.ContainsFunc(got, acts) {
			t.Errorf("got %q", got)
		}
	})
}

func TestDeputyLine(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-23b a line says who answered a gate, and for whom", func(t *testing.T) {
		t.Parallel()
		d := &events.GateApprovedData{GateAnswer: events.GateAnswer{Gate: "g1", By: "ann", Deputy: &events.DeputyAnswer{By: "bob"}}}
		if got := view.Line(events.Event{}, d, time.UTC); !strings.Contains(got, "gate g1 approved by bob for ann") {
			t.Errorf("%q", got)
		}
	})
}
