package run_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// fork says all of a fork of a state and returns the builder of the new run.
func fork(t interface {
	Helper()
	Fatal(...any)
}, old run.State, say string, fresh bool) *runtest.Builder {
	t.Helper()
	start, err := run.Fork(old, say, fresh)
	if err != nil {
		t.Fatal(err)
	}
	from, parts, err := run.ForkParts(old, start)
	if err != nil {
		t.Fatal(err)
	}
	b, c := runtest.New("demo", "new"), runtest.Created()
	c.ForkOf = &from
	b.Append(c)
	for _, p := range parts {
		b.Append(p)
	}
	b.Append(runtest.Started())
	return b
}

func TestFork(t *testing.T) {
	t.Parallel()
	middle := func() *runtest.Builder {
		b := runtest.New("demo", "old")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "three", runtest.Asked(1, 1, "read", `{"path":"x"}`), runtest.Asked(1, 2, "bash", `{"command":"make"}`), runtest.Asked(1, 3, "bash", `{"command":"ship"}`)))
		b.Append(runtest.CallYes(runtest.Ref("a", "c1-1", "read"), "read"), runtest.CallDone(runtest.Ref("a", "c1-1", "read"), 0, "text"))
		b.Append(runtest.CallYes(runtest.Ref("a", "c1-2", "bash"), "once"), runtest.CallBegun(runtest.Ref("a", "c1-2", "bash"), 1), runtest.GateAt("g1", "a", "c1-3"))
		return b
	}
	t.Run("PLUS-1 ART-9 a fork of a run that has artifacts is not told that none of its files are there: those are brought", func(t *testing.T) {
		t.Parallel()
		b := middle()
		ref := runtest.Ref("a", "c1-2", "bash")
		kept := events.Artifact{ID: "art-1", Run: "old", Path: "x.md", Name: "x.md", Key: "runs/old/output/x.md", Kept: events.StoredInBucket}
		fence := b.State().Open["c1-2"].Fence
		b.Append(&events.ArtifactSavedData{Event: "artifact_saved", ToolRef: ref, Fence: fence, Artifacts: []events.Artifact{kept}})
		log := events.Artifact{ID: "art-2", Run: "old", Name: "c1-2.log", Key: "runs/old/logs/c1-2.log", Kept: events.StoredWithLog, SHA256: strings.Repeat("0", 64), Size: 9}
		b.Append(&events.ArtifactSavedData{Event: "artifact_saved", ToolRef: ref, Fence: fence, Artifacts: []events.Artifact{log}})
		start, err := run.Fork(b.State(), "", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, parts, err := run.ForkParts(b.State(), start); err != nil || len(parts[0].Refs) != 1 || parts[0].Refs[0] != log.Ref() {
			t.Errorf("a log of it is not among what its events need: %v, %v", parts[0].Refs, err)
		}
		s := fork(t, b.State(), "", true).State()
		texts := s.MessagesAfter("a", 1)
		if len(texts) != 1 || strings.Contains(texts[0], "are not in it") || !strings.Contains(texts[0], "kept as artifacts") || s.Artifacts.Len() != 2 {
			t.Errorf("%q", texts)
		}
	})
	t.Run("PLUS-1 SAFE-7 what was under way is not taken over: begun is unknown, not begun is interrupted, gates stand again", func(t *testing.T) {
		t.Parallel()
		s := fork(t, middle().State(), "", false).State()
		if len(s.Open) != 0 || s.CallsHeld != 0 || len(s.Gates) != 0 || s.ToolCallHistory.Len() != 3 || s.Status != events.Running || s.HarnessID != "new" || s.Sequence != 3 {
			t.Fatalf("%+v", s)
		}
		if r := s.ToolCallHistory.At(1); r.ID != "c1-2" || r.Code != events.OutcomeUnknown || len(s.Unknown) != 1 {
			t.Errorf("begun: %+v, %v", r, s.Unknown)
		}
		if r := s.ToolCallHistory.At(2); r.ID != "c1-3" || r.Code != run.CodeInterrupted || s.TotalToolCalls != 2 {
			t.Errorf("not begun: %+v, %d calls", r, s.TotalToolCalls)
		}
		if st := s.Step("a"); st.Status != events.StepIsPending || st.Turns != 1 || st.Owed != 0 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("PLUS-1 a message takes up the step that worked, also one that had ended, and frees what it blocked", func(t *testing.T) {
		t.Parallel()
		b := middle()
		b.Append(runtest.StepBad("a", "it broke"), runtest.Failed(b.State(), events.FinishStep, "step failed"))
		if _, err := run.Fork(b.State(), "", false); !errors.Is(err, run.ErrForkEnded) {
			t.Errorf("an ended run without a word: %v", err)
		}
		s := fork(t, b.State(), "fix it", true).State()
		if s.Step("a").Status != events.StepIsPending || s.Step("b").Status != events.StepIsPending || s.Step("a").Error != "" {
			t.Errorf("%+v %+v", s.Step("a"), s.Step("b"))
		}
		if said := s.MessagesAfter("a", 1); len(said) != 1 || said[0] != "fix it" {
			t.Errorf("%q", said)
		}
		said := fork(t, middle().State(), "fix it", true).State()
		if texts := said.MessagesAfter("a", 1); len(texts) != 2 || !strings.Contains(texts[0], "new, empty directory") || texts[1] != "fix it" {
			t.Errorf("%q", texts)
		}
		early := runtest.New("demo", "old")
		early.Append(runtest.Created(), runtest.Started())
		if _, err := run.Fork(early.State(), "hello", false); !errors.Is(err, run.ErrForkUnplanned) {
			t.Errorf("without a plan: %v", err)
		}
	})
	t.Run("PLUS-1 SAFE-2 a start that lacks a part, was changed or comes twice is refused", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "new")
		b.Append(runtest.ForkCreated())
		b.Append(runtest.ForkPart(0))
		if _, err := b.Try(runtest.ForkPart(0)); err == nil {
			t.Error("a part came twice")
		}
		last := *runtest.ForkPart(len(b.State().ForkStart))
		last.Data = strings.Replace(last.Data, "a", "b", 1)
		if _, err := b.Try(&last); err == nil || !strings.Contains(err.Error(), "start_hash") {
			t.Errorf("a changed part: %v", err)
		}
		b.Append(runtest.ForkPart(len(b.State().ForkStart)), runtest.Started())
		plain := runtest.New("demo", "plain")
		plain.Append(runtest.Created())
		if _, err := plain.Try(runtest.ForkPart(0)); err == nil {
			t.Error("a run that is no fork took over a state")
		}
	})
	t.Run("PLUS-1 LIFE-2 a fork without all of its state can start only to end", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "new")
		b.Append(runtest.ForkCreated(), runtest.ForkPart(0), runtest.Started())
		for _, p := range []events.Payload{runtest.ForkPart(len(b.State().ForkStart)), runtest.ForkPart(0), runtest.Plan(runtest.Step("a")), runtest.Ready("a")} {
			if _, err := b.Try(p); err == nil {
				t.Errorf("%T was accepted", p)
			}
		}
		b.Append(runtest.Failed(b.State(), events.FinishCancelled, "torn"))
	})
	t.Run("PLUS-1a any run can be forked at any event; the fork is sound, keeps what was done, and is the same each time", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("demo", "old")
			for range rapid.IntRange(1, 60).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Append(rapid.SampledFrom(moves).Draw(t, "move"))
			}
			say := rapid.SampledFrom([]string{"", "go on"}).Draw(t, "say")
			old := b.State()
			start, err := run.Fork(old, say, true)
			if errors.Is(err, run.ErrForkEnded) || errors.Is(err, run.ErrForkUnplanned) {
				return
			}
			again, _ := run.Fork(old, say, true)
			if err != nil || !reflect.DeepEqual(start, again) {
				t.Fatalf("%v, or not the same", err)
			}
			if !reflect.DeepEqual(old, b.State()) {
				t.Fatal("the old state was written to")
			}
			n := fork(t, old, say, true)
			s := n.State()
			if fault := s.Broken(); fault != "" {
				t.Fatal(fault)
			}
			if s.Turns().Len() != old.Turns().Len() || s.ToolCallHistory.Len() != old.ToolCallHistory.Len()+len(old.Open) || s.BudgetLeft() < old.BudgetLeft() {
				t.Fatalf("%d turns of %d, %d calls of %d", s.Turns().Len(), old.Turns().Len(), s.ToolCallHistory.Len(), old.ToolCallHistory.Len())
			}
			for range 20 {
				moves := runtest.Moves(n.State())
				if len(moves) == 0 {
					break
				}
				n.Append(rapid.SampledFrom(moves).Draw(t, "next"))
				if s := n.State(); s.Broken() != "" {
					t.Fatal(s.Broken())
				}
			}
		})
	})
}
