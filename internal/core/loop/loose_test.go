package loop_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// does takes a turn of one call of a tool with an effect class, and returns what stood before the call.
func does(b *runtest.Builder, step, tool, effect, input, result string) loop.Grade {
	s := b.State()
	n := s.Turns().Len() + 1
	d := runtest.Turn(n, step, "", runtest.Asked(n, 1, tool, input))
	d.CallsKey = run.KeyOf(d.Calls)
	b.Append(d)
	g := loop.RoundsOf(b.State()).Asking(step, tool).Grade
	ref := runtest.Ref(step, d.Calls[0].ID, tool)
	b.Append(runtest.CallYes(ref, effect))
	fence := uint64(0)
	if effect != "read" {
		b.Append(runtest.CallBegun(ref, 1))
		fence = b.State().Sequence
	}
	b.Append(runtest.CallDone(ref, fence, result))
	return g
}

func TestWhatChanges(t *testing.T) {
	t.Parallel()
	inputs := map[string]struct{ tool, effect, form string }{
		"a counter in a command":      {"bash", "once", `{"command":"make # %d"}`},
		"a counter in a read":         {"fetch", "read", `{"page":"x","n":%d}`},
		"a counter that is named one": {"mcp__queue__poll", "once", `{"queue":"q","attempt":%d}`},
		"a time":                      {"mcp__queue__poll", "once", `{"queue":"q","now":"2026-11-22T18:%02d:00Z"}`},
		"seconds since 1970":          {"mcp__queue__poll", "once", `{"queue":"q","since":17000000%02d}`},
		"a random id":                 {"mcp__queue__poll", "idempotent", `{"queue":"q","id":"0b5c1f2e-0000-4000-8000-0000000000%02d"}`},
		"a temporary file":            {"bash", "once", `{"command":"make > /tmp/out.4711%02d; tail -1 /tmp/out.4711%[1]02d"}`},
		"a name of mktemp":            {"mcp__x__y", "once", `{"file":"tmp.aB3xQ%02dz"}`},
	}
	for name, c := range inputs {
		t.Run("LOOP-5 PLUS-4 "+name+" does not hide a circle: a note after three, a person after six, the end after nine", func(t *testing.T) {
			t.Parallel()
			b := history(events.DoomLoop{})
			for i := 1; i <= 10; i++ {
				want := map[int]loop.Grade{3: loop.Nudge, 6: loop.Gate, 7: loop.Gate, 8: loop.Gate, 9: loop.End, 10: loop.End}[i]
				result := fmt.Sprintf("still pending, asked at 18:%02d:01 in %d.5s", i, i)
				if g := does(b, "a", c.tool, c.effect, fmt.Sprintf(c.form, i), result); g != want {
					t.Errorf("call %d: got grade %d, want %d", i, g, want)
				}
				if got := loop.Look(b.State(), "a"); got.Grade != want || want != loop.None && (got.Kind != loop.SameResult || got.Times != i || got.String() == "") {
					t.Errorf("after call %d: got %+v, want grade %d", i, got, want)
				}
			}
		})
	}
	t.Run("PLUS-4 calls that alternate with a counter in them are found", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		var nudge, end int
		for i := 1; end == 0 && i < 100; i++ {
			switch does(b, "a", "bash", "once", fmt.Sprintf(`{"command":"%s # %d"}`, []string{"make", "make test"}[i%2], i), fmt.Sprint("no news of ", i%2)) {
			case loop.Nudge:
				nudge = i
			case loop.End:
				end = i
			}
		}
		if nudge != 6 || end != 18 {
			t.Errorf("a note before call %d, the end at %d", nudge, end)
		}
	})
	t.Run("PLUS-4 the same error is found also where it tells the time and the arguments change", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		for i := 1; i <= 7; i++ {
			id := ask(b, "bash", fmt.Sprintf(`{"command":"try %c"}`, 'a'+i))
			ends(b, id, "bash", fmt.Sprintf("2026-11-22 18:%02d:00 no compiler (0.%d3s)", i, i), false)
		}
		if c := loop.Look(b.State(), "a"); c.Kind != loop.SameError || c.Grade != loop.End {
			t.Errorf("%+v", c)
		}
	})
}

func TestRefusedRepetition(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-6 that a call was refused as a repetition is no other result", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{Action: events.DoomFail})
		for range 3 {
			lap(b, "read", `{}`)
		}
		id := ask(b, "read", `{}`)
		no := runtest.CallNo(runtest.Ref("a", id, "read"))
		no.Code = events.RefusedDoomLoop
		b.Append(no)
		if c := loop.Look(b.State(), "a"); c.Grade != loop.End || c.Times != 4 {
			t.Errorf("%+v", c)
		}
	})
}

// What goes on for long and is none: each is taken forty times.
func TestProgressIsNoCircle(t *testing.T) {
	t.Parallel()
	type call struct{ tool, effect, input, result string }
	plays := map[string]func(i int) []call{
		"polling that sees progress": func(i int) []call {
			return []call{{"bash", "once", `{"command":"kubectl get job"}`, fmt.Sprintf("%d of 40 done", i)}}
		},
		"polling with a counter that sees progress": func(i int) []call {
			return []call{{"bash", "once", fmt.Sprintf(`{"command":"status # %d"}`, i), fmt.Sprintf("%d of 40 done", i)}}
		},
		"paging through a file": func(i int) []call {
			return []call{{"read", "read", fmt.Sprintf(`{"path":"x","offset":%d}`, i*100), fmt.Sprint("line ", i)}}
		},
		"tests that run again after an edit": func(i int) []call {
			return []call{{"edit", "reconcilable", fmt.Sprintf(`{"path":"x.go","old":"n = %d","new":"n = %d"}`, i, i+1), "replaced 1 occurrence(s) in x.go"},
				{"bash", "once", `{"command":"go test ./..."}`, "FAIL: got 1, want 2"}}
		},
		"files that are written one by one": func(i int) []call {
			return []call{{"write", "idempotent", fmt.Sprintf(`{"path":"f","content":"%d"}`, i), "wrote 1 bytes"}}
		},
		"commands that each act on another thing and say nothing": func(i int) []call {
			return []call{{"bash", "once", fmt.Sprintf(`{"command":"rm file%d"}`, i), ""}}
		},
		"commands whose numbers name things, and that say nothing": func(i int) []call {
			return []call{{"bash", "once", fmt.Sprintf(`{"command":"migrate %d"}`, i), "[exit status 0]"}}
		},
		"tickets that are closed one by one": func(i int) []call {
			return []call{{"mcp__tickets__close", "once", fmt.Sprintf(`{"id":%d}`, i), "ok"}}
		},
	}
	for name, play := range plays {
		t.Run("LOOP-6 PLUS-4 "+name, func(t *testing.T) {
			t.Parallel()
			b := history(events.DoomLoop{})
			for i := range 40 {
				for _, c := range play(i) {
					g := does(b, "a", c.tool, c.effect, c.input, c.result)
					if l := loop.Look(b.State(), "a"); g != loop.None || l.Grade != loop.None {
						t.Fatalf("round %d, %s: grade %d, then %+v", i, c.tool, g, l)
					}
				}
			}
		})
	}
	t.Run("LOOP-6 PLUS-4 whatever the arguments, results that differ in more than what changes are progress", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := history(events.DoomLoop{Threshold: rapid.IntRange(2, 4).Draw(t, "threshold"), Cycle: rapid.IntRange(1, 4).Draw(t, "cycle")})
			for i := range rapid.IntRange(1, 30).Draw(t, "calls") {
				input := fmt.Sprintf(`{"command":"%s %d"}`, rapid.SampledFrom([]string{"look", "check"}).Draw(t, "command"), rapid.IntRange(0, 3).Draw(t, "n"))
				does(b, "a", "bash", rapid.SampledFrom([]string{"read", "once"}).Draw(t, "effect"), input, fmt.Sprintf("item %d", i))
				if c := loop.Look(b.State(), "a"); c.Grade != loop.None {
					t.Fatalf("after call %d: %+v", i+1, c)
				}
			}
		})
	})
}

func TestWithinATurn(t *testing.T) {
	t.Parallel()
	turn := func(b *runtest.Builder, result func(i int) string, commands ...string) (refused int) {
		s := b.State()
		n := s.Turns().Len() + 1
		var asked []events.RequestedCall
		for i, c := range commands {
			asked = append(asked, runtest.Asked(n, i+1, "bash", fmt.Sprintf(`{"command":"%s"}`, c)))
		}
		d := runtest.Turn(n, "a", "", asked...)
		d.CallsKey = run.KeyOf(d.Calls)
		b.Append(d)
		for i, c := range d.Calls {
			s, ref := b.State(), runtest.Ref("a", c.ID, "bash")
			if loop.RoundsOf(s).Surplus(s.Open[c.ID]) {
				refused++
				b.Append(runtest.CallNo(ref))
				continue
			}
			b.Append(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, result(i)))
		}
		return refused
	}
	same := func(int) string { return "same" }
	t.Run("LOOP-5 LOOP-6 the same call again and again in one turn is made three times; a note, a person, the end follow turn by turn", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		for i, want := range []loop.Grade{loop.Nudge, loop.Gate, loop.End} {
			if refused := turn(b, same, "make", "make", "make", "make", "make"); refused != 2 {
				t.Errorf("turn %d: %d of 5 calls refused", i+1, refused)
			}
			if c := loop.Look(b.State(), "a"); c.Grade != want || c.Kind != loop.SameCall || c.Times != 5*(i+1) {
				t.Errorf("turn %d: %+v", i+1, c)
			}
		}
	})
	t.Run("PLUS-4 calls that alternate in one turn are found", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		turn(b, same, "make", "test", "make", "test", "make", "test")
		if c := loop.Look(b.State(), "a"); c.Grade != loop.Nudge {
			t.Errorf("%+v", c)
		}
	})
	t.Run("LOOP-6 different calls of one turn, some of them twice, and the same with other results are none", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{})
		if n := turn(b, same, "status", "edit a", "status", "edit b", "status"); n != 0 || loop.Look(b.State(), "a").Grade != loop.None {
			t.Errorf("%d refused, %+v", n, loop.Look(b.State(), "a"))
		}
		if n := turn(b, func(i int) string { return fmt.Sprint("dice ", i) }, "roll", "roll", "roll"); n != 0 || loop.Look(b.State(), "a").Grade != loop.None {
			t.Errorf("%d refused, %+v", n, loop.Look(b.State(), "a"))
		}
	})
	t.Run("LOOP-2 with action warn nothing is refused", func(t *testing.T) {
		t.Parallel()
		b := history(events.DoomLoop{Action: events.DoomWarn})
		if n := turn(b, same, "make", "make", "make", "make", "make"); n != 0 || loop.Look(b.State(), "a").Grade != loop.Nudge {
			t.Errorf("%d refused, %+v", n, loop.Look(b.State(), "a"))
		}
	})
}

// chain is a run whose steps follow each other, each of the agent "worker".
func chain(n int) *runtest.Builder {
	b := runtest.New("main", "r1")
	var steps []events.PlanStep
	for i := range n {
		if i == 0 {
			steps = append(steps, runtest.Step("s0"))
			continue
		}
		steps = append(steps, runtest.Step(fmt.Sprint("s", i), fmt.Sprint("s", i-1)))
	}
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(steps...))
	return b
}

func TestAcrossSteps(t *testing.T) {
	t.Parallel()
	walk := func(effect string) (grades []loop.Grade) {
		b := chain(10)
		for i := range 10 {
			step := fmt.Sprint("s", i)
			b.Append(runtest.Ready(step), runtest.Allowed(step))
			grades = append(grades, does(b, step, "bash", effect, `{"command":"make deploy"}`, "nothing to deploy"))
			st := b.State()
			b.Append(runtest.Turn(st.Turns().Len()+1, step, "done"), runtest.StepDone(step, "done"))
		}
		return grades
	}
	t.Run("LOOP-5 PLUS-4 the same call with the same result in step after step is found over the whole run", func(t *testing.T) {
		t.Parallel()
		want := []loop.Grade{0, 0, loop.Nudge, 0, 0, loop.Gate, loop.Gate, loop.Gate, loop.End, loop.End}
		if got := walk("once"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("LOOP-6 what each step reads for itself is none", func(t *testing.T) {
		t.Parallel()
		if got := walk("read"); fmt.Sprint(got) != fmt.Sprint(make([]loop.Grade, 10)) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("LOOP-6 steps that run side by side tell nothing of each other", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		var steps []events.PlanStep
		for i := range 6 {
			steps = append(steps, runtest.Step(fmt.Sprint("s", i)))
		}
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(steps...))
		for i := range 6 {
			b.Append(runtest.Ready(fmt.Sprint("s", i)), runtest.Allowed(fmt.Sprint("s", i)))
		}
		for i := range 6 {
			if g := does(b, fmt.Sprint("s", i), "bash", "once", `{"command":"make"}`, "up to date"); g != loop.None {
				t.Errorf("step %d: grade %d", i, g)
			}
		}
	})
}
