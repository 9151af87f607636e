package runtest

import (
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// CheckedCreated creates a run whose last steps two commands decide about, after two claims at most.
func CheckedCreated() *events.RunCreatedData {
	c := Created()
	c.Accept = &events.Accept{MaxAttempts: 2, Checks: []events.Check{{Kind: events.CheckCommand, Run: "make"},
		{Kind: events.CheckCommand, Run: "make check", Timeout: "1m"}}}
	return c
}

// Claimed claims that a step is done.
func Claimed(s run.State, step string) *events.StepClaimedData {
	st := s.Step(step)
	a := s.AcceptOf(st)
	d := &events.StepClaimedData{Event: eventOf(events.StepClaimed), Step: step, Claim: 1, Most: a.Attempts(),
		Turns: st.Turns, Checks: a.Checks, Protect: a.Protect}
	if st.Claim != nil {
		d.Claim = st.Claim.Number + 1
	}
	return d
}

// PassChecks claims a step and passes all of its checks; it appends nothing for a step without checks.
func PassChecks(b *Builder, step string) {
	if s := b.State(); s.AcceptOf(s.Step(step)) != nil {
		b.Append(Claimed(s, step))
	}
	for s := b.State(); s.Step(step).Claimed().Open(); s = b.State() {
		if _, place, asks := s.Step(step).Reviewed(); asks && s.ChildAt(step, place) == nil {
			may := spawns(s, step, place)
			b.Append(may[len(may)-1])
			b.Append(ChildEndAt(b.State(), step, place, events.ChildIsCompleted, false, events.Use{Runs: 1}))
		}
		b.Append(CheckYes(b.State(), step))
	}
}

// CheckYes passes the check of a step that is due, CheckNo fails it.
func CheckYes(s run.State, step string) *events.CheckPassedData {
	return &events.CheckPassedData{CheckResult: checkOf(s, step, events.CheckPassed)}
}

// CheckNo fails the check of a step that is due.
func CheckNo(s run.State, step, why string) *events.CheckFailedData {
	return &events.CheckFailedData{CheckResult: checkOf(s, step, events.CheckFailed), Reason: why}
}

func checkOf(s run.State, step string, k events.Kind) events.CheckResult {
	c := s.Step(step).Claimed()
	check, code := c.Checks[c.Passed], 0
	if k == events.CheckFailed {
		code = 1
	}
	result := events.CheckResult{Event: eventOf(k), Step: step, Claim: c.Number, Check: c.Passed + 1,
		CheckKind: check.Kind,
		Name:      check.String(), Tree: strings.Repeat("ab", 32), ExitCode: &code, Output: "it ran", DurationMS: 20}
	if k := s.ChildAt(step, events.CheckPlace(c.Number, c.Passed+1)); k != nil {
		result.Child = k.ID
	}
	return result
}

// checkMoves are what may come of the checks of a step.
func checkMoves(s run.State, st *run.Step) []events.Payload {
	c := st.Claimed()
	_, place, reviewed := st.Reviewed()
	k := s.ChildAt(st.ID, place)
	switch {
	case reviewed && (k == nil || k.Retry):
		return append(spawns(s, st.ID, place), CheckNo(s, st.ID, "no reviewer"))
	case reviewed && k.Outcome != events.ChildIsCompleted:
		return []events.Payload{CheckNo(s, st.ID, "the reviewer is gone")}
	case c.Open():
		return []events.Payload{CheckYes(s, st.ID), CheckNo(s, st.ID, "exit status 1")}
	case c == nil && st.Final && s.AcceptOf(st) != nil:
		return []events.Payload{Claimed(s, st.ID)}
	}
	return nil
}
