package planner

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/resolve"
)

// halted is a planner beside a run whose second step was rejected at its gate, and which is paused for it.
func halted(t *testing.T) (*runlog.Ledger, *Role) {
	t.Helper()
	s, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	b := runtest.New("s1", "r1")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("one"), runtest.Step("two", "one")), runtest.Ready("one"), runtest.Allowed("one"),
		runtest.Turn(1, "one", "done"), runtest.StepDone("one", "the first output"), runtest.Ready("two"), runtest.GateAt("g-two", "two", ""))
	state := b.State()
	b.Append(runtest.No(state.Gate("g-two"), "too risky"), runtest.Paused("gate rejected: too risky"))
	kerneltest.Seed(t, s.Journal(), b.Events()...)
	role, err := assemble(t, Config{Ledger: l, Timers: s.Timers()}, assembly{made: resolve.Config{Agents: anybody{}}})
	if err != nil {
		t.Fatal(err)
	}
	return l, role
}

func steer(seq uint64, body string) letter {
	return letter{events.ControlSubject("s1", "r1"), body, seq}
}

const another = `{"action":"revise","by":"anna","plan":{"steps":[{"id":"new","description":"another way","agent":"reviewer","needs":["one"]}]}}`

func stateOf(t *testing.T, l *runlog.Ledger) run.State {
	t.Helper()
	s, _, err := l.State(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRevise(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-9 a revision that is delivered again, also after the resume, is made once", func(t *testing.T) {
		t.Parallel()
		l, role := halted(t)
		var after uint64
		for i, m := range []letter{steer(7, another), steer(7, another), steer(8, `{"action":"resume"}`), steer(7, another)} {
			if err := role.Input(t.Context(), m); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			s := stateOf(t, l)
			if i == 0 {
				after = s.Sequence
			}
			if want := after + uint64(i/2); s.Sequence != want {
				t.Fatalf("after message %d the run is at %d, want %d", i, s.Sequence, want)
			}
		}
		s := stateOf(t, l)
		if s.Status != events.Running || s.Step("new").AssignedAgent != "reviewer" || s.Agents["reviewer"].Name != "reviewer" || s.Step("one").Output != "the first output" {
			t.Errorf("%s %+v", s.Status, s.Plan)
		}
	})
	t.Run("PLAN-9 LIFE-3 revise, resume and stop in any order: a revision is made before the others or refused", func(t *testing.T) {
		t.Parallel()
		bodies := map[string]string{"revise": another, "resume": `{"action":"resume"}`, "stop": `{"action":"stop"}`}
		for _, order := range [][]string{{"revise", "resume", "stop"}, {"revise", "stop", "resume"}, {"resume", "revise", "stop"},
			{"resume", "stop", "revise"}, {"stop", "revise", "resume"}, {"stop", "resume", "revise"}} {
			l, role := halted(t)
			for i, action := range order {
				err := role.Input(t.Context(), steer(uint64(7+i), bodies[action]))
				refusal, refused := errors.AsType[*kernel.Refusal](err)
				if err != nil && !refused {
					t.Fatalf("%v: %s: %v", order, action, err)
				}
				if want := action == "revise" && i > 0 || action == "resume" && order[0] == "stop" || action == "resume" && i == 2; refused != want {
					t.Errorf("%v: %s is refused: %v (%v), want %v", order, action, refused, err, want)
				}
				if refused && (refusal.Code != "bad_move" || refusal.Run != "r1" || refusal.Hint == "") {
					t.Errorf("%v: %s: %+v", order, action, refusal)
				}
			}
			s := stateOf(t, l)
			if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || (s.Step("new") != nil) != (order[0] == "revise") || s.Step("one").Status != events.StepIsCompleted {
				t.Errorf("%v: %s %+v", order, s.Status, s.Plan)
			}
		}
	})
	t.Run("PLAN-9 SAFE-2 a revision without a plan, and a plan with another action, change nothing", func(t *testing.T) {
		t.Parallel()
		l, role := halted(t)
		before := stateOf(t, l).Sequence
		for body, code := range map[string]string{`{"action":"revise"}`: "bad_plan", strings.Replace(another, "revise", "resume", 1): "bad_input",
			strings.Replace(another, `"needs"`, `"neds"`, 1): "bad_input"} {
			err := role.Input(t.Context(), steer(7, body))
			if refusal, ok := errors.AsType[*kernel.Refusal](err); !ok || refusal.Code != code {
				t.Errorf("%s: got %v, want %s", body, err, code)
			}
		}
		if after := stateOf(t, l).Sequence; after != before {
			t.Errorf("the run was at %d and is at %d", before, after)
		}
	})
}
