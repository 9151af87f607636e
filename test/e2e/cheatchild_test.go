package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestCheatsOfChildren has an agent change the script of a check before a child is checked by it, in each kind of workspace
// that a child may have.
func TestCheatsOfChildren(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	r.withTests()
	w.agent(events.Agent{Name: "weakens", Tools: []string{"bash"}}, claims("printf '#!/bin/sh\\necho done_test ran\\n' > check.sh"))
	w.agent(events.Agent{Name: "claims"}, "turns:\n  - text: It is done.\n")
	w.start()
	for _, files := range []string{events.ChildOwn, events.ChildWorktree, events.ChildShared} {
		t.Run("PLUS-10 SEC SUB-7 a child is checked by the script of the commit that the root began with: "+files, func(t *testing.T) {
			t.Parallel()
			w, no := w.on(t), false
			check := accept("./check.sh")
			check.Checks[0].Expect, check.MaxAttempts = []string{"done_test ran"}, 1
			w.task(events.Task{ID: files, Agent: "claims", Task: "go", Repo: r.url(), Branch: "main", Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no}},
				Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "first", Description: "weaken it", Agent: "weakens"},
					{ID: "second", Description: "work", Agent: "claims", Needs: []string{"first"}, Child: files, Accept: check}}}})
			s := w.ended(files)
			if s.Status != events.Failed || len(s.Children) == 0 || !strings.Contains(s.Result.Error, "exit status 1") {
				t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story(files))
			}
			for _, call := range run.All(s.ToolCallHistory) {
				if !call.Success {
					t.Errorf("the cheat was not carried out: %+v", call)
				}
			}
		})
	}
}
