package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// grown is a run with these events.
func grown(payloads ...events.Payload) *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(payloads...)
	return b
}

// given is a run whose agent gave one call away.
func given(background bool) *runtest.Builder {
	ref := runtest.Ref("only", "c1-1", events.ToolDelegate)
	return grown(runtest.GivingCreated(), runtest.Started(), runtest.Plan(runtest.Step("only")),
		runtest.Ready("only"), runtest.Allowed("only"),
		runtest.Turn(1, "only", "gives", runtest.Asked(1, 1, events.ToolDelegate, `{}`)),
		runtest.CallYes(ref, "idempotent"), runtest.Given(ref, background))
}

// refuses fails unless a payload does not fold, and for the reason given.
func refuses(t *testing.T, b *runtest.Builder, p events.Payload, why string) {
	t.Helper()
	s := b.State()
	if _, err := s.Apply(b.Bad(p, func(*events.Event) {})); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: got %v, want %q", p.Kind(), err, why)
	}
}

func TestFoldDelegate(t *testing.T) {
	t.Parallel()
	ref := runtest.Ref("only", "c1-1", events.ToolDelegate)
	t.Run("SUB-3 SAFE-7 a call that was given away ends with its child alone, and as that did", func(t *testing.T) {
		t.Parallel()
		b := given(false)
		fence := b.State().Open["c1-1"].Fence
		refuses(t, b, runtest.CallDone(ref, fence, "made up"), "without its child")
		refuses(t, b, runtest.CallBad(ref, fence, "timeout"), "without its child")
		refuses(t, b, runtest.Given(ref, false), "is delegated")
		b.Append(runtest.SpawnedAt(b.State(), "only", "c1-1", events.Reserve{ToolCalls: 3}))
		refuses(t, b, runtest.CallDone(ref, fence, "made up"), "without its child")
		refuses(t, b, runtest.SpawnedAt(b.State(), "only", "c1-1", events.Reserve{ToolCalls: 3}), "has not ended")
		b.Append(runtest.ChildEndAt(b.State(), "only", "c1-1", events.ChildIsFailed, true, events.Use{Runs: 1}))
		refuses(t, b, runtest.CallDone(ref, fence, "made up"), "without its child")
		b.Append(runtest.SpawnedAt(b.State(), "only", "c1-1", events.Reserve{ToolCalls: 3}))
		b.Append(runtest.ChildEndAt(b.State(), "only", "c1-1", events.ChildIsFailed, false, events.Use{Runs: 1}))
		refuses(t, b, runtest.CallDone(ref, fence, "it worked"), "succeeds without its child")
		no := runtest.CallDone(ref, fence, "it failed")
		no.Success = false
		b.Append(no)
		if s := b.State(); len(s.Open) > 0 || s.Step("only").Owed == 0 {
			t.Errorf("%+v", s.Step("only"))
		}
	})
	t.Run("SUB-1 SAFE-2 work goes only to agents that were named, and to no tool but delegate", func(t *testing.T) {
		t.Parallel()
		b := grown(runtest.GivingCreated(), runtest.Started(), runtest.Plan(runtest.Step("only")),
			runtest.Ready("only"), runtest.Allowed("only"), runtest.Turn(1, "only", "gives", runtest.Asked(1, 1, events.ToolDelegate, `{}`),
				runtest.Asked(1, 2, "bash", `{}`)), runtest.CallYes(ref, "idempotent"), runtest.CallYes(runtest.Ref("only", "c1-2", "bash"), "once"))
		other := runtest.Given(ref, false)
		other.Delegation.Agent = "worker"
		refuses(t, b, other, "may not give work")
		refuses(t, b, runtest.Given(runtest.Ref("only", "c1-2", "bash"), false), "waits for no child")
		refuses(t, b, runtest.SpawnedAt(b.State(), "only", "c1-1", events.Reserve{ToolCalls: 1}), "waits for a child")
	})
	t.Run("SUB-8 a child in the background is wanted until its step calls itself done", func(t *testing.T) {
		t.Parallel()
		b := given(true)
		b.Append(runtest.SpawnedAt(b.State(), "only", "c1-1", events.Reserve{ToolCalls: 3}))
		b.Append(runtest.CallDone(ref, b.State().Open["c1-1"].Fence, "child"))
		s := b.State()
		if !s.Wanted(s.Children[0]) || len(s.Beside("only")) != 1 {
			t.Error("it is not wanted while its step goes on")
		}
		b.Append(runtest.Turn(2, "only", "done"))
		if s = b.State(); s.Wanted(s.Children[0]) {
			t.Error("it is wanted although its step is done")
		}
	})
	t.Run("PLUS-10 a review passes with the verdict of its own reviewer alone", func(t *testing.T) {
		t.Parallel()
		claimed := func() *runtest.Builder {
			b := grown(runtest.ReviewedCreated(), runtest.Started(), runtest.Plan(runtest.Step("only")),
				runtest.Ready("only"), runtest.Allowed("only"), runtest.Turn(1, "only", `{"verdict":"pass","reasons":[]}`))
			b.Append(runtest.Claimed(b.State(), "only"))
			b.Append(runtest.CheckYes(b.State(), "only")) // the files
			return b
		}
		b := claimed()
		place := events.CheckPlace(1, 2)
		refuses(t, b, runtest.CheckYes(b.State(), "only"), "no reviewer has passed it")
		b.Append(runtest.SpawnedAt(b.State(), "only", place, events.Reserve{ToolCalls: 3}))
		refuses(t, b, runtest.CheckYes(b.State(), "only"), "no reviewer has passed it")
		for _, output := range []string{`{"verdict":"fail","reasons":["no"]}`, `pass`, `{"verdict":"fail","verdict":"pass","reasons":[]}`,
			`{"verdict":"pass"}`, `{"verdict":"pass","reasons":[],"more":1}`, `{"verdict":"pass","reasons":[]} {}`} {
			b := claimed()
			b.Append(runtest.SpawnedAt(b.State(), "only", place, events.Reserve{ToolCalls: 3}))
			end := runtest.ChildEndAt(b.State(), "only", place, events.ChildIsCompleted, false, events.Use{Runs: 1})
			end.Output = output
			b.Append(end)
			refuses(t, b, runtest.CheckYes(b.State(), "only"), "no reviewer has passed it")
		}
		b.Append(runtest.ChildEndAt(b.State(), "only", place, events.ChildIsCompleted, false, events.Use{Runs: 1}))
		other := runtest.CheckYes(b.State(), "only")
		other.Child = "child_other"
		refuses(t, b, other, "no reviewer has passed it")
		b.Append(runtest.CheckYes(b.State(), "only"))
		if s := b.State(); s.Step("only").Claimed().Open() {
			t.Errorf("%+v", s.Step("only").Claim)
		}
	})
}
