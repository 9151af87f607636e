// Package patrol looks at the run of an agent: whether it goes on, and where its work stands.
//
// Promises: it is a function of the events of the run and of the time, and asks no model. A run that has any sign of
// life within its threshold is not found silent: a tool call that was started is one, however long it says nothing,
// since the toolrunner that carries it out holds a lease and ends it at its timeout.
package patrol

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Signals of a run that does not go on.
const (
	// Silent means that the run owes a next event and that none came for SilentAfter.
	Silent = "silent"
	// NoAnswer means that the run took no turn within NoAnswerAfter of its start.
	NoAnswer = "no_answer"
	// LongCall means that a call runs for longer than LongCallAfter.
	LongCall = "long_call"
	// Outage means that a provider did not answer for OutageAfter.
	Outage = "outage"
	// Waits means that a person did not answer a gate, or resume the run, for WaitsAfter.
	Waits = "waits"
	// Dirty means that the agent is idle, and that the working tree of its last run has had changes that are in no commit
	// for DirtyAfter.
	Dirty = "dirty"
)

// Thresholds of the signals.
const (
	NoAnswerAfter = 10 * time.Minute
	SilentAfter   = 15 * time.Minute
	OutageAfter   = time.Hour
	LongCallAfter = 2 * time.Hour
	WaitsAfter    = 24 * time.Hour
	DirtyAfter    = 30 * time.Minute
)

// Rule is a row of the table of signals.
type Rule struct {
	Signal    string
	Event     string
	Threshold time.Duration
	Severity  events.Severity
}

// Rules is the table: the signal, the event since which the time counts, the threshold and the severity at first.
func Rules() []Rule {
	return []Rule{
		{NoAnswer, "the start of the run", NoAnswerAfter, events.SeverityMedium},
		{Silent, "the last event of the run, where no call is under way", SilentAfter, events.SeverityHigh},
		{LongCall, "the start of the call", LongCallAfter, events.SeverityLow},
		{Outage, "the first request that failed", OutageAfter, events.SeverityMedium},
		{Waits, "the gate or the pause", WaitsAfter, events.SeverityLow},
		{Dirty, "the end of the last run, whose working tree has changes that are in no commit", DirtyAfter,
			events.SeverityLow},
	}
}

// Finding is what a look found. Signal is empty where all is well.
type Finding struct {
	Signal   string
	Severity events.Severity
	Since    time.Time
	Text     string
}

// Look judges a run at a time, with the thresholds of the role of its agent.
func Look(s run.State, now time.Time, of events.RoleHealth) Finding {
	signal, since, text := sign(s)
	for _, r := range Rules() {
		if own := map[string]int64{NoAnswer: of.PingMS, Silent: of.StuckMS}[r.Signal]; own > 0 {
			r.Threshold = time.Duration(own) * time.Millisecond
		}
		if r.Signal == signal && now.Sub(since) >= r.Threshold {
			return Finding{r.Signal, r.Severity, since, text}
		}
	}
	return Finding{}
}

// Left is what the working tree of a run had that no commit has, as far as its events say; nil where they say nothing.
func Left(s run.State) *events.Uncommitted {
	for _, c := range run.Backward(s.ToolCallHistory) {
		if c.Uncommitted != nil {
			return c.Uncommitted
		}
	}
	return nil
}

// LookIdle judges an idle agent at a time: what its last run of which that is known left, and when its last run ended.
func LookIdle(left *events.Uncommitted, ended, now time.Time) Finding {
	if left == nil || left.Paths == 0 || now.Sub(ended) < DirtyAfter {
		return Finding{}
	}
	text := fmt.Sprintf("its directory has changes in %d files that no commit has", left.Paths)
	if left.Paths == 1 {
		text = "its directory has changes in 1 file that no commit has"
	}
	if left.Branch != "" {
		text += ", on branch " + left.Branch
	}
	return Finding{Dirty, events.SeverityLow, ended, text + "; commit or discard them, or have the agent do it"}
}

// sign is what a run may be found guilty of, and since when it waits.
func sign(s run.State) (signal string, since time.Time, text string) {
	if s.Sequence == 0 || s.Status.Ended() || s.Status == events.Created {
		return "", since, ""
	}
	if s.Status == events.Paused && s.Stopping == nil {
		return Waits, s.UpdatedAt, "run " + s.HarnessID + " is paused; inspan resume " + s.HarnessID
	}
	if gates := s.Waiting(); len(gates) > 0 {
		return Waits, gates[0].CreatedAt, "run " + s.HarnessID + " waits at a gate; inspan approve " + s.HarnessID + "/" + gates[0].ID
	}
	for _, c := range s.Open {
		if c.Phase != run.CallStarted && c.Phase != run.CallDelegated {
			continue
		}
		if signal == "" || c.StartedAt.Before(since) {
			signal, since, text = LongCall, c.StartedAt, fmt.Sprintf("call %s of %s in run %s is under way", c.ID, c.Tool,
				s.HarnessID)
		}
	}
	if signal != "" || len(s.Living()) > 0 {
		return signal, since, text
	}
	if o := s.Outages(); len(o) > 0 {
		return Outage, o[0].Since, fmt.Sprintf("run %s waits for the provider %s since %d requests", s.HarnessID,
			o[0].Provider, o[0].Tries)
	}
	if s.Turns().Len() == 0 && s.StartedAt != nil {
		return NoAnswer, *s.StartedAt, "run " + s.HarnessID + " took no turn; inspan why " + s.HarnessID
	}
	return Silent, s.UpdatedAt, "run " + s.HarnessID + " goes on with nothing; inspan why " + s.HarnessID
}

// AccountOf is where the work of a run stands, from its events alone: its last words, its plan, its branch and what it
// was given.
func AccountOf(s run.State) events.AgentAccount {
	a := events.AgentAccount{Run: s.HarnessID}
	if s.Created == nil {
		return a
	}
	if a.Work = s.Created.WorkID; s.Created.Work != nil {
		a.Work = s.Created.Work.Work
	}
	if g := s.Created.Git; g != nil {
		if a.Branch = g.NewBranch; a.Branch == "" {
			a.Branch = g.WorkingBranch
		}
	}
	if s.Plan != nil && len(s.Plan.Steps) > 1 {
		for _, st := range s.Plan.Steps {
			a.Plan = append(a.Plan, fmt.Sprintf("%s (%s): %s", st.ID, st.Status, strings.Join(strings.Fields(st.Description),
				" ")))
		}
	}
	for _, t := range run.Backward(s.Turns()) {
		if text := strings.TrimSpace(t.Text); text != "" {
			a.Summary = text
			break
		}
	}
	var given []string
	for _, m := range s.Messages {
		given = append(given, m.Text)
	}
	a.Task = strings.Join(given, "\n")
	return a
}
