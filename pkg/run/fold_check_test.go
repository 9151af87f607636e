package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCheckRules(t *testing.T) {
	t.Parallel()
	begin := func() *runtest.Builder {
		b := runtest.New("main", "r1")
		b.Append(runtest.CheckedCreated(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"),
			runtest.Allowed("a"), runtest.Turn(1, "a", "done"))
		return b
	}
	claimed := func() *runtest.Builder {
		b := begin()
		b.Append(runtest.Claimed(b.State(), "a"))
		return b
	}
	for name, c := range map[string]struct {
		state func() *runtest.Builder
		bad   func(b *runtest.Builder) events.Payload
		want  string
	}{
		"a step is finished without a claim":       {begin, func(*runtest.Builder) events.Payload { return runtest.StepDone("a", "x") }, "was not claimed"},
		"a step is finished while a check is open": {claimed, func(*runtest.Builder) events.Payload { return runtest.StepDone("a", "x") }, "is open"},
		"a step is finished after a failed check": {func() *runtest.Builder {
			b := claimed()
			b.Append(runtest.CheckNo(b.State(), "a", "no"), runtest.Turn(2, "a", "done"))
			return b
		}, func(*runtest.Builder) events.Payload { return runtest.StepDone("a", "x") }, "was not claimed"},
		"a claim with other checks": {begin, func(b *runtest.Builder) events.Payload {
			d := runtest.Claimed(b.State(), "a")
			d.Checks = d.Checks[:1]
			return d
		}, "not those that decide"},
		"a claim with more attempts": {begin, func(b *runtest.Builder) events.Payload {
			d := runtest.Claimed(b.State(), "a")
			d.Most++
			return d
		}, "not those that decide"},
		"a second claim of one turn": {claimed, func(b *runtest.Builder) events.Payload { return runtest.Claimed(b.State(), "a") }, "claimed already"},
		"a result of another claim": {claimed, func(b *runtest.Builder) events.Payload {
			d := runtest.CheckYes(b.State(), "a")
			d.Claim++
			return d
		}, "not the current one"},
		"a result of a later check": {claimed, func(b *runtest.Builder) events.Payload {
			d := runtest.CheckYes(b.State(), "a")
			d.Check++
			return d
		}, "is not open"},
		"a check that passed on no tree": {claimed, func(b *runtest.Builder) events.Payload {
			d := runtest.CheckYes(b.State(), "a")
			d.Tree = ""
			return d
		}, "tree"},
		"a check that no person approved": {judged(events.GateApproved, false), func(b *runtest.Builder) events.Payload { return runtest.CheckYes(b.State(), "a") }, "no person"},
		"a check that a person rejected":  {judged(events.GateRejected, true), func(b *runtest.Builder) events.Payload { return runtest.CheckYes(b.State(), "a") }, "no person"},
		"a gate of a check that is not due": {claimed, func(*runtest.Builder) events.Payload {
			g := runtest.GateAt("g-x", "a", events.CheckPlace(1, 1))
			g.Scope = events.ScopeCheck
			return g
		}, "no check of step a waits"},
		"a check that passed on another tree": {func() *runtest.Builder {
			b := claimed()
			b.Append(runtest.CheckYes(b.State(), "a"))
			return b
		}, func(b *runtest.Builder) events.Payload {
			d := runtest.CheckYes(b.State(), "a")
			d.Tree = strings.Repeat("cd", 32)
			return d
		}, "tree"},
	} {
		t.Run("PLUS-10 the fold refuses "+name, func(t *testing.T) {
			t.Parallel()
			b := c.state()
			s := b.State()
			if _, err := s.Apply(b.Bad(c.bad(b), func(*events.Event) {})); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// judged is a run whose step a waits for a person, who has answered where asked.
func judged(answer events.Kind, asked bool) func() *runtest.Builder {
	return func() *runtest.Builder {
		b := runtest.New("main", "r1")
		c := runtest.Created()
		c.Accept = &events.Accept{Checks: []events.Check{{Kind: events.CheckPerson}}}
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(1, "a", "done"))
		b.Append(runtest.Claimed(b.State(), "a"))
		b.Append(runtest.CheckYes(b.State(), "a"))
		if !asked {
			return b
		}
		g := runtest.GateAt("g-x", "a", events.CheckPlace(1, 2))
		g.Scope = events.ScopeCheck
		b.Append(g)
		a := events.GateAnswer{Event: "gate_rejected", Gate: g.Gate, Step: g.Step, Call: g.Call, Action: events.GateWasRejected, By: "anna", ProposalHash: g.ProposalHash}
		if answer == events.GateRejected {
			b.Append(&events.GateRejectedData{GateAnswer: a})
		}
		return b
	}
}
