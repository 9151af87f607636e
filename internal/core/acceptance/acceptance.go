// Package acceptance decides about acceptance checks: when a step is claimed, which check is due, what its result
// means.
//
// Promises: a claim of the agent is no end of a step. The checks are those of the task's author and of the agent's
// definition, never of a model. A result counts for the claim that it was made for and for no later one, and the first
// result of a check that is stored is the one that counts.
package acceptance

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Claim returns the event that hands a step to its checks, as of its last turn; nil where the step has none.
func Claim(s run.State, st *run.Step) *events.StepClaimedData {
	a := s.AcceptOf(st)
	if a == nil {
		return nil
	}
	d := &events.StepClaimedData{Event: "step_claimed", Step: st.ID, Claim: 1, Most: a.Attempts(), Turns: st.Turns,
		Checks: a.Checks, Protect: a.Protect}
	if st.Claim != nil {
		d.Claim = st.Claim.Number + 1
	}
	return d
}

// Duty is the check of a step that is to be made.
type Duty struct {
	Step string
	// Claim and Number identify the check: both from 1.
	Claim, Number int
	Check         events.Check
	// Tree is what the checks before this one have checked, and GitTree the tree that a commit of it has; empty for the
	// first.
	Tree, GitTree string
	// Protect are the patterns of files that a command finds as they were when the run began.
	Protect []string
	// Gate is where a person has answered, nil where none is asked.
	Gate *run.Gate
	// Child is the run of the reviewer, which has ended, and Answer what it said; nil where none reviews.
	Child  *run.Child
	Answer string
}

// Next returns the check of a step that is due. A paused run is checked all the same: a check is nothing that its agent
// does.
func Next(s run.State, step string) (Duty, bool) {
	st := s.Step(step)
	if s.Status.Ended() || st == nil || st.Status != events.StepIsRunning || !st.Claimed().Open() {
		return Duty{}, false
	}
	if len(s.Beside(step)) > 0 {
		return Duty{}, false // what works beside the step may change its files
	}
	c := st.Claimed()
	var reviewer *run.Child
	answer := ""
	if _, place, asks := st.Reviewed(); asks {
		if reviewer = s.ChildAt(step, place); reviewer == nil || reviewer.Lives() || reviewer.Retry {
			return Duty{}, false // the reviewer decides
		}
		answer = s.SubAgentResults[reviewer.ID]
	}
	var gate *run.Gate
	if _, place, asks := st.Asks(); asks {
		if gate = s.GateFor(step, place); gate == nil || gate.Status == run.GatePending {
			return Duty{}, false // a person decides
		}
	}
	return Duty{Gate: gate, Child: reviewer, Answer: answer, Step: step, Claim: c.Number, Number: c.Passed + 1,
		Check: c.Checks[c.Passed], Tree: c.Tree,
		GitTree: c.GitTree, Protect: c.Protect}, true
}

// Evidence is the result of a check. Reason is why it did not pass, and empty where it did.
type Evidence struct {
	// Tree, Base, Restored and Commit say what was checked, as in events.CheckResult.
	Tree     string
	GitTree  string
	Base     string
	Restored []string
	Commit   string
	Judged   string
	ExitCode *int
	Output   string
	Ref      *events.Ref
	TookMS   int64
	Note     string
	Reason   string
}

// Finish records the result of a check; nothing where another result was stored first.
func Finish(s run.State, d Duty, e Evidence) []events.Payload {
	now, open := Next(s, d.Step)
	if !open || now.Claim != d.Claim || now.Number != d.Number {
		return nil
	}
	if now.Tree != "" && e.Tree != now.Tree {
		if e.Tree != "" {
			e.Reason = "the files of the workspace changed after the check before this one"
		}
		e.Tree = ""
	}
	if now.GitTree != "" && e.GitTree != now.GitTree {
		e.Reason = cmp.Or(e.Reason, "what a commit has of the files changed after the check before this one")
		e.GitTree = ""
	}
	r := events.CheckResult{Event: "check_passed", Step: d.Step, Claim: d.Claim, Check: d.Number, CheckKind: d.Check.Kind,
		Name: d.Check.String(), Tree: e.Tree, GitTree: e.GitTree, Base: e.Base, Restored: e.Restored, Commit: e.Commit,
		ExitCode: e.ExitCode, Output: Tail(e.Output), OutputRef: e.Ref,
		DurationMS: e.TookMS, Note: e.Note}
	if r.Judged = e.Judged; d.Gate != nil {
		r.Gate = d.Gate.ID
	}
	if d.Child != nil {
		r.Child = d.Child.ID
	}
	if e.Reason == "" && e.Tree != "" {
		return []events.Payload{&events.CheckPassedData{CheckResult: r}}
	}
	if e.Reason == "" {
		e.Reason = "it is not known what was checked"
	}
	r.Event = "check_failed"
	return []events.Payload{&events.CheckFailedData{CheckResult: r, Reason: strings.ToValidUTF8(
		e.Reason[:min(len(e.Reason), events.MaxCheckReason)], "")}}
}

// Tail is the end of an output that an event has room for.
func Tail(text string) string {
	return strings.ToValidUTF8(text[max(0, len(text)-events.MaxCheckOutput):], "")
}

// Trees are the trees of a commit of what was checked: those of the last steps that have passed their checks. Checked
// is false where no last step has any, and so anything may be delivered. A step that was checked outside of a
// repository has none.
func Trees(s run.State) (trees []string, checked bool) {
	if s.Plan == nil {
		return nil, false
	}
	for _, st := range s.Plan.Steps {
		if !s.Last(st) || s.AcceptOf(st) == nil {
			continue
		}
		checked = true
		if c := st.Claimed(); c != nil && c.Failed == "" && !c.Open() && c.GitTree != "" {
			trees = append(trees, c.GitTree)
		}
	}
	return trees, checked
}

// Verified are the checks that vouch for a run: those of its last steps, none unless each of these passed one, and on
// what is delivered; see events.CheckKind.Vouches for those that do nothing alone. Where they do not verify the run,
// they are those that passed.
func Verified(s run.State, d *events.Delivery) (all []events.Verified, verified bool) {
	if s.Plan == nil {
		return nil, false
	}
	delivered := d != nil && d.Commit != "" && d.Commit != d.Base
	verified = true
	for _, st := range s.Plan.Steps {
		if !s.Last(st) {
			continue
		}
		if st.Child != "" {
			c := s.ChildOf(st.ID)
			if st.Status != events.StepIsCompleted || c == nil || len(c.Verified) == 0 {
				verified = false
				continue
			}
			for _, v := range c.Verified {
				verified = verified && (!delivered || v.GitTree != "" && v.GitTree == d.Tree)
				v.Step = st.ID
				all = append(all, v)
			}
			continue
		}
		c := st.Claimed()
		if st.Status != events.StepIsCompleted || c == nil || c.Open() || c.Failed != "" {
			verified = false
			continue
		}
		vouches := slices.ContainsFunc(c.Checks, func(k events.Check) bool { return k.Kind.Vouches() })
		if !vouches || delivered && (c.GitTree == "" || c.GitTree != d.Tree) {
			verified = false
		}
		for _, check := range c.Checks {
			if check.Kind == events.CheckFiles {
				continue
			}
			all = append(all, events.Verified{Step: st.ID, Kind: check.Kind, Name: check.String(), Tree: c.Tree,
				GitTree: c.GitTree})
		}
	}
	return all[:min(len(all), events.MaxVerified)], verified && len(all) > 0
}
