// Package acceptance decides about acceptance checks: when a step is claimed, which check is due, what its result means.
//
// Promises: a claim of the agent is no end of a step. The checks are those of the task's author and of the agent's
// definition, never of a model. A result counts for the claim that it was made for and for no later one, and the first
// result of a check that is stored is the one that counts.
package acceptance

import (
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
	// Tree is what the checks before this one have checked; empty for the first.
	Tree string
	// Protect are the patterns of files that a command finds as they were when the run began.
	Protect []string
}

// Next returns the check of a step that is due. A paused run is checked all the same: a check is nothing that its agent
// does.
func Next(s run.State, step string) (Duty, bool) {
	st := s.Step(step)
	if s.Status.Ended() || st == nil || st.Status != events.StepIsRunning || !st.Claimed().Open() {
		return Duty{}, false
	}
	c := st.Claimed()
	return Duty{Step: step, Claim: c.Number, Number: c.Passed + 1, Check: c.Checks[c.Passed], Tree: c.Tree,
		Protect: c.Protect}, true
}

// Evidence is the result of a check. Reason is why it did not pass, and empty where it did.
type Evidence struct {
	// Tree, Base, Restored and Commit say what was checked, as in events.CheckResult.
	Tree     string
	Base     string
	Restored []string
	Commit   string
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
	r := events.CheckResult{Event: "check_passed", Step: d.Step, Claim: d.Claim, Check: d.Number, CheckKind: d.Check.Kind,
		Name: d.Check.String(), Tree: e.Tree, Base: e.Base, Restored: e.Restored, Commit: e.Commit, ExitCode: e.ExitCode, Output: Tail(e.Output), OutputRef: e.Ref,
		DurationMS: e.TookMS, Note: e.Note}
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

// Verified are the checks that vouch for a run: those of its last steps, none unless each of these passed one. A check
// that only looks at what the agent left (an artifact) vouches for nothing alone.
func Verified(s run.State) []events.Verified {
	if s.Plan == nil {
		return nil
	}
	var all []events.Verified
	for _, st := range s.Plan.Steps {
		if !s.Last(st) {
			continue
		}
		c := st.Claimed()
		if st.Status != events.StepIsCompleted || c == nil || c.Open() || c.Failed != "" || !slices.ContainsFunc(c.Checks,
			func(k events.Check) bool { return k.Kind != events.CheckArtifact }) {
			return nil
		}
		for _, check := range c.Checks {
			all = append(all, events.Verified{Step: st.ID, Kind: check.Kind, Name: check.String(), Tree: c.Tree})
		}
	}
	return all[:min(len(all), events.MaxVerified)]
}
