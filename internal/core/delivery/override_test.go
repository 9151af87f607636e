package delivery_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// asking is a step with git settings of its own.
func asking(g events.GitSettings, id string, needs ...string) events.PlanStep {
	st := runtest.Step(id, needs...)
	st.Git = &g
	return st
}

func statusOf(b *runtest.Builder, step string) events.StepStatus {
	s := b.State()
	return s.Step(step).Status
}

func TestStepSettings(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	commits := events.GitSettings{AutoCommit: &yes}
	t.Run("GIT-13 GATE-13 a step has the settings that can be for one step, and each other is refused by its name", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			want  string
			file  *events.GitSettings
			git   *events.GitWork
			steps []events.PlanStep
		}{
			{"", nil, nil, []events.PlanStep{runtest.Step("a")}},
			{"", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{}, "a"), runtest.Step("git-commit-1")}},
			{"", nil, &events.GitWork{}, []events.PlanStep{runtest.Step("z", "b"), asking(commits, "b", "a"), runtest.Step("a")}},
			{"", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{RequireApproval: &yes}, "a"), runtest.Step("b")}},
			{"", &events.GitSettings{RequireApproval: &no}, &events.GitWork{RequireApproval: true}, []events.PlanStep{asking(events.GitSettings{RequireApproval: &no}, "a")}},
			{"does not work in git", nil, nil, []events.PlanStep{asking(commits, "a")}},
			{"git-commit-", nil, &events.GitWork{}, []events.PlanStep{asking(commits, "a"), runtest.Step("git-commit-1", "a")}},
			{`step "c" may work at the same time`, nil, &events.GitWork{}, []events.PlanStep{runtest.Step("a"), asking(commits, "b", "a"), runtest.Step("c", "a")}},
			{"require_approval", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{RequireApproval: &no}, "a")}},
			{"require_approval", &events.GitSettings{}, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{RequireApproval: &no}, "a")}},
			{"auto_commit", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{AutoCommit: &no}, "a")}},
			{"auto_branch", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{AutoBranch: &no}, "a")}},
			{"branch_prefix", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{BranchPrefix: "x/"}, "a")}},
			{"working_branch", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{WorkingBranch: "x"}, "a")}},
			{"workflow_branch_strategy", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{Strategy: events.BranchShared}, "a")}},
			{"collaboration", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{Collaboration: events.Parallel}, "a")}},
			{"push", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{Push: &yes}, "a")}},
			{"workspace", nil, &events.GitWork{}, []events.PlanStep{asking(events.GitSettings{Workspace: events.WorkspaceEphemeral}, "a")}},
		} {
			created := &events.RunCreatedData{Agent: "worker", Git: c.git, Agents: map[string]events.Agent{"worker": {Name: "worker", Git: c.file}}}
			err := delivery.CheckSteps(created, c.steps)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	})
	t.Run("GIT-13 the commit of a step comes before the steps that depend on it, and the end of the run after both", func(t *testing.T) {
		t.Parallel()
		made := delivery.Wrap(&events.GitWork{}, runtest.Plan(asking(commits, "a"), runtest.Step("b", "a")))
		want := map[string][]string{events.CheckoutStep: {}, "a": {events.CheckoutStep}, "git-commit-1": {events.CheckoutStep, "a"}, "b": {"git-commit-1"},
			events.DeliverStep: {events.CheckoutStep, "git-commit-1", "b"}}
		for _, st := range made.Steps {
			if !slices.Equal(st.Dependencies, want[st.ID]) {
				t.Errorf("%s depends on %v, want %v", st.ID, st.Dependencies, want[st.ID])
			}
		}
		if len(made.Steps) != len(want) {
			t.Errorf("%d steps, want %d", len(made.Steps), len(want))
		}
	})
	t.Run("GIT-13 SAFE-7 a commit that fails ends its step, blocks those behind it, and nothing is pushed", func(t *testing.T) {
		t.Parallel()
		b := inGit(events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential, Push: true}, asking(commits, "a"), runtest.Step("b", "a"))
		checkedOut(b, "agent/x")
		begin(b, "a")
		b.Append(runtest.Turn(b.State().AgentLoopSnapshot.Turns.Len()+1, "a", "done"), runtest.StepDone("a", "out"))
		begin(b, "git-commit-1")
		for _, tool := range []string{events.GitPrepare, events.GitCommit} {
			c, done := owed(b, "git-commit-1")
			if done || c.Tool != tool {
				t.Fatalf("asked for %q, want %s", c.Tool, tool)
			}
			answer(b, "git-commit-1", c, `{"branch":"agent/x","commit":"`+one+`"}`, tool == events.GitPrepare)
		}
		if c, done := owed(b, "git-commit-1"); !done {
			t.Fatalf("asked for %s", c.Tool)
		}
		if statusOf(b, "git-commit-1") != events.StepIsFailed || statusOf(b, "b") != events.StepIsBlocked {
			t.Fatalf("the commit is %s, the step behind it %s", statusOf(b, "git-commit-1"), statusOf(b, "b"))
		}
		begin(b, events.DeliverStep)
		for {
			c, done := owed(b, events.DeliverStep)
			if done {
				return
			}
			if c.Tool == events.GitPush {
				t.Fatal("it is pushed")
			}
			answer(b, events.DeliverStep, c, `{"branch":"agent/x","commit":"`+two+`"}`, true)
		}
	})
	t.Run("GIT-13 a step on another branch than the run's is not committed there", func(t *testing.T) {
		t.Parallel()
		b := inGit(events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential}, asking(commits, "a"))
		checkedOut(b, "agent/x")
		begin(b, "a")
		b.Append(runtest.Turn(b.State().AgentLoopSnapshot.Turns.Len()+1, "a", "done"), runtest.StepDone("a", "out"))
		begin(b, "git-commit-1")
		c, _ := owed(b, "git-commit-1")
		answer(b, "git-commit-1", c, `{"branch":"agent/y","commit":"`+two+`"}`, true)
		if c, done := owed(b, "git-commit-1"); !done || statusOf(b, "git-commit-1") != events.StepIsFailed {
			t.Errorf("asked for %q, the commit is %s", c.Tool, statusOf(b, "git-commit-1"))
		}
	})
}
