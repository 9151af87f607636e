package patrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/patrol"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

var at = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

// working is a run that took a turn at a time.
func working(tune func(*run.State)) run.State {
	began := at
	s := run.State{HarnessID: "r1", Status: events.Running, StartedAt: &began,
		Plan: &run.Plan{Steps: []*run.Step{{ID: "a", Status: events.StepIsRunning, Owed: 7}}}}
	s.Sequence, s.UpdatedAt, s.CreatedAt = 9, at, at
	s.AgentLoopSnapshot = &run.Loop{Turns: run.Append(run.List[run.Turn]{}, run.Turn{Number: 1, Step: "a", Text: "I look."})}
	tune(&s)
	return s
}

func TestLook(t *testing.T) {
	t.Parallel()
	call := func(s *run.State) {
		s.Open = map[string]*run.Call{"c1": {RequestedCall: events.RequestedCall{ID: "c1", Tool: "bash"},
			Phase: run.CallStarted, StartedAt: at}}
	}
	for _, c := range []struct {
		what   string
		tune   func(*run.State)
		signal string
		after  time.Duration
	}{
		{"that owes its next turn", func(*run.State) {}, patrol.Silent, patrol.SilentAfter},
		{"that never took a turn", func(s *run.State) { s.AgentLoopSnapshot = nil }, patrol.NoAnswer, patrol.NoAnswerAfter},
		{"whose call is under way", call, patrol.LongCall, patrol.LongCallAfter},
		{"that is paused", func(s *run.State) { s.Status = events.Paused }, patrol.Waits, patrol.WaitsAfter},
		{"whose provider does not answer", func(s *run.State) {
			s.Plan.Steps[0].Outage = &run.Outage{Provider: "p",
				Since: at}
		}, patrol.Outage, patrol.OutageAfter},
	} {
		t.Run("a run "+c.what+" is found "+c.signal+" at its threshold, and not before", func(t *testing.T) {
			t.Parallel()
			s := working(c.tune)
			if got := patrol.Look(s, at.Add(c.after-1), events.RoleHealth{}); got.Signal != "" {
				t.Errorf("before: %+v", got)
			}
			got := patrol.Look(s, at.Add(c.after), events.RoleHealth{})
			if got.Signal != c.signal || got.Severity == "" || !got.Since.Equal(at) || !strings.Contains(got.Text, "r1") {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("no false alarm: a call that says nothing for 20 minutes and lives is not stuck", func(t *testing.T) {
		t.Parallel()
		if got := patrol.Look(working(call), at.Add(20*time.Minute), events.RoleHealth{}); got.Signal != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a run that has ended, or does not exist, is no one's fault", func(t *testing.T) {
		t.Parallel()
		if got := patrol.Look(working(func(s *run.State) { s.Status = events.Failed }),
			at.Add(99*time.Hour), events.RoleHealth{}); got.Signal != "" {
			t.Errorf("got %+v", got)
		}
		if got := patrol.Look(run.State{}, at, events.RoleHealth{}); got.Signal != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("CONT-12b PRMT-3 an account has the last words, the plan, the branch, the work and what was given",
		func(t *testing.T) {
			t.Parallel()
			a := patrol.AccountOf(working(func(s *run.State) {
				s.Created = &events.RunCreatedData{WorkID: "w-1", Git: &events.GitWork{NewBranch: "agent/x", WorkingBranch: "main"}}
				s.Plan.Steps = append(s.Plan.Steps, &run.Step{ID: "b", Status: events.StepIsPending, Description: "then\n this"})
				s.Messages = []run.Message{{Step: "a", Text: "Mail has come"}}
			}))
			if a.Summary != "I look." || a.Branch != "agent/x" || a.Work != "w-1" || a.Task != "Mail has come" || strings.Join(a.Plan, ";") != "a (running): ;b (pending): then this" {
				t.Errorf("%+v", a)
			}
		})
}

func TestLookIdle(t *testing.T) {
	t.Parallel()
	left := func(n int) *events.Uncommitted { return &events.Uncommitted{Paths: n, Branch: "agent/nux"} }
	t.Run("an idle agent whose directory has changes that are in no commit is found at its threshold, and not before", func(t *testing.T) {
		t.Parallel()
		if got := patrol.LookIdle(left(2), at, at.Add(patrol.DirtyAfter-1)); got.Signal != "" {
			t.Errorf("before: %+v", got)
		}
		got := patrol.LookIdle(left(2), at, at.Add(patrol.DirtyAfter))
		if got.Signal != patrol.Dirty || got.Severity != events.SeverityLow || !got.Since.Equal(at) ||
			!strings.Contains(got.Text, "2 files") || !strings.Contains(got.Text, "agent/nux") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("no false alarm: a directory that is clean, or of which nothing is known, is no one's fault", func(t *testing.T) {
		t.Parallel()
		for _, u := range []*events.Uncommitted{nil, left(0)} {
			if got := patrol.LookIdle(u, at, at.Add(99*time.Hour)); got.Signal != "" {
				t.Errorf("%+v: got %+v", u, got)
			}
		}
	})
	t.Run("the last call that says what the working tree has counts: a commit after a change leaves nothing", func(t *testing.T) {
		t.Parallel()
		s := working(func(*run.State) {})
		if u := patrol.Left(s); u != nil {
			t.Errorf("got %+v", u)
		}
		for _, c := range []run.CallRecord{{ID: "1", Uncommitted: left(3)}, {ID: "2", Uncommitted: left(0)}, {ID: "3"}} {
			s.ToolCallHistory = run.Append(s.ToolCallHistory, c)
		}
		if u := patrol.Left(s); u == nil || u.Paths != 0 {
			t.Errorf("got %+v", u)
		}
	})
}
