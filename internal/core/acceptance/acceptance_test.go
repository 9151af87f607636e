package acceptance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var (
	noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	tree = strings.Repeat("ab", 32)
)

// claimed is a run whose step a is claimed to be done; two checks decide, at most two times.
func claimed(t *testing.T) *runtest.Builder {
	t.Helper()
	b := runtest.New("main", "r1")
	b.Append(runtest.CheckedCreated(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	done(t, b)
	return b
}

func done(t *testing.T, b *runtest.Builder) {
	t.Helper()
	d := turn.Next(b.State(), "a", noon)
	if d.Ask == nil {
		t.Fatalf("no turn is owed: %+v", d)
	}
	say := turn.Finish(b.State(), *d.Ask, turn.Answer{Data: events.TurnFinishedData{Text: "done", FinishReason: events.FinishDone}})
	if len(say) != 2 || say[1].Kind() != events.StepClaimed {
		t.Fatalf("a last turn ends with %v", say)
	}
	b.Append(say[0])
	rest := turn.Next(b.State(), "a", noon).Append // as if the executor had crashed in between
	if len(rest) != 1 || rest[0].Kind() != events.StepClaimed {
		t.Fatalf("after a crash the step ends with %v", rest)
	}
	b.Append(rest...)
	if d := turn.Next(b.State(), "a", noon); d.Ask != nil || len(d.Append) > 0 {
		t.Fatalf("while its checks are open the step is owed %+v", d)
	}
}

func due(t *testing.T, b *runtest.Builder) acceptance.Duty {
	t.Helper()
	d, ok := acceptance.Next(b.State(), "a")
	if !ok {
		t.Fatal("no check is due")
	}
	return d
}

func TestChecks(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-10 a step ends when all of its checks have passed on one tree, and the run says which", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		first := due(t, b)
		b.Append(acceptance.Finish(b.State(), first, acceptance.Evidence{Tree: tree})...)
		if again := acceptance.Finish(b.State(), first, acceptance.Evidence{Tree: tree}); len(again) != 0 {
			t.Errorf("law 1: the result of a second toolrunner is stored too: %v", again)
		}
		b.Append(acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree})...)
		rest := turn.Next(b.State(), "a", noon).Append
		if len(rest) != 1 || rest[0].Kind() != events.StepFinished {
			t.Fatalf("the step ends with %v", rest)
		}
		b.Append(rest...)
		if v, ok := acceptance.Verified(b.State(), nil); !ok || len(v) != 2 || v[0].Tree != tree || v[1].Name != "make check" {
			t.Errorf("verified by %+v", v)
		}
	})
	t.Run("PLUS-10 a run is verified only where what it delivers is what was checked", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		for range 2 {
			b.Append(acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree, GitTree: "aa"})...)
		}
		b.Append(turn.Next(b.State(), "a", noon).Append...)
		for _, c := range []struct {
			d    *events.Delivery
			want int
		}{{nil, 2}, {&events.Delivery{Commit: "c", Base: "b", Tree: "aa"}, 2}, {&events.Delivery{Commit: "b", Base: "b", Tree: "bb"}, 2},
			{&events.Delivery{Commit: "c", Base: "b", Tree: "bb"}, 0}, {&events.Delivery{Commit: "c", Base: "b"}, 0}} {
			if v, ok := acceptance.Verified(b.State(), c.d); ok != (c.want > 0) {
				t.Errorf("%+v is verified by %+v", c.d, v)
			}
		}
	})
	t.Run("PLUS-10 what a commit has must stay the same between the checks of a claim", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		b.Append(acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree, GitTree: "aa"})...)
		say := acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree, GitTree: "bb"})
		if d, ok := say[0].(*events.CheckFailedData); !ok || !strings.Contains(d.Reason, "changed") {
			t.Fatalf("%+v", say)
		}
		b.Append(say...)
	})
	t.Run("PLUS-10 a check that failed goes back to the agent with the reason, and after the last claim the step fails", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		old := due(t, b)
		b.Append(acceptance.Finish(b.State(), old, acceptance.Evidence{Tree: tree, Reason: "exit status 1", Output: "FAIL x"})...)
		s := b.State()
		if m := strings.Join(s.MessagesAfter("a", 1), ""); !strings.Contains(m, "exit status 1") || !strings.Contains(m, "FAIL x") {
			t.Errorf("the agent reads %q", m)
		}
		done(t, b)
		if late := acceptance.Finish(b.State(), old, acceptance.Evidence{Tree: tree}); len(late) != 0 {
			t.Errorf("a late result counts for a new claim: %v", late)
		}
		b.Append(acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree, Reason: "exit status 2"})...)
		rest := turn.Next(b.State(), "a", noon).Append
		if len(rest) != 1 {
			t.Fatalf("%v", rest)
		}
		if d, ok := rest[0].(*events.StepFailedData); !ok || d.RunReason != events.FinishUnverified || !strings.Contains(d.Error, "exit status 2") {
			t.Errorf("%+v", rest[0])
		}
	})
	t.Run("PLUS-10 files that changed between two checks of a claim fail the second", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		b.Append(acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: tree})...)
		say := acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{Tree: strings.Repeat("cd", 32)})
		if d, ok := say[0].(*events.CheckFailedData); !ok || !strings.Contains(d.Reason, "changed") {
			t.Fatalf("%+v", say)
		}
		b.Append(say...)
	})
	t.Run("PLUS-10 a check without a tree never passes", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		if say := acceptance.Finish(b.State(), due(t, b), acceptance.Evidence{}); say[0].Kind() != events.CheckFailed {
			t.Errorf("%+v", say)
		}
	})
	t.Run("LIFE-7 PLUS-10 nothing is due and nothing recorded once the run was stopped", func(t *testing.T) {
		t.Parallel()
		b := claimed(t)
		d := due(t, b)
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
		if say := acceptance.Finish(b.State(), d, acceptance.Evidence{Tree: tree}); len(say) != 0 {
			t.Errorf("%v", say)
		}
	})
}
