// Package child decides about runs that steps, calls and reviews of other runs are given to: when one is spawned and
// what it may spend, how it begins, what its end means for what it was made for, and what it has to follow of its
// parent.
//
// Promises: nothing is spent below a run that was not held in it before, and what is held is never more than what is
// left. A child that failed is followed by exactly one more, which reads why. Deeper than the run permits none is made.
// A child never has more rights than its parent: its autonomy is at most the parent's. All that a child begins with
// follows from the log of its parent.
package child

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ID derives the id of the child of a step, or of a call or review of it.
type ID func(run, step, call string, attempt int) string

// maxError bounds what a step and the next attempt read of an error, in bytes.
const maxError = 4 << 10

// Next says what a run owes those that wait for a child: that one is spawned, or why none can be. A run that is not
// running is owed nothing; it is looked at again when it resumes.
func Next(s run.State, now time.Time, id ID) []events.Payload {
	if s.Status != events.Running || s.Plan == nil {
		return nil
	}
	var last lastChildren
	all := posts(s, &last)
	for _, p := range all {
		before := s.ChildAt(p.Step, p.Call)
		ref := events.ChildRef{Parent: s.HarnessID, Step: p.Step, Call: p.Call, Agent: p.Agent, Attempt: 1}
		why := ""
		if before != nil {
			ref.Attempt, why = before.Attempt+1, before.Error
		}
		// The next one is weighed when this one is held.
		return []events.Payload{spawn(s, p, found{&last, all}, ref, why, now, id)}
	}
	return nil
}

// Owes reports whether something waits for a child that it does not have.
func Owes(s run.State) bool {
	return s.Status == events.Running && s.Plan != nil && len(posts(s, &lastChildren{})) > 0
}

// Steady reports whether nothing of what happened between two looks at a run leaves something to do: for those of its
// children that are meant, for what waits for one, or for the run itself where the last of them has ended. What else is
// in its log by now, of their siblings for instance, is no reason to look once more.
func Steady(before, now run.State, meant func(*run.Child) bool) bool {
	if Owes(now) {
		return false
	}
	if now.Sequence == before.Sequence {
		return true
	}
	living := now.Living()
	if now.Status != before.Status || (now.Stopping == nil) != (before.Stopping == nil) ||
		now.Options.Autonomy != before.Options.Autonomy ||
		len(living) == 0 && len(before.Living()) > 0 {
		return false
	}
	return !slices.ContainsFunc(living, func(c *run.Child) bool {
		return meant(c) && (!before.Has(c.ID) || before.Wanted(c) != now.Wanted(c))
	})
}

// posts are what waits for a child that it does not have, in an order that depends on the state alone. It costs as much
// as there are steps, open calls and children: a run may have a thousand of each.
func posts(s run.State, last *lastChildren) []run.Post {
	var all []run.Post
	add := func(p run.Post, ok bool) {
		if !ok {
			return
		}
		if c := last.at(s, p.Step, p.Call); c == nil || c.Retry {
			all = append(all, p)
		}
	}
	for _, st := range s.Plan.Steps {
		if st.Status != events.StepIsRunning {
			continue
		}
		if add(s.PostOf(st, "")); st.Claim != nil {
			add(s.PostOf(st, events.CheckPlace(st.Claim.Number, st.Claim.Passed+1)))
		}
	}
	calls := slices.DeleteFunc(slices.Collect(maps.Values(s.Open)), func(c *run.Call) bool {
		return c.Phase != run.CallDelegated
	})
	slices.SortFunc(calls, func(a, b *run.Call) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, c := range calls {
		add(s.Post(c.Step, c.ID))
	}
	for _, c := range s.Children {
		if c.Background && c.Retry && s.Open[c.Call] == nil && last.at(s, c.Step, c.Call) == c {
			add(s.Post(c.Step, c.Call))
		}
	}
	return all
}

// lastChildren are the last children of steps, and those of calls and reviews, found together when the first of them is
// asked for. They are of one state.
type lastChildren struct {
	steps map[string]*run.Child
	calls map[place]*run.Child
}

type place struct{ step, call string }

func (l *lastChildren) at(s run.State, step, call string) *run.Child {
	switch {
	case call == "" && l.steps == nil:
		l.steps = make(map[string]*run.Child, count(s, true))
		for _, c := range s.Children {
			if c.Call == "" {
				l.steps[c.Step] = c
			}
		}
	case call != "" && l.calls == nil:
		l.calls = make(map[place]*run.Child, count(s, false))
		for _, c := range s.Children {
			if c.Call != "" {
				l.calls[place{c.Step, c.Call}] = c
			}
		}
	}
	if call == "" {
		return l.steps[step]
	}
	return l.calls[place{step, call}]
}

// count is how many children are those of steps, or of calls and reviews.
func count(s run.State, steps bool) (n int) {
	for _, c := range s.Children {
		if (c.Call == "") == steps {
			n++
		}
	}
	return n
}

// found is what is known of a state once its posts are.
type found struct {
	last  *lastChildren
	posts []run.Post
}

func spawn(s run.State, p run.Post, known found, ref events.ChildRef, why string, now time.Time, id ID) events.Payload {
	depth, root := s.Depth()
	if most := s.Options.MaxSubAgentDepth; depth+1 > most {
		return refused(ref, events.FinishDepth, fmt.Sprintf(
			"%s would begin run number %d in a chain of child runs, and at most %d may follow each other: let agent %s do the work itself, or raise max_sub_agent_depth of the task",
			ref.Place(), depth+1, most, s.AgentName))
	}
	reserve, reason, text := share(s, p, known)
	if reason != "" {
		return refused(ref, reason, text)
	}
	ref.Event, ref.Outcome, ref.Child = "sub_agent_spawned", events.ChildIsSpawned, id(s.HarnessID, p.Step, p.Call,
		ref.Attempt)
	return &events.ChildSpawnedData{ChildRef: ref, Root: root, Depth: depth + 1, Workspace: p.Workspace, Reserve: reserve,
		TimeoutMS: timeout(s, p.Agent, now), Error: why}
}

func refused(ref events.ChildRef, reason, text string) events.Payload {
	ref.Event, ref.Outcome = "sub_agent_finished", events.ChildIsRefused
	return &events.ChildFinishedData{ChildRef: ref, FinishReason: reason, Error: text}
}

// share is what a child may spend: an equal part of what is left for the steps that have not ended and hold nothing,
// and for the calls and reviews that wait for a child. It is no more than its agent's file says.
func share(s run.State, p run.Post, known found) (r events.Reserve, reason, text string) {
	a, where := s.Agents[p.Agent], events.ChildRef{Step: p.Step, Call: p.Call}.Place()
	o, err := (&events.Task{}).Resolve(a)
	if err != nil {
		return r, events.FinishError, fmt.Sprintf("agent %s: %v", a.Name, err)
	}
	n, left, calls := parts(s, known), budget.Left(s), s.BudgetLeft()
	if p.Call != "" {
		n = max(2, n) // whoever gives work away goes on after it
	}
	if calls == 0 && len(a.Tools) > 0 {
		return r, events.FinishToolCalls, fmt.Sprintf("the run has none of its %d tool calls left for %s; raise max_tool_calls",
			s.Options.MaxToolCalls, where)
	}
	if calls > 0 {
		r.ToolCalls = min(max(1, calls/int(n)), o.MaxToolCalls)
	}
	if s.Options.MaxTokens > 0 {
		if r.Tokens = atMost(left.Tokens/n, o.MaxTokens); r.Tokens <= 0 {
			return r, events.FinishTokens, fmt.Sprintf("the run has %d of its %d tokens left, too few for %s; raise the budget of the run",
				max(0, left.Tokens), s.Options.MaxTokens, where)
		}
	}
	if s.Options.MaxCost > 0 {
		if r.Cost = events.MicroUSD(atMost(int64(left.Cost)/n, int64(o.MaxCost))); r.Cost <= 0 {
			return r, events.FinishCost, fmt.Sprintf("the run has %s of its %s left, too little for %s; raise the budget of the run",
				max(0, left.Cost), s.Options.MaxCost, where)
		}
	}
	return r, "", ""
}

// parts is how many have a part in what is left of a budget: steps, and what of them waits for a child beside them.
func parts(s run.State, known found) (n int64) {
	for _, st := range s.Plan.Steps {
		c := known.last.at(s, st.ID, "")
		open := st.Status == events.StepIsPending || st.Status == events.StepIsReady || st.Status == events.StepIsRunning
		over := c != nil && (c.Lives() || st.Child != "" && !c.Retry) // it holds its part, or has had it
		if st.Kind == "" && open && !over && (st.Child == "" || st.Owed == 0 || st.Harness()) {
			n++
		}
	}
	for _, p := range known.posts {
		if p.Call != "" {
			n++
		}
	}
	return n
}

// atMost is a part, or a limit where that is less; 0 is no limit.
func atMost(part, limit int64) int64 {
	if limit > 0 && limit < part {
		return limit
	}
	return part
}

// timeout is how long a child may take, in milliseconds: what its agent's file says and what is left to the run.
func timeout(s run.State, agent string, now time.Time) int64 {
	limit := events.DefaultOptions().TimeoutMS
	if a := s.Agents[agent]; a.TimeoutMS != 0 {
		limit = a.TimeoutMS
	}
	if at, ok := s.Deadline(); ok {
		limit = atMost(max(1, at.Sub(now).Milliseconds()), limit)
	}
	return limit
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

// Settle records the end of a child in its parent; nothing where that is recorded.
func Settle(s run.State, c *run.Child, end run.State) []events.Payload {
	if r := end.Result; r != nil {
		d := events.ChildFinishedData{FinishReason: r.FinishReason, Output: r.Output, Error: clip(r.Error, maxError),
			Use: end.Used(), Artifacts: end.Artifacts.Len(), DurationMS: r.DurationMS, Verified: r.Verified}
		if w := r.Delivery; w != nil && w.Bundle != "" && w.Commit != w.Base {
			d.BranchAt = events.BranchAt{Branch: w.Branch, Commit: w.Commit}
		}
		return finished(s, c, d, r.Success)
	}
	return nil
}

// Missing records that a child cannot be carried out, and why. Nothing is known of what was spent, so that all that was
// held for it counts as used.
func Missing(s run.State, c *run.Child, why string) []events.Payload {
	return finished(s, c, events.ChildFinishedData{FinishReason: events.FinishError, Error: clip(why, maxError),
		Use: events.Use{Runs: 1, ToolCalls: c.Reserve.ToolCalls, Lost: events.Lost{Requests: 1, Tokens: c.Reserve.Tokens,
			Cost: c.Reserve.Cost}}}, false)
}

func finished(s run.State, c *run.Child, d events.ChildFinishedData, success bool) []events.Payload {
	now := s.ChildAt(c.Step, c.Call)
	if s.Status.Ended() || now == nil || now.ID != c.ID || !now.Lives() {
		return nil
	}
	d.ChildRef = events.ChildRef{Event: "sub_agent_finished", Parent: s.HarnessID, Child: c.ID, Step: c.Step,
		Call: c.Call, Agent: c.Agent, Attempt: c.Attempt, Outcome: events.ChildIsCompleted}
	if !success {
		d.Outcome = events.ChildIsFailed
		d.Retry = c.Attempt < events.MaxChildAttempts && s.Stopping == nil && d.FinishReason != events.FinishStopped &&
			s.Wanted(now)
	}
	return []events.Payload{&d}
}

// Close is the end of a step whose last child has ended; nothing before that.
func Close(s run.State, st *run.Step) []events.Payload {
	c := s.ChildOf(st.ID)
	if c == nil || c.Lives() || c.Retry || st.Owed == 0 {
		return nil
	}
	if c.Outcome == events.ChildIsCompleted {
		return []events.Payload{&events.StepFinishedData{Event: "step_finished", Step: st.ID, Output: s.SubAgentResults[c.ID],
			FinishReason: c.FinishReason, Checkpoint: s.NextCheckpoint()}}
	}
	d := &events.StepFailedData{Event: "step_failed", Step: st.ID, Error: c.Error, FinishReason: c.FinishReason,
		RunReason: c.FinishReason, Checkpoint: s.NextCheckpoint()}
	if c.Outcome == events.ChildIsFailed {
		d.Error = fmt.Sprintf("child run %s (attempt %d of %d) failed with %s: %s", c.ID, c.Attempt, events.MaxChildAttempts,
			c.FinishReason, c.Error)
		d.FinishReason, d.RunReason = events.FinishChild, ""
	}
	return []events.Payload{d}
}

// Follow is what a child has to follow of its parent: it stops with it or with what it is for, is paused and resumed
// with it, and is as careful as it has become. A child that a person paused stays paused.
func Follow(parent run.State, c *run.Child, s run.State, now time.Time) ([]events.Payload, error) {
	by := lifecycle.Wish{By: "run " + parent.HarnessID, Reason: "its parent is paused: " + parent.PauseReason}
	switch {
	case s.Status.Ended() || s.Sequence == 0 || s.Stopping != nil:
		return nil, nil
	case parent.Status.Ended() || parent.Stopping != nil:
		by.Reason = "its parent is stopping"
		return lifecycle.Stop(s, now, by)
	case !parent.Wanted(c):
		by.Reason = "what it was for has ended"
		return lifecycle.Stop(s, now, by)
	case parent.Status == events.Paused && s.Status == events.Running:
		say, err := lifecycle.Pause(s, now, by)
		if len(say) == 1 {
			if p, ok := say[0].(*events.RunPausedData); ok {
				p.Parent = true
			}
		}
		return say, err
	case parent.Status == events.Running && s.PausedByParent:
		return lifecycle.Resume(s, by)
	case s.Options.Autonomy > parent.Options.Autonomy:
		return lifecycle.Adjust(s, parent.Options.Autonomy, by)
	}
	return nil, nil
}
