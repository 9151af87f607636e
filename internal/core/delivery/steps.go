package delivery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Arguments and results of the tools, as far as they matter here.
type (
	prepareArgs struct {
		URL           string   `json:"url,omitempty"`
		Branch        string   `json:"branch,omitempty"`
		Ref           string   `json:"ref,omitempty"`
		Depth         int      `json:"depth,omitempty"`
		WorkingBranch string   `json:"working_branch,omitempty"`
		NewBranch     string   `json:"new_branch,omitempty"`
		Sides         []string `json:"sides,omitempty"`
		Begin         string   `json:"begin,omitempty"`
		Sync          bool     `json:"sync,omitempty"`
	}
	side struct {
		Branch string `json:"branch"`
		Commit string `json:"commit"`
	}
	prepared struct {
		Branch string `json:"branch"`
		Commit string `json:"commit"`
		Base   string `json:"base"`
		Tree   string `json:"tree"`
		Cloned bool   `json:"cloned"`
		Sides  []side `json:"sides"`
	}
	commitArgs struct {
		Message string `json:"message"`
	}
	committed struct {
		Commit string   `json:"commit"`
		Tree   string   `json:"tree"`
		Branch string   `json:"branch"`
		Made   bool     `json:"made"`
		Nested []string `json:"nested"`
	}
	mergeArgs struct {
		From    []string `json:"from"`
		Message string   `json:"message,omitempty"`
		Onto    string   `json:"onto,omitempty"`
		Commits []string `json:"commits,omitempty"`
	}
	merged struct {
		Commit    string                `json:"commit"`
		Merged    []events.MergedBranch `json:"merged"`
		Conflicts []struct {
			Branch string `json:"branch"`
			Ours   string `json:"ours"`
			Theirs string `json:"theirs"`
			Paths  []struct {
				Path string `json:"path"`
			} `json:"paths"`
			More int `json:"more"`
		} `json:"conflicts"`
		Moved []struct {
			Branch string `json:"branch"`
			Was    string `json:"was"`
			Is     string `json:"is"`
		} `json:"moved"`
	}
	publishArgs struct {
		Branch string `json:"branch"`
	}
	published struct {
		Branch   string `json:"branch"`
		Commit   string `json:"commit"`
		Artifact string `json:"artifact"`
	}
	pushArgs struct {
		Branch string `json:"branch"`
		Commit string `json:"commit"`
		URL    string `json:"url,omitempty"`
		To     string `json:"to,omitempty"`
	}
	pushed struct {
		URL    string `json:"url"`
		Branch string `json:"branch"`
		Commit string `json:"commit"`
		// Holds is the commit that was pushed, where somebody has built on it since.
		Holds string `json:"holds"`
	}
)

// checkout makes the working tree ready, by one call.
func checkout(s run.State, st *run.Step, done []run.CallRecord) []events.Payload {
	w, c := s.Created.Git, s.Created
	if c.Landing != nil {
		return join(s, st, done)
	}
	if len(done) == 0 {
		a := prepareArgs{URL: c.Repo, Branch: w.Branch, Ref: c.Ref, Depth: w.Depth, WorkingBranch: w.WorkingBranch,
			NewBranch: w.NewBranch, Sync: c.Work != nil && c.Session != ""}
		if w.Begin != nil {
			a.Begin = w.Begin.Commit
		}
		return call(s, st, events.GitPrepare, a)
	}
	var p prepared
	if why := read(done[len(done)-1], &p); why != "" {
		return failed(s, st, why)
	}
	if p.Branch == "" && p.Commit == "" {
		return finished(s, st, "The workspace is no git repository yet.")
	}
	text := "The workspace is a git repository"
	if p.Branch != "" {
		text += ", on the branch " + p.Branch
	}
	if p.Commit == "" {
		return finished(s, st, text+", without a commit yet.")
	}
	return finished(s, st, text+" at commit "+short(p.Commit)+".")
}

// progress is how far a delivery has come, as its results tell.
type progress struct {
	events.Delivery
	// looked, committed, merged, kept and sent are true once that was done or is not to be; stuck is why the step
	// cannot go on.
	looked, committed, merged, saved, sent, asked, removed bool
	stuck                                                  string
	// sides are those that are to be merged, as they were found; moved is how often one was elsewhere when it was to be
	// merged.
	sides []side
	moved int
}

// past reads the results of a delivery.
func past(s run.State, done []run.CallRecord) progress {
	var p progress
	base := begun(s)
	if p.Base = base.Commit; s.Created.Git.Begin != nil && base.Base != "" && s.Created.Git.Scope == "" {
		p.Base = base.Base // what the fork began with is its work, too
	}
	for _, r := range done {
		if p.stuck = p.add(r); p.stuck != "" {
			return p
		}
		if p.looked && base.Branch != "" && p.Branch != base.Branch {
			p.stuck = fmt.Sprintf("the working tree is on the branch %q and the branch of the run is %q: nothing was delivered, the work is in the workspace %s", p.Branch, base.Branch, s.Created.Workspace)
			return p
		}
	}
	return p
}

// Base is the commit that the run began with, before any agent of it worked: the one at which its branch left the line
// of work. For a child that shares the files of its parent it is that of the parent. It is empty where the run does not
// work in git, and where there was no commit.
func Base(s run.State) string {
	switch {
	case s.Created == nil:
		return ""
	case s.Created.Git != nil:
		return begun(s).Base
	case s.Created.ChildOf != nil:
		return s.Created.ChildOf.Base
	}
	return ""
}

// Began is the commit that was checked out when the run began: that of earlier runs of its session, where there are
// any.
func Began(s run.State) string {
	if s.Created == nil || s.Created.Git == nil {
		return ""
	}
	return begun(s).Commit
}

// begun is where the run began, as its checkout found it.
func begun(s run.State) prepared {
	var p prepared
	st := s.Step(events.CheckoutStep)
	if st == nil {
		return p
	}
	for i, r := range results(s, st) {
		if i > 0 && s.Created.Landing != nil {
			break // the merge comes after where the run began
		}
		if read(r, &p) != "" {
			return prepared{}
		}
	}
	return p
}

// add takes one result in, and returns why the delivery cannot go on, or "".
func (p *progress) add(r run.CallRecord) string {
	switch r.CallName {
	case events.GitCommit:
		var c committed
		if why := read(r, &c); why != "" {
			return why
		}
		p.Branch, p.Commit, p.Tree, p.looked, p.committed = c.Branch, c.Commit, c.Tree, true, true
		if len(c.Nested) > 0 {
			p.note("not committed, because they are nested repositories: " + strings.Join(c.Nested, ", "))
		}
	case events.GitPrepare:
		var c prepared
		if why := read(r, &c); why != "" {
			return why
		}
		if p.looked && len(c.Sides) == 0 {
			return "the branches to merge were not found"
		}
		p.Branch, p.Commit, p.Tree, p.looked, p.sides = c.Branch, c.Commit, c.Tree, true, c.Sides
	case events.GitMerge:
		return p.addMerge(r)
	case events.GitPublish:
		var c published
		if why := read(r, &c); why != "" {
			return why
		}
		if p.saved = true; c.Commit == p.Commit {
			p.Bundle = c.Artifact
		}
	case events.GitPush:
		return p.addPush(r)
	case events.GitReview:
		p.addReview(r)
	case events.GitRemove:
		p.removed = true
	}
	return ""
}

// maxMoved is how often a merge is asked for anew because a side has moved on.
const maxMoved = 3

func (p *progress) addMerge(r run.CallRecord) string {
	p.merged = true
	if no := denied(r); no != "" {
		p.note("not merged: " + no)
		return ""
	}
	var m merged
	if why := read(r, &m); why != "" {
		return why
	}
	if m.Commit != "" && m.Commit != p.Commit {
		p.Commit, p.Tree = m.Commit, "" // of a merge, which nothing has checked
	}
	if len(m.Moved) > 0 {
		if p.moved++; p.moved < maxMoved {
			p.merged, p.sides = false, nil
			return ""
		}
		p.note(fmt.Sprintf("not merged: %s moved before each merge attempt", clip(m.Moved[0].Branch, maxPath)))
		return ""
	}
	p.Merged = m.Merged
	left := maxPaths
	for _, c := range m.Conflicts {
		one := events.MergeConflict{Branch: c.Branch, Ours: c.Ours, Theirs: c.Theirs, Paths: []string{}}
		for _, at := range c.Paths {
			if left--; left >= 0 {
				one.Paths = append(one.Paths, clip(at.Path, maxPath))
			}
		}
		one.More = c.More + len(c.Paths) - len(one.Paths)
		p.Conflicts = append(p.Conflicts, one)
	}
	return ""
}

// Bounds of what a run tells of conflicts: the result of the call has all that the tool told.
const (
	maxPaths = 100
	maxPath  = 300
)

// addPush takes what the remote said in. A push that a person, a guard rule or a hook does not permit is told and no
// fault.
func (p *progress) addPush(r run.CallRecord) string {
	p.sent = true
	if no := denied(r); no != "" {
		p.note("not pushed: " + no)
		return ""
	}
	var c pushed
	if why := read(r, &c); why != "" {
		return why
	}
	switch {
	case c.Commit == p.Commit || c.Holds == p.Commit:
		p.Pushed, p.Remote, p.RemoteBranch = true, c.URL, c.Branch
		return ""
	case r.Edited: // what was pushed is what a person wanted, and not the work of the run
		p.note(fmt.Sprintf("pushed with arguments that a person changed: %s has %s at %s", clip(c.URL, maxPath),
			clip(c.Branch, maxPath), short(c.Commit)))
		return ""
	}
	return fmt.Sprintf("the remote has %s at %s and not %s", c.Branch, short(c.Commit), short(p.Commit))
}

// denied is why a call was not permitted, "" where it was.
func denied(r run.CallRecord) string {
	if r.Outcome != run.OutcomeRefused {
		return ""
	}
	switch r.Code {
	case events.RefusedByPerson, events.RefusedGuard, events.RefusedHook:
		return r.Result
	}
	return ""
}

func (p *progress) note(text string) {
	if p.Note != "" {
		text = p.Note + "; " + text
	}
	p.Note = clip(text, maxError)
}

// deliver commits, merges, keeps and pushes, one call after the other.
func deliver(s run.State, st *run.Step, done []run.CallRecord) []events.Payload {
	w, c := s.Created.Git, s.Created
	p, whole := past(s, done), complete(s)
	first := begun(s)
	there := p.Branch+p.Commit+first.Branch+first.Commit != ""
	other := ""
	if whole {
		other = p.unchecked(s)
	}
	switch {
	case p.stuck != "":
		return failed(s, st, p.explain(p.stuck))
	case !p.committed && w.AutoCommit && there:
		return call(s, st, events.GitCommit, commitArgs{Message: message(s)})
	case !p.looked: // as it is: without a repository there may be one by now
		return call(s, st, events.GitPrepare, prepareArgs{})
	case other != "" && p.saved:
		return failed(s, st, p.explain(other))
	case len(w.Merge) > 0 && !p.merged && whole && other == "" && p.Branch != "" && len(p.sides) == 0:
		return call(s, st, events.GitPrepare, prepareArgs{Sides: w.Merge})
	case len(w.Merge) > 0 && !p.merged && whole && other == "" && p.Branch != "":
		return call(s, st, events.GitMerge, p.merge())
	case s.Created.Landing != nil && other != "":
		return failed(s, st, p.explain(other))
	case w.Push && whole && s.Created.Landing != nil && !p.sent && p.Commit != p.Base:
		return call(s, st, events.GitPush, pushArgs{Branch: p.Branch, Commit: p.Commit, URL: c.Repo, To: c.Landing.Target})
	case c.Landing != nil && !p.removed && whole && removable(s, p):
		return call(s, st, events.GitRemove,
			removeArgs{Branch: c.Landing.Branch, Commit: c.Landing.Commit, Into: c.Landing.Target, URL: c.Repo})
	case s.Created.Landing != nil:
		return finished(s, st, p.explain(""))
	case !p.saved && p.Branch != "" && p.Commit != "" && (p.Commit != p.Base || w.Collaboration == events.Parallel):
		return call(s, st, events.GitPublish, publishArgs{Branch: p.Branch})
	case !p.sent && w.Push && whole && p.Commit != p.Base && p.saved && len(p.Conflicts) == 0:
		return call(s, st, events.GitPush, pushArgs{Branch: p.Branch, Commit: p.Commit, URL: c.Repo})
	case other != "":
		return failed(s, st, p.explain(other))
	case w.Review != nil && p.Pushed && !p.asked:
		return call(s, st, events.GitReview, askFor(s, p))
	}
	return finished(s, st, p.explain(""))
}

// unchecked says why the commit of a delivery may not leave its working tree: acceptance checks have passed, and on
// other files. It is "" where the files are the same, no checks decide, or there is no new commit.
func (p progress) unchecked(s run.State) string {
	trees, checked := acceptance.Trees(s)
	if !checked || !p.looked || p.Commit == "" || p.Commit == p.Base || p.Tree != "" && slices.Contains(trees, p.Tree) {
		return ""
	}
	was, is := "no tree of a repository", "an unknown tree"
	if len(trees) > 0 {
		was = "the tree " + strings.Join(slices.Compact(trees), ", ")
	}
	if p.Tree != "" {
		is = "the tree " + p.Tree
	}
	return clip(fmt.Sprintf("the files changed after they were checked: the checks passed on %s, and commit %s has %s. "+
		"Nothing was merged or pushed. Look at the commit, and run the task again: a command that went on, a step at the "+
		"same time, files that no one committed, or links out of the workspace can be the cause",
		was, short(p.Commit), is), maxError)
}

// merge asks for the sides as they were found, so that a yes is for exactly these.
func (p progress) merge() mergeArgs {
	a := mergeArgs{Onto: p.Commit}
	if a.Onto == "" {
		a.Onto = "none"
	}
	for _, sd := range p.sides {
		a.From, a.Commits = append(a.From, sd.Branch), append(a.Commits, sd.Commit)
	}
	return a
}

// complete reports whether all steps of agents are, and the commits after them.
func complete(s run.State) bool {
	for _, st := range s.Plan.Steps {
		if (st.Kind == "" || st.Kind == events.StepCommit) && st.Status != events.StepIsCompleted {
			return false
		}
	}
	return true
}

// maxSubject bounds the first line of a commit message that is made from a task, in bytes.
const maxSubject = 72

// message is that of the commit of a run.
func message(s run.State) string {
	subject := clip(strings.Join(strings.Fields(cmp.Or(s.Created.Git.Subject, s.Created.Task)), " "), maxSubject)
	return fmt.Sprintf("%s\n\nInspan-Agent: %s\nInspan-Run: %s", subject, s.AgentName, s.HarnessID)
}

// Of is what became of the work of a run, nil where it does not work in git.
func Of(s run.State) *events.Delivery {
	if s.Created == nil || s.Created.Git == nil || s.Plan == nil {
		return nil
	}
	st := s.Step(events.DeliverStep)
	if st == nil {
		return nil
	}
	p := past(s, results(s, st))
	if p.stuck != "" {
		p.note(p.stuck)
	}
	switch w := s.Created.Git; {
	case !p.looked && p.stuck == "":
		if p.Branch = begun(s).Branch; p.Branch != "" {
			p.note("the run ended before its work was delivered: it is in the workspace " + s.Created.Workspace)
		}
	case p.Commit == p.Base && p.stuck == "":
		p.note("the branch has no new commits")
	case complete(s) && p.unchecked(s) != "":
		p.note(p.unchecked(s))
	case w.Push && !complete(s):
		p.note("not pushed: steps of the run are not complete")
	case w.Push && len(p.Conflicts) > 0:
		p.note("not pushed: branches are in conflict; resolve it on one of them and merge again")
	}
	return &p.Delivery
}

// explain says a delivery in words, after why it came to its end, if it did not come to a good one.
func (p progress) explain(why string) string {
	var parts []string
	if why != "" {
		parts = append(parts, why)
	}
	switch {
	case p.Branch != "" && p.Commit != "":
		parts = append(parts, fmt.Sprintf("the branch %s is at %s", p.Branch, short(p.Commit)))
	case p.looked && p.Commit != "":
		parts = append(parts, "no branch is checked out, so there is none to deliver")
	case p.looked:
		parts = append(parts, "there is no commit to deliver")
	}
	for _, m := range p.Merged {
		parts = append(parts, fmt.Sprintf("%s is merged (%s)", m.Branch, m.How))
	}
	for _, c := range p.Conflicts {
		parts = append(parts, fmt.Sprintf("%s is not merged: both sides changed %s", c.Branch,
			clip(strings.Join(c.Paths, ", "), maxPath)))
	}
	switch {
	case p.Pushed:
		parts = append(parts, "pushed to "+p.Remote+" as "+p.RemoteBranch)
	case p.Bundle != "":
		parts = append(parts, "stored as "+p.Bundle)
	case p.Commit == p.Base && p.Commit != "":
		parts = append(parts, "the branch has no new commits")
	}
	if p.Note != "" {
		parts = append(parts, p.Note)
	}
	return clip(strings.Join(parts, "; "), 2*maxError)
}
