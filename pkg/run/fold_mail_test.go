package run_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestMail(t *testing.T) {
	t.Parallel()
	begin := func(c *events.RunCreatedData) *runtest.Builder {
		return grown(c, runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"))
	}
	t.Run("MSG-4 MSG-15 mail stands behind the last turn of its step, and the turn stays owed", func(t *testing.T) {
		t.Parallel()
		b := begin(runtest.WokenCreated())
		s := b.State()
		owed := s.Step("only").Owed
		b.Append(runtest.Mail("only", "m1", "m2"))
		ref := runtest.Ref("only", "c1-1", "bash")
		b.Append(runtest.Turn(1, "only", "x", runtest.Asked(1, 1, "bash", `{}`)), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		b.Append(runtest.CallDone(ref, b.State().Open["c1-1"].Fence, "ok"), runtest.Mail("only", "m3"))
		s = b.State()
		if got := fmt.Sprint(s.Messages); owed == 0 || got != "[{only 0 Mail has come. [m1 m2]} {only 1 Mail has come. [m3]}]" || !s.HasMail("m2") || s.HasMail("m4") {
			t.Errorf("owed %d, %s", owed, got)
		}
	})
	for what, p := range map[string]events.Payload{
		"a message that it has":       runtest.Mail("only", "m1"),
		"a message twice":             runtest.Mail("only", "m2", "m2"),
		"nothing":                     runtest.Mail("only"),
		"mail for a step it has not":  runtest.Mail("other", "m2"),
		"mail without a text":         &events.MailInjectedData{Step: "only", Mail: []events.InjectedMail{{ID: "m2"}}},
		"an answer that it asked not": &events.MailAnsweredData{ToolRef: runtest.Ref("only", "c1-1", events.ToolMailSend)},
	} {
		t.Run("SAFE-2 MSG-6 a run is not given "+what, func(t *testing.T) {
			t.Parallel()
			b := begin(runtest.WokenCreated())
			b.Append(runtest.Mail("only", "m1"))
			if _, err := b.Try(p); err == nil {
				t.Error("it folds")
			}
		})
	}
	t.Run("MSG-1 a message interrupts a run once, not once it was given, and not without end", func(t *testing.T) {
		t.Parallel()
		b := begin(runtest.WokenCreated())
		b.Append(runtest.Interrupting("m1"), runtest.Mail("only", "m0"))
		fails := func(id string) bool { _, err := b.Try(runtest.Interrupting(id)); return err != nil }
		if !fails("m1") || !fails("m0") || !fails("") {
			t.Error("it folds")
		}
		b.Append(runtest.Turn(1, "only", "x", runtest.Asked(1, 1, "bash", `{}`)))
		if s := b.State(); !s.WasCut("m1") || s.Cuts() != 1 || !fails("m1") {
			t.Errorf("%+v", s.AgentLoopSnapshot)
		}
		for i := range events.MaxInterrupts - 1 {
			b.Append(runtest.Interrupting(fmt.Sprintf("more-%d", i)))
		}
		if !fails("last") {
			t.Error("one too many folds")
		}
		if _, err := begin(runtest.Created()).Try(runtest.Interrupting("m1")); err == nil {
			t.Error("a run without an address is interrupted")
		}
	})
	t.Run("SAFE-2 MSG-17 a run without an address is given no mail and asks for none", func(t *testing.T) {
		t.Parallel()
		if _, err := begin(runtest.Created()).Try(runtest.Mail("only", "m1")); err == nil || !strings.Contains(err.Error(), "no agent with an address") {
			t.Errorf("%v", err)
		}
	})
	t.Run("SAFE-2 MSG-17 a call of a mail tool ends with the answer of the planner, and not without", func(t *testing.T) {
		t.Parallel()
		ref := runtest.Ref("only", "c1-1", events.ToolMailSend)
		b := begin(runtest.WokenCreated())
		b.Append(runtest.Turn(1, "only", "x", runtest.Asked(1, 1, events.ToolMailSend, `{}`)), runtest.CallYes(ref, "idempotent"), runtest.MailAsked(ref))
		fence := b.State().Open["c1-1"].Fence
		fails := func(p events.Payload) bool { _, err := b.Try(p); return err != nil }
		if !fails(runtest.CallDone(ref, fence, "sent")) || !fails(runtest.MailAsked(ref)) {
			t.Error("it folds without its answer")
		}
		b.Append(&events.MailAnsweredData{ToolRef: ref, MailAnswer: events.MailAnswer{Output: "sent", Success: true}})
		if !fails(&events.MailAnsweredData{ToolRef: ref, MailAnswer: events.MailAnswer{Output: "sent", Success: true}}) {
			t.Error("it is answered twice")
		}
		b.Append(runtest.CallDone(ref, fence, "sent"))
		if s := b.State(); len(s.Open) != 0 || s.Step("only").Owed == 0 {
			t.Errorf("%+v", s.Open)
		}
	})
}
