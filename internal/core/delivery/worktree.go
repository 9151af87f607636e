package delivery

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Worktree says what the harness does in the working tree of a run for a child in a worktree that a step is given to:
// before the child, what is in the tree is committed and published, so that the child begins with it wherever it works;
// after it, its branch is merged. It is nothing where the child has the turn, and where only its end is to be said.
func Worktree(s run.State, st *run.Step) []events.Payload {
	if st.Owed == 0 {
		return nil
	}
	if s.Created == nil || s.Created.Git == nil {
		return failed(s, st, "the run does not work in git")
	}
	if st.Branched == nil {
		return branch(s, st)
	}
	c := s.ChildOf(st.ID)
	if c == nil || c.Lives() || c.Retry || c.Outcome != events.ChildIsCompleted || c.Commit == "" {
		return nil
	}
	return mergeChild(s, st, c)
}

// branch commits and publishes what is in the working tree, by two calls, and says what the child begins with.
func branch(s run.State, st *run.Step) []events.Payload {
	var p progress
	for _, r := range results(s, st) {
		if why := p.add(r); why != "" {
			return failed(s, st, why)
		}
	}
	first := begun(s)
	switch {
	case !p.committed:
		text := fmt.Sprintf("Before step %s: %s\n\nInspan-Agent: %s\nInspan-Run: %s\nInspan-Step: %[1]s", st.ID,
			subject(st.Description), s.AgentName, s.HarnessID)
		return call(s, st, events.GitCommit, commitArgs{Message: text})
	case p.Commit == "":
		return failed(s, st, "the repository has no commit that a child in a worktree can begin with: let an earlier step write a file")
	case p.Branch == "":
		return failed(s, st, "no branch is checked out that the work of a child can be merged into: set auto_branch, or check a branch out in an earlier step")
	case first.Branch != "" && p.Branch != first.Branch:
		return failed(s, st, fmt.Sprintf("the working tree is on the branch %q and the branch of the run is %q", p.Branch,
			first.Branch))
	case !p.saved:
		return call(s, st, events.GitPublish, publishArgs{Branch: p.Branch})
	}
	return []events.Payload{&events.StepBranchedData{Event: "step_branched", Step: st.ID,
		BranchAt: events.BranchAt{Branch: p.Branch, Commit: p.Commit}}}
}

// mergeChild merges the branch of a child, exactly at the commit that the child ended with; nothing once it is in. What
// others wrote into the tree meanwhile is committed first where it stands in the way.
func mergeChild(s run.State, st *run.Step, c *run.Child) []events.Payload {
	ask := func() []events.Payload {
		text := fmt.Sprintf("Merge step %s: %s\n\nInspan-Agent: %s\nInspan-Run: %s", st.ID, subject(st.Description), c.Agent,
			c.ID)
		return call(s, st, events.GitMerge, mergeArgs{From: []string{c.Branch}, Commits: []string{c.Commit}, Message: text})
	}
	var last *run.CallRecord
	merges, begins := 0, false
	for _, r := range results(s, st) {
		if begins {
			last = &r
		}
		begins = begins || r.CallName == events.GitPublish
		if r.CallName == events.GitMerge {
			merges++
		}
	}
	if last == nil {
		return ask()
	}
	if last.CallName != events.GitMerge {
		if why := wrong(*last); why != "" {
			return apart(s, st, c, events.FinishDelivery, why, outcomeUnknown)
		}
		return ask()
	}
	var m merged
	if why := read(*last, &m); why != "" && denied(*last) == "" && merges < maxMoved {
		return call(s, st, events.GitCommit, commitArgs{Message: message(s)})
	} else if why != "" {
		tree := outcomeUnknown
		if merges == 1 { // it was refused, so nothing was tried
			tree = treeUnchanged
		}
		return apart(s, st, c, events.FinishDelivery, why, tree)
	}
	switch {
	case len(m.Conflicts) > 0:
		var paths []string
		for _, at := range m.Conflicts[0].Paths {
			paths = append(paths, at.Path)
		}
		why := "both sides changed " + clip(strings.Join(paths, ", "), maxError/2)
		if m.Conflicts[0].More > 0 {
			why += fmt.Sprintf(" and %d more", m.Conflicts[0].More)
		}
		return apart(s, st, c, events.FinishConflict, why, treeUnchanged)
	case len(m.Moved) > 0:
		return apart(s, st, c, events.FinishDelivery, fmt.Sprintf("the branch is at %s now", short(m.Moved[0].Is)),
			treeUnchanged)
	}
	return nil
}

// What is known of the working tree where the work of a child is not merged.
const (
	treeUnchanged = "The working tree is unchanged."
	// outcomeUnknown: a merge that failed may have been made, by a toolrunner that was lost before it could tell.
	outcomeUnknown = "A merge that failed may have changed the working tree: look whether the commit is in its history."
)

// apart is the end of a step whose child did its work, which is on its branch alone as far as is known.
func apart(s run.State, st *run.Step, c *run.Child, reason, why, tree string) []events.Payload {
	text := fmt.Sprintf("child run %s completed, and its work is not merged: %s. %s The work is on the branch %s at commit %s: merge it by hand, or run the step again on the tree as it is now (inspan branches get %s %[4]s)",
		c.ID, why, tree, c.Branch, short(c.Commit), Scope(s.Created, s.HarnessID))
	return []events.Payload{&events.StepFailedData{Event: "step_failed", Step: st.ID, Error: clip(text, 2*maxError),
		FinishReason: reason, RunReason: reason, Turns: st.Turns, Checkpoint: s.NextCheckpoint()}}
}

// subject is the beginning of a text as the first line of a commit message has it.
func subject(text string) string { return clip(strings.Join(strings.Fields(text), " "), maxSubject) }

// Spawned is how a child works in git that has a working tree of its own: on a branch of its own, which begins with
// what its step is branched at, else where the run itself began. It is nil where the run does not work in git. What the
// child commits is published where its parent finds it, and sent nowhere.
func Spawned(s run.State, st *run.Step, c *run.Child) *events.GitWork {
	if s.Created == nil || s.Created.Git == nil || c.Workspace != events.ChildOwn && c.Workspace != events.ChildWorktree {
		return nil
	}
	w, first := s.Created.Git, begun(s)
	scope := Scope(s.Created, s.HarnessID)
	work := &events.GitWork{Branch: w.Branch, Depth: w.Depth, NewBranch: "agent/" + c.Agent + "/" + c.ID,
		Collaboration: events.Sequential, AutoCommit: true, RequireApproval: w.RequireApproval, Workspace: w.Workspace,
		Scope: scope}
	if text := c.Task; text != "" {
		work.Subject = subject(text)
	} else {
		work.Subject = subject(st.Description)
	}
	at := events.BranchAt{Branch: first.Branch, Commit: first.Commit}
	if st.Branched != nil && c.Workspace == events.ChildWorktree {
		at = *st.Branched
	}
	if at.Commit == "" {
		return work
	}
	work.Begin = &events.GitBegin{Commit: at.Commit, Branch: at.Branch, Scopes: []string{scope}}
	more := []string{s.Created.Workspace}
	if w.Begin != nil {
		more = append(more, w.Begin.Scopes...)
	}
	addScopes(work.Begin, more)
	return work
}
