package delivery

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// classTransient is the class of a failed call that may succeed later.
const classTransient = "transient"

// join makes the working tree of a landing run ready: the target branch with the delivered commit merged into it, on a
// branch that only the run has. What is merged is that commit and no other, whatever the branch is at by now.
func join(s run.State, st *run.Step, done []run.CallRecord) []events.Payload {
	w, c, l := s.Created.Git, s.Created, s.Created.Landing
	if len(done) == 0 {
		return call(s, st, events.GitPrepare,
			prepareArgs{URL: c.Repo, Branch: w.Branch, Depth: w.Depth, WorkingBranch: w.WorkingBranch,
				NewBranch: w.NewBranch, Sides: []string{l.Branch}})
	}
	var p prepared
	if why := read(done[0], &p); why != "" {
		return failed(s, st, why)
	}
	switch {
	case p.Commit == "" || p.Branch == "":
		return failed(s, st, fmt.Sprintf("the target branch %s has no commit", l.Target))
	case len(p.Sides) != 1 || p.Sides[0].Commit != l.Commit:
		return failed(s, st, rewritten(p, l))
	case len(done) == 1:
		return call(s, st, events.GitMerge, mergeArgs{From: []string{l.Branch}, Onto: p.Commit, Commits: []string{l.Commit}})
	}
	var m merged
	if why := read(done[1], &m); why != "" {
		return failed(s, st, why)
	}
	if why, _ := unmerged(m, l); why != "" {
		return failed(s, st, why)
	}
	return finished(s, st, fmt.Sprintf("%s at %s is merged into %s (%s), at %s.", l.Branch, short(l.Commit), l.Target,
		m.Merged[0].How, short(m.Commit)))
}

func rewritten(p prepared, l *events.LandingRef) string {
	is := "nowhere"
	if len(p.Sides) == 1 {
		is = "at " + short(p.Sides[0].Commit)
	}
	return fmt.Sprintf("the branch %s is %s and was delivered at %s: it was rewritten or went on. Deliver it again",
		l.Branch, is, short(l.Commit))
}

// unmerged says why a merge did not take the delivered commit in, with its code; "" where it did.
func unmerged(m merged, l *events.LandingRef) (why, code string) {
	switch {
	case len(m.Conflicts) > 0:
		var paths []string
		for _, p := range m.Conflicts[0].Paths {
			if len(paths) < maxNamed {
				paths = append(paths, clip(p.Path, maxPath))
			}
		}
		more := ""
		if n := len(m.Conflicts[0].Paths) + m.Conflicts[0].More - len(paths); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return fmt.Sprintf("%s and %s changed the same places: %s%s. Merge %s into the branch, resolve them and deliver it again",
			l.Branch, l.Target, strings.Join(paths, ", "), more, l.Target), events.LandingConflict
	case len(m.Moved) > 0:
		return fmt.Sprintf("%s is at %s and not at %s", clip(m.Moved[0].Branch, maxPath), short(m.Moved[0].Is),
			short(m.Moved[0].Was)), events.LandingRewritten
	case len(m.Merged) != 1 || m.Merged[0].Commit != l.Commit || m.Commit == "":
		return "the merge did not take the delivered commit in", events.LandingFailed
	}
	return "", ""
}

// maxNamed is how many paths of a conflict its reason names.
const maxNamed = 10

// Landed says what the run of an attempt of a merge queue came to. It is to be asked once the run has ended. The work
// is landed only where the target branch of the remote was seen to have it: after the push, or before anything was
// merged.
func Landed(s run.State) events.LandingOutcome {
	var o events.LandingOutcome
	l := s.Created.Landing
	var p prepared
	var m merged
	checkout, deliver := s.Step(events.CheckoutStep), s.Step(events.DeliverStep)
	if checkout == nil || deliver == nil {
		return unlanded(o, s, events.LandingFailed)
	}
	begun := results(s, checkout)
	if len(begun) == 0 {
		return unlanded(o, s, events.LandingFailed)
	}
	if why := read(begun[0], &p); why != "" {
		code := events.LandingFailed
		if begun[0].Code == classInvalid {
			code = events.LandingGone
		}
		return unlanded(o, s, faultOf(begun[0], code))
	}
	if o.Base = p.Commit; len(p.Sides) != 1 || p.Sides[0].Commit != l.Commit {
		return unlanded(o, s, events.LandingRewritten)
	}
	if len(begun) < 2 {
		return unlanded(o, s, events.LandingFailed)
	}
	if why := read(begun[1], &m); why != "" {
		return unlanded(o, s, faultOf(begun[1], events.LandingFailed))
	}
	if why, code := unmerged(m, l); why != "" {
		o.Code, o.Reason = code, why
		return o
	}
	o.How = m.Merged[0].How
	if o.How == howNothing { // the target of the remote, as it was fetched, has the commit
		o.Commit = p.Commit
		return fate(o, s)
	}
	d := Of(s)
	switch {
	case d != nil && d.Pushed && d.RemoteBranch == l.Target && d.Commit == m.Commit:
		o.Commit, o.Tree = d.Commit, d.Tree
		return fate(o, s)
	case s.Result != nil && s.Result.FinishReason == events.FinishUnverified:
		return unlanded(o, s, events.LandingChecks)
	}
	for _, r := range results(s, deliver) {
		switch {
		case r.CallName != events.GitPush:
		case denied(r) != "":
			o.Code, o.Reason = events.LandingDenied, r.Result
			return o
		case r.Outcome == run.OutcomeFailed:
			return unlanded(o, s, faultOf(r, events.LandingMoved))
		}
	}
	return unlanded(o, s, events.LandingFailed)
}

// removeArgs are the arguments of git_remove.
type removeArgs struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Into   string `json:"into"`
	URL    string `json:"url"`
}

// removable reports whether the branch of a landing run may go: the target of the remote was seen to have its commit,
// and the queue does not keep it.
func removable(s run.State, p progress) bool {
	l := s.Created.Landing
	return !l.Keep && l.Branch != l.Target && (p.Pushed && p.RemoteBranch == l.Target || p.Commit == p.Base)
}

// fate says what became of the branch of a landing run: whether it is gone, or else why it is kept.
func fate(o events.LandingOutcome, s run.State) events.LandingOutcome {
	o.Kept = "no one asked the remote to remove it"
	if s.Created.Landing.Keep {
		o.Kept = "the merge queue keeps branches"
	}
	for _, r := range results(s, s.Step(events.DeliverStep)) {
		if r.CallName == events.GitRemove {
			if o.Removed = r.Success; o.Removed {
				o.Kept = ""
			} else {
				o.Kept = clip(r.Result, maxError)
			}
		}
	}
	return o
}

// howNothing is how a branch was merged that the other had all of.
const howNothing = "nothing"

// faultOf is the code of an attempt of which a call failed: that of a fault which may pass, or else the given one.
func faultOf(r run.CallRecord, otherwise string) string {
	switch {
	case r.Outcome == run.OutcomeFailed && r.Code == classTransient:
		return events.LandingUnreachable
	case r.Outcome != run.OutcomeFailed || r.Code == classDenied:
		return events.LandingFailed
	}
	return otherwise
}

// classDenied is the class of a failed call to a remote that may not be reached, classInvalid that of one that names
// what is not there.
const (
	classDenied  = "denied"
	classInvalid = "invalid"
)

// unlanded is the outcome of a run that did not land the work, with why it ended.
func unlanded(o events.LandingOutcome, s run.State, code string) events.LandingOutcome {
	if o.Code = code; s.Result != nil {
		if o.Reason = s.Result.Error; o.Reason == "" {
			o.Reason = s.Result.FinishReason
		}
	}
	if d := Of(s); o.Reason == events.FinishDone && d != nil && d.Note != "" {
		o.Reason = d.Note
	}
	return o
}
