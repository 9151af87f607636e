package view

import (
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Verified says in one line which checks vouch for a run that has completed: "unverified" where none does, "" where it
// has not completed.
func Verified(r *events.Result) string {
	if r == nil || !r.Success {
		return ""
	}
	var names []string
	for _, v := range r.Verified {
		names = append(names, v.Name)
	}
	text := VerifiedBy(names)
	if names = nil; len(r.Verified) > 0 || len(r.Passed) == 0 {
		return text
	}
	for _, v := range r.Passed {
		names = append(names, v.Name)
	}
	return text + " (passed: " + strings.TrimPrefix(VerifiedBy(names), "verified by ") + ")"
}

// VerifiedBy says which checks vouch for a run that has completed, each once: "unverified" where there is none.
func VerifiedBy(names []string) string {
	if len(names) == 0 {
		return "unverified"
	}
	var once []string
	seen := map[string]bool{}
	for _, name := range names {
		if !seen[name] {
			seen[name], once = true, append(once, name)
		}
	}
	return "verified by " + Clip(strings.Join(once, ", "), 200)
}

// CheckState is where an acceptance check stands.
type CheckState string

// The states of a check.
const (
	CheckOpen   CheckState = "open"
	CheckPassed CheckState = "passed"
	CheckFailed CheckState = "failed"
)

// ClaimNode is one time that the agent of a step called it done: the claim of a number, of at most Most.
type ClaimNode struct {
	At           time.Time
	Number, Most int
	Checks       []CheckNode
}

// CheckNode is an acceptance check of the last claim of a step.
type CheckNode struct {
	Name  string
	State CheckState
	// Reason why it failed, and the end of its output.
	Reason string
	Output []string
	Took   time.Duration
}

// checkLines is how many lines of the end of a check's output are shown.
const checkLines = 5

// checkNodes have the event types about claims.
var checkNodes = []nodeRow{
	node(func(t *Tree, f events.Event, d *events.StepClaimedData) {
		st := t.steps[d.Step]
		if st == nil {
			return
		}
		st.Claim = ClaimNode{At: f.Time, Number: d.Claim, Most: d.Most}
		for _, c := range d.Checks {
			st.Claim.Checks = append(st.Claim.Checks, CheckNode{Name: c.String(), State: CheckOpen})
		}
	}),
	node(func(t *Tree, _ events.Event, d *events.CheckPassedData) {
		t.checked(d.CheckResult, func(c *CheckNode, _ *StepNode) { c.State = CheckPassed })
	}),
	node(func(t *Tree, f events.Event, d *events.CheckFailedData) {
		t.checked(d.CheckResult, func(c *CheckNode, st *StepNode) {
			c.State, c.Reason, c.Output = CheckFailed, d.Reason, LastLines(d.Output, checkLines)
			if st.Claim.Number < st.Claim.Most {
				st.Asked = f.Time
			}
		})
	}),
}

func (t *Tree) checked(d events.CheckResult, change func(c *CheckNode, st *StepNode)) {
	if st := t.steps[d.Step]; st != nil && d.Check >= 1 && d.Check <= len(st.Claim.Checks) {
		c := &st.Claim.Checks[d.Check-1]
		c.Took = time.Duration(d.DurationMS) * time.Millisecond
		change(c, st)
	}
}

// LastLines returns the last lines of a text that are not empty, at most n.
func LastLines(text string, n int) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	return lines[max(0, len(lines)-n):]
}
