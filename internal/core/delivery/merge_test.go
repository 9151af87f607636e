package delivery_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestMergeIsBound(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 GIT-8 a merge names the commits of both sides, one that moved on is asked about anew, and after three times no more", func(t *testing.T) {
		t.Parallel()
		b := inGit(events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential, AutoCommit: true, RequireApproval: true, Merge: []string{"agent/s/a"}}, runtest.Step("a"))
		checkedOut(b, "agent/x")
		begin(b, "a")
		b.Append(runtest.Turn(b.State().AgentLoopSnapshot.Turns.Len()+1, "a", "done"), runtest.StepDone("a", "out"))
		begin(b, events.DeliverStep)
		asks := func(tool string) events.RequestedCall {
			t.Helper()
			c, done := owed(b, events.DeliverStep)
			if done || c.Tool != tool {
				t.Fatalf("asked for %q, ended %v, want %s", c.Tool, done, tool)
			}
			return c
		}
		answer(b, events.DeliverStep, asks(events.GitCommit), fmt.Sprintf(`{"branch":"agent/x","commit":%q,"made":true}`, one), true)
		for try := 1; try <= 3; try++ {
			side := strings.Repeat(fmt.Sprint(try+2), 40)
			answer(b, events.DeliverStep, asks(events.GitPrepare), fmt.Sprintf(`{"branch":"agent/x","commit":%q,"sides":[{"branch":"agent/s/a","commit":%q}]}`, one, side), true)
			c := asks(events.GitMerge)
			if want := fmt.Sprintf(`{"from":["agent/s/a"],"onto":%q,"commits":[%q]}`, one, side); string(c.Input) != want {
				t.Errorf("asked for %s, want %s", c.Input, want)
			}
			answer(b, events.DeliverStep, c, fmt.Sprintf(`{"commit":%q,"merged":[],"moved":[{"branch":"agent/s/a","was":%q,"is":%q}]}`, one, side, two), true)
		}
		if c, done := owed(b, events.DeliverStep); !done {
			t.Fatalf("asked for %s", c.Tool)
		}
		if d := delivery.Of(b.State()); len(d.Merged) > 0 || !strings.Contains(d.Note, "agent/s/a moved before") {
			t.Errorf("%+v", d)
		}
	})
}
