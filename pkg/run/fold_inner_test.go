package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// programmed is a run whose call c1-1 is carried out by a program that was given its work.
func programmed() *runtest.Builder {
	b := runtest.New("main", "r1")
	ref := runtest.Ref("a", "c1-1", events.ToolRuntime)
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "a program works", runtest.Asked(1, 1, events.ToolRuntime, `{"prompt":"work"}`)),
		runtest.CallYes(ref, "reconcilable"), runtest.CallBegun(ref, 1))
	b.Append(runtest.Progressed(b.State().Open["c1-1"], "s"))
	return b
}

func TestInner(t *testing.T) {
	t.Parallel()
	outer := runtest.Ref("a", "c1-1", events.ToolRuntime)
	ref := runtest.InnerRef("a", "c1-1-1", "bash", "c1-1")
	open := func(b *runtest.Builder) *run.Call { return b.State().Open["c1-1"] }
	t.Run("PLUS-12a what a program does inside is counted, recorded, and no result that the model owes a turn for", func(t *testing.T) {
		t.Parallel()
		b := programmed()
		b.Append(runtest.Requested(open(b), "bash", `{"command":"make"}`), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		b.Append(runtest.InnerDone(b.State().Open[ref.Call], "ok"))
		s := b.State()
		if s.Step("a").Owed != 0 || s.TotalToolCalls != 1 || s.CallsHeld != 1 || s.ToolCallHistory.At(0).Parent != "c1-1" {
			t.Errorf("%+v", s)
		}
		if got := run.InnerID(open(b)); got != "c1-1-2" {
			t.Errorf("the next one is %s", got)
		}
		b.Append(runtest.CallDone(outer, open(b).Fence, "done"))
		if s = b.State(); s.Step("a").Owed == 0 || s.TotalToolCalls != 2 {
			t.Errorf("%+v", s.Step("a"))
		}
	})
	t.Run("PLUS-12c the transcript of a session is that which was stored last, and of no other session", func(t *testing.T) {
		t.Parallel()
		b := programmed()
		one, two := events.Ref{SHA256: strings.Repeat("1", 64)}, events.Ref{SHA256: strings.Repeat("2", 64)}
		for _, ref := range []events.Ref{one, two} {
			d := runtest.Progressed(open(b), "s")
			d.Transcript = &ref
			b.Append(d)
		}
		b.Append(runtest.CallBegun(outer, 2))
		b.Append(runtest.Progressed(open(b), "s"))
		if p := open(b).Program; p.Transcript == nil || p.Transcript.SHA256 != two.SHA256 {
			t.Errorf("%+v", p)
		}
		b.Append(runtest.Progressed(open(b), "other"))
		if p := open(b).Program; p.Transcript != nil {
			t.Errorf("%+v", p)
		}
	})
	t.Run("SAFE-2 PLUS-12a the fold refuses what does not follow", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]func(b *runtest.Builder) events.Payload{
			"under the fence": func(b *runtest.Builder) events.Payload {
				p := *open(b)
				p.Fence--
				return runtest.Requested(&p, "bash", `{}`)
			},
			"is no tool of a program": func(b *runtest.Builder) events.Payload {
				return runtest.Requested(open(b), "delegate", `{}`)
			},
			"does not follow": func(b *runtest.Builder) events.Payload {
				p := *open(b)
				p.Inner++
				return runtest.Requested(&p, "bash", `{}`)
			},
			"inside of c1-1 is open": func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`))
				return runtest.CallDone(outer, open(b).Fence, "done")
			},
			"c1-1-1 inside of c1-1 is open": func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`))
				return runtest.CallBegun(outer, 2)
			},
			"is not made again": func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
				return runtest.CallBegun(ref, 2)
			},
			"its result is reported": func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
				d := runtest.InnerDone(b.State().Open[ref.Call], "ok")
				d.Reported = false
				return d
			},
			"c1-1-1 is allowed": func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`), runtest.CallYes(ref, "once"))
				return runtest.InnerDone(b.State().Open[ref.Call], "ok")
			},
			`inside of "c1-1", not of ""`: func(b *runtest.Builder) events.Payload {
				b.Append(runtest.Requested(open(b), "bash", `{}`))
				return runtest.CallYes(runtest.Ref("a", ref.Call, "bash"), "once")
			},
		} {
			b := programmed()
			p := c(b)
			if _, err := b.State().Apply(b.Bad(p, func(*events.Event) {})); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", want, err)
			}
		}
	})
}
