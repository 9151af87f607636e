package gate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// policy knows the tools read (read) and bash (once); rules are built in and those given.
func law(rules ...events.Rule) Policy {
	return Policy{
		Tool: func(_ events.Agent, name string) (Tool, bool) {
			switch name {
			case "read":
				return Tool{Effect: "read", TimeoutMS: 1000}, true
			case "bash":
				return Tool{Effect: "once", TimeoutMS: 1000}, true
			}
			return Tool{}, false
		},
		Check: func(_ events.Agent, _ string, input json.RawMessage) error {
			if string(input) == `{"bad":1}` {
				return errors.New("bad: unknown argument")
			}
			return nil
		},
		Input: func(c *run.Call) (json.RawMessage, error) { return c.Input, nil },
		Rules: func(a events.Agent) (guard.Set, error) { return guard.Build(rules, a.Guards) },
		Action: func(tool string, input json.RawMessage) guard.Action {
			var in struct {
				Command string `json:"command"`
			}
			_ = json.Unmarshal(input, &in)
			a := guard.Action{Tool: tool}
			if in.Command != "" {
				a.Commands = [][]string{strings.Fields(in.Command)}
			}
			return a
		},
	}
}

// asking builds a running run whose first turn asks for calls.
func asking(budget int, calls ...events.RequestedCall) *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Options.MaxToolCalls, c.Options.Autonomy, c.By = budget, 5, "olga"
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(1, "a", "calls", calls...))
	return b
}

func look(t *testing.T, b *runtest.Builder, l Policy) []events.Payload {
	t.Helper()
	say, err := Look(b.State(), noon, l)
	if err != nil {
		t.Fatal(err)
	}
	return say
}

func TestCalls(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-1 TOOL-14 a tool outside the allowed set is refused, one inside it goes ahead", func(t *testing.T) {
		t.Parallel()
		b := asking(10, runtest.Asked(1, 1, "write", `{}`), runtest.Asked(1, 2, "read", `{"path":"x"}`))
		say := look(t, b, law())
		if len(say) != 2 || say[0].(*events.CallRefusedData).Code != events.RefusedPermission || say[1].Kind() != events.CallAllowed {
			t.Fatalf("%+v", say)
		}
		b.Append(say...)
		if again := look(t, b, law()); len(again) != 0 {
			t.Errorf("law 1: a second look said %v", again)
		}
		if s := b.State(); s.ToolCallHistory.At(0).Code != events.RefusedPermission {
			t.Errorf("GUARD-14: the refusal is not in the history: %+v", s.ToolCallHistory.At(0))
		}
	})
	t.Run("bad input: arguments that do not fit the schema are refused with what is wrong", func(t *testing.T) {
		t.Parallel()
		say := look(t, asking(10, runtest.Asked(1, 1, "bash", `{"bad":1}`)), law())
		if got := say[0].(*events.CallRefusedData); got.Code != events.RefusedInput || !strings.Contains(got.Reason, "unknown argument") || got.Hint == "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-5 GUARD-14 a guard that matches stops the call and is named", func(t *testing.T) {
		t.Parallel()
		say := look(t, asking(10, runtest.Asked(1, 1, "bash", `{"command":"git push --force origin main"}`)), law())
		if got := say[0].(*events.CallRefusedData); got.Code != events.RefusedGuard || got.Rule != "force-push" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("law 4: an error in the rules is a refusal", func(t *testing.T) {
		t.Parallel()
		l := law()
		l.Rules = func(events.Agent) (guard.Set, error) { return guard.Set{}, errors.New("broken") }
		say := look(t, asking(10, runtest.Asked(1, 1, "read", `{}`)), l)
		if got := say[0].(*events.CallRefusedData); got.Code != events.RefusedGuard {
			t.Errorf("%+v", got)
		}
	})
	t.Run("TEST-3d GATE-4 GATE-5 SAFE-9 ask becomes a gate bound to the exact action; yes lets it through", func(t *testing.T) {
		t.Parallel()
		ask := events.Rule{ID: "careful", Tool: "bash", Match: events.Match{Glob: "make *"}, Action: "ask", Reason: "costs money"}
		b := asking(10, runtest.Asked(1, 1, "bash", `{"command":"make all"}`))
		say := look(t, b, law(ask))
		g := say[0].(*events.GateOpenedData)
		if g.Event != "waiting_for_human" || g.Rule != "careful" || g.ProposalHash != digest(g.Proposal) || !strings.Contains(string(g.Proposal), "make all") {
			t.Fatalf("%+v", g)
		}
		b.Append(say...)
		if again := look(t, b, law(ask)); len(again) != 0 {
			t.Fatalf("while it waits: %v", again)
		}
		answer, err := Answer(b.State(), noon, Reply{Gate: g.Gate, Decision: "approve", By: "anna", Hash: g.ProposalHash, Input: 4})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(answer...)
		say = look(t, b, law(ask))
		if a, ok := say[0].(*events.CallAllowedData); !ok || a.Gate != g.Gate {
			t.Errorf("%+v", say)
		}
	})
	t.Run("TEST-3e GATE-6 no pauses the run, and once it resumes the agent is told that a person said no", func(t *testing.T) {
		t.Parallel()
		ask := events.Rule{ID: "careful", Tool: "bash", Action: "ask"}
		b := asking(10, runtest.Asked(1, 1, "bash", `{"command":"make all"}`))
		b.Append(look(t, b, law(ask))...)
		gate := b.State().Gates[0].ID
		answer, _ := Answer(b.State(), noon, Reply{Gate: gate, Decision: "reject", Reason: "not today", By: "anna", Input: 4})
		b.Append(answer...)
		if say := look(t, b, law(ask)); len(say) != 0 {
			t.Fatalf("before the pause: %v", say)
		}
		b.Append(runtest.Paused("gate rejected"), runtest.Resumed())
		say := look(t, b, law(ask))
		if got := say[0].(*events.CallRefusedData); got.Code != events.RefusedByPerson || got.Reason != "anna rejected it: not today" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("SAFE-7 a call whose outcome is unknown is shown to a person before it is made again", func(t *testing.T) {
		t.Parallel()
		in := `{"command":"deploy"}`
		b := asking(10, runtest.Asked(1, 1, "bash", in))
		b.Append(look(t, b, law())...)
		ref := runtest.Ref("a", "c1-1", "bash")
		b.Append(runtest.CallBegun(ref, 1))
		s := b.State()
		b.Append(runtest.CallBad(ref, s.Open["c1-1"].Fence, events.OutcomeUnknown), runtest.Turn(2, "a", "again", runtest.Asked(2, 1, "bash", in)))
		say := look(t, b, law())
		if g, ok := say[0].(*events.GateOpenedData); !ok || g.Rule != "outcome-unknown" {
			t.Errorf("%+v", say[0])
		}
	})
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	waiting := func() (*runtest.Builder, *run.Gate) {
		b := runtest.New("main", "r1")
		c := runtest.Created()
		c.Options.Autonomy = 1
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
		say, _ := Look(b.State(), noon, law())
		b.Append(say...)
		return b, b.State().Gates[0]
	}
	code := func(t *testing.T, err error, want string) {
		t.Helper()
		r, ok := errors.AsType[*Refused](err)
		if !ok || r.Code != want || r.Hint == "" {
			t.Errorf("got %v, want %s with a hint", err, want)
		}
	}
	t.Run("GATE-7 GATE-8 the first answer wins, a later one gets an error, the same one looked at again says nothing", func(t *testing.T) {
		t.Parallel()
		b, g := waiting()
		if g.ResolvedAt != nil || g.Status != run.GatePending || g.StepID != "a" || g.CreatedAt.IsZero() {
			t.Fatalf("%+v", g)
		}
		say, err := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", By: "anna", Input: 9})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		if again, err := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", By: "anna", Input: 9}); err != nil || len(again) != 0 {
			t.Errorf("second look: %v %v", again, err)
		}
		_, err = Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "reject", By: "bert", Input: 10})
		code(t, err, "gate_closed")
		if g := b.State().Gates[0]; g.Status != run.GateApproved || g.By != "anna" || g.ResolvedAt == nil {
			t.Errorf("%+v", g)
		}
	})
	t.Run("SAFE-9 an answer to another proposal is stale", func(t *testing.T) {
		t.Parallel()
		b, g := waiting()
		_, err := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", Hash: strings.Repeat("0", 64), Input: 1})
		code(t, err, "stale_answer")
	})
	t.Run("bad input: unknown gate, unknown run, neither yes nor no, run ended", func(t *testing.T) {
		t.Parallel()
		b, g := waiting()
		_, err := Answer(b.State(), noon, Reply{Gate: "g-nope", Decision: "approve", Input: 1})
		code(t, err, "unknown_gate")
		_, err = Answer(run.State{}, noon, Reply{Gate: g.ID, Decision: "approve", Input: 1})
		code(t, err, "unknown_run")
		_, err = Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "maybe", Input: 1})
		code(t, err, "bad_input")
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
		_, err = Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", Input: 1})
		code(t, err, "run_ended")
	})
	t.Run("GATE-10 GATE-6 after no and a resume the gate stands again, unless the level was raised", func(t *testing.T) {
		t.Parallel()
		b, g := waiting()
		say, _ := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "no", Reason: "wait", By: "anna", Input: 1})
		b.Append(say...)
		b.Append(runtest.Paused("gate rejected"), runtest.Resumed())
		again, _ := Look(b.State(), noon, law())
		if len(again) != 1 || again[0].Kind() != events.GateOpened || again[0].(*events.GateOpenedData).Gate == g.ID {
			t.Fatalf("%v", again)
		}
		b.Append(runtest.Adjusted(1, 5))
		if say, _ := Look(b.State(), noon, law()); len(say) != 1 || say[0].Kind() != events.StepAllowed {
			t.Errorf("%v", say)
		}
	})
}
