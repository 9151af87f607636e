package executor

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

func TestUnknownStop(t *testing.T) {
	t.Parallel()
	receive := func(t *testing.T, m *talker) (r *Role, l *runlog.Ledger) {
		t.Helper()
		r, l, s := stored(t, m, limited(0)...)
		if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.StepAllowed, Sequence: s.Sequence, Step: "a", State: s, Deliveries: 1}); err != nil {
			t.Fatal(err)
		}
		return r, l
	}
	t.Run("LOOP-4 an answer that stopped for a reason no one knows is taken as it is, with the reason in the log", func(t *testing.T) {
		t.Parallel()
		_, l := receive(t, &talker{do: func(int, llm.Sink) (llm.Answer, error) {
			return llm.Answer{Text: "all of it", Finish: "from_the_future"}, nil
		}})
		s, _, err := l.State(t.Context(), "r1")
		if err != nil || s.Step("a").Output != "all of it" || s.Turns().At(0).FinishReason != "from_the_future" {
			t.Errorf("%v %+v", err, s.Step("a"))
		}
	})
	t.Run("LOOP-4 of the calls of an answer that was cut off the last is half where its arguments had not begun, and no other", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			finish      llm.Finish
			first, last string
			half        bool
		}{{llm.Length, "{}", "{}", true}, {llm.Refusal, "{}", "", true}, {llm.Length, `{"a":1}`, " { } ", true}, {llm.Length, "null", "null", true},
			{llm.Length, "{}", `{"a":1}`, false}, {llm.Length, "{}", `"{\"a\":"`, false}, {llm.ToolUse, "{}", "{}", false}} {
			a := llm.Answer{Finish: c.finish, Calls: []llm.Call{{Input: []byte(c.first)}, {Input: []byte(c.last)}}}
			half(&a)
			if got := string(a.Calls[1].Input) == `"`+events.CutOff+`"`; got != c.half || string(a.Calls[0].Input) != c.first {
				t.Errorf("%+v: %s and %s", c, a.Calls[0].Input, a.Calls[1].Input)
			}
		}
		none := llm.Answer{Finish: llm.Length}
		if half(&none); len(none.Calls) != 0 {
			t.Error("a call appears")
		}
	})
	t.Run("LOOP-4 a crash between the answer that does not do and its fixing is made good by the next delivery", func(t *testing.T) {
		t.Parallel()
		m := &talker{do: func(n int, _ llm.Sink) (llm.Answer, error) {
			if n == 2 {
				return llm.Answer{}, &llm.Error{Class: llm.Transient, Err: events.ErrDamaged}
			}
			return llm.Answer{Text: map[bool]string{true: " ", false: "said"}[n == 1], Finish: "from_the_future"}, nil
		}}
		r, l := receive(t, m)
		s, _, err := l.State(t.Context(), "r1")
		if err != nil || s.Step("a").Owed == 0 || !s.Step("a").Mended || s.Step("a").Attempt != 1 {
			t.Fatalf("%v %+v", err, s.Step("a"))
		}
		later := s.Step("a").NotBefore
		r.cfg.Now = func() time.Time { return later }
		if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.StepAllowed, Sequence: s.Step("a").AllowedAt, Step: "a", State: s, Deliveries: 2}); err != nil {
			t.Fatal(err)
		}
		if s, _, err = l.State(t.Context(), "r1"); err != nil || s.Step("a").Output != "said" || m.asked != 3 {
			t.Errorf("%v, asked %d times: %+v", err, m.asked, s.Step("a"))
		}
	})
}
