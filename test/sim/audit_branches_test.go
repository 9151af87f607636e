package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// branchAudit is what the audit knows of a step whose child works in a worktree.
type branchAudit struct {
	// at is what the child begins with, had what the calls of its parent had left in the tree when the step was allowed.
	at  *events.BranchAt
	had files
	// child completed with a commit; merged once the step did with it.
	child, commit string
	merged        bool
}

// branched holds SUB-7, GIT-7 and GIT-8: the child of a step in a worktree is spawned once its parent's tree is
// committed and published, and begins with that very commit; what it is said to have done is what it left; and its step
// is over with its work merged once, or it failed and says nothing of the tree that is not so.
func (a *audit) branched(runID string, l *ledger, p events.Payload) string {
	if !a.w.play.Scene.branches() || l.others {
		return ""
	}
	switch d := p.(type) {
	case *events.RunCreatedData:
		l.begin = ""
		if of := d.ChildOf; of != nil {
			at := a.branchOf(of.Parent, of.Step).at
			if d.Git == nil || d.Git.Begin == nil || at == nil || d.Git.Begin.Commit != at.Commit {
				return fmt.Sprintf("it begins with %+v, its step is branched at %+v", d.Git, at)
			}
			l.begin = at.Commit
		}
	case *events.StepAllowedData:
		a.branchOf(runID, d.Step).had = maps.Clone(l.left)
	case *events.StepBranchedData:
		return a.stepBranched(runID, l, d)
	case *events.ChildSpawnedData:
		if l.plan[d.Step].Child == events.ChildWorktree && a.branchOf(runID, d.Step).at == nil {
			return "its step is not branched"
		}
	case *events.CallFinishedData:
		return a.leaves(l, d)
	case *events.ChildFinishedData:
		return a.childWorked(runID, d)
	case *events.StepFinishedData:
		if l.plan[d.Step].Child == events.ChildWorktree {
			return a.childMerged(runID, d.Step)
		}
	case *events.StepFailedData:
		return a.childApart(runID, d)
	case *events.RunPausedData:
		a.w.tale.counts["runs that pause"]++
	case *events.RunFailedData:
		if d.FinishReason == events.FinishStopped && len(l.branches) > 0 {
			a.w.tale.counts["runs that stop"]++
		}
	case *events.RunCompletedData:
		for _, id := range rank(l.branches) {
			if b := l.branches[id]; l.plan[id].Child != "" && b.commit != "" && !a.w.tools.cloneOf(runID).Commits.reaches(d.Delivery.Commit, b.commit) {
				return fmt.Sprintf("it tells of %s, which is without %s of step %s", d.Delivery.Commit, b.commit, id)
			}
		}
	default:
	}
	return ""
}

func (a *audit) branchOf(runID, step string) *branchAudit {
	l := a.runs[runID]
	if l.branches == nil {
		l.branches = map[string]*branchAudit{}
	}
	if l.branches[step] == nil {
		l.branches[step] = &branchAudit{}
	}
	return l.branches[step]
}

func (a *audit) stepBranched(runID string, l *ledger, d *events.StepBranchedData) string {
	b := a.branchOf(runID, d.Step)
	has := a.w.tools.hub.branches["run/"+runID+" "+d.Branch]
	c, there := has.commits[d.Commit]
	switch {
	case b.at != nil || l.plan[d.Step].Child != events.ChildWorktree || l.steps[d.Step] != events.StepAllowed:
		return "step " + d.Step + " is branched before, or waits for no branch"
	case !there:
		return fmt.Sprintf("%s is at %q for others, and they do not find %s", d.Branch, has.commit, d.Commit)
	}
	for _, file := range rank(b.had) {
		if c.Tree[file] != b.had[file] {
			return fmt.Sprintf("%s was in the tree, and %s is without it", file, d.Commit)
		}
	}
	b.at = &d.BranchAt
	a.w.tale.counts["steps branched"]++
	return ""
}

// leaves notes what a call left in the tree, and holds that the first one of a child found the commit that it is to begin
// with.
func (a *audit) leaves(l *ledger, d *events.CallFinishedData) string {
	n, ok := effectOf(d.Output)
	if !ok || !d.Success || n >= len(a.w.tools.effects) {
		return ""
	}
	e := a.w.tools.effects[n]
	switch {
	case e.n != noNumber && classOf(e.tool) != tool.Read && !d.Reconciled:
		if l.left == nil {
			l.left = files{}
		}
		l.left[fileOf(e.n)] = fmt.Sprintf("effect %d", n)
	case d.Tool == events.GitPrepare && l.begin != "" && l.calls[d.Call].ref.Step == events.CheckoutStep:
		var at struct{ Commit string }
		if err := json.Unmarshal([]byte(d.Output), &at); err != nil || at.Commit != l.begin {
			return fmt.Sprintf("it begins at %s and not at %s", at.Commit, l.begin)
		}
		a.w.tale.counts["children that began at their commit"]++
	}
	return ""
}

// childWorked holds that the commit of a child comes after the one that it began with, has all that its calls left, and
// is where its parent finds it.
func (a *audit) childWorked(runID string, d *events.ChildFinishedData) string {
	if d.Outcome != events.ChildIsCompleted || d.Commit == "" {
		return ""
	}
	has, kid := a.w.tools.hub.branches["run/"+runID+" "+d.Branch], a.runs[d.Child]
	c, there := has.commits[d.Commit]
	if !there || !has.commits.reaches(d.Commit, kid.begin) {
		return fmt.Sprintf("its branch %s is at %q for its parent, it ended at %s and began at %s", d.Branch, has.commit, d.Commit, kid.begin)
	}
	for _, file := range rank(kid.left) {
		if c.Tree[file] != kid.left[file] {
			return fmt.Sprintf("%s of child %s is not in its commit %s", file, d.Child, d.Commit)
		}
	}
	b := a.branchOf(runID, d.Step)
	b.child, b.commit = d.Child, d.Commit
	a.w.tale.counts["children with commits"]++
	return ""
}

// childMerged holds that the work of a child is in the tree of its parent, and was merged once.
func (a *audit) childMerged(runID, step string) string {
	b, repo := a.branchOf(runID, step), a.w.tools.cloneOf(runID)
	if b.commit == "" {
		return ""
	}
	merges := 0
	for _, id := range repo.Commits.before(repo.head()) {
		if c := repo.Commits[id]; len(c.Parents) > 1 && c.Parents[1] == b.commit {
			merges++
		}
		if c := repo.Commits[id]; len(c.Parents) > 0 && c.Tree["of-somebody"] != "" {
			return "what somebody did with the branch of child " + b.child + " later is merged, too"
		}
	}
	if !repo.Commits.reaches(repo.head(), b.commit) || merges > 1 {
		return fmt.Sprintf("commit %s of child %s is merged %d times into %s", b.commit, b.child, merges, repo.head())
	}
	b.merged = true
	a.w.tale.counts["children merged"]++
	return a.stillThere(runID)
}

// childApart holds that a step which failed after its child completed says of the tree what is so.
func (a *audit) childApart(runID string, d *events.StepFailedData) string {
	b, repo := a.branchOf(runID, d.Step), a.w.tools.cloneOf(runID)
	if b.commit == "" {
		return ""
	}
	a.w.tale.counts["children not merged"]++
	if !strings.Contains(d.Error, "The working tree is unchanged") {
		return ""
	}
	if repo.Commits.reaches(repo.head(), b.commit) {
		return fmt.Sprintf("it says that nothing is merged, and %s has %s", repo.head(), b.commit)
	}
	kid := a.runs[b.child]
	for _, file := range rank(kid.left) {
		if repo.Work[file] == kid.left[file] {
			return fmt.Sprintf("it says that the tree is unchanged, and it has %s of the child", file)
		}
	}
	return ""
}

// stillThere holds that what was merged stays: every file of every child whose step is over, at the place where its run
// works.
func (a *audit) stillThere(runID string) string {
	l, repo := a.runs[runID], a.w.tools.cloneOf(runID)
	for _, id := range rank(l.branches) {
		b := l.branches[id]
		if !b.merged {
			continue
		}
		kid := a.runs[b.child]
		for _, file := range rank(kid.left) {
			if is := repo.Commits[repo.head()].Tree[file]; is != kid.left[file] && !a.later(runID, b, file, is) {
				return fmt.Sprintf("%s of child %s was merged, and is not at %s", file, b.child, repo.head())
			}
		}
	}
	return ""
}

// later reports whether a child that began with the work of another one has changed a file since, and was merged.
func (a *audit) later(runID string, than *branchAudit, file, is string) bool {
	for _, b := range a.runs[runID].branches {
		if b.merged && a.w.tools.cloneOf(runID).Commits.reaches(b.at.Commit, than.commit) && a.runs[b.child].left[file] == is {
			return true
		}
	}
	return false
}

// branchesAreWhole holds at the end that what was merged is still there.
func (a *audit) branchesAreWhole() {
	if !a.w.play.Scene.branches() {
		return
	}
	for _, id := range rank(a.runs) {
		if fault := a.stillThere(id); fault != "" {
			a.breaks("run %s: %s", id, fault)
		}
	}
}
