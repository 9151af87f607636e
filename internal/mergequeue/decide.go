package mergequeue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// ID derives the id of the run of an attempt.
type ID func(queue string, number, attempt int) string

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// Unknown means that there is no such queue, or no such entry in it; Exists that there is one.
	Unknown      = "unknown_queue"
	UnknownEntry = "unknown_entry"
	Exists       = "queue_exists"
	// Full means that as many entries wait as may.
	Full = "queue_full"
	// Running means that a run tests the entry: only its end ends the attempt.
	Running = "entry_running"
	// BadMove means that the entry is not in a state for it.
	BadMove = "bad_move"
)

// Actions of a merge queue's control subject.
const (
	Add   = "add"
	Retry = "retry"
	Drop  = "drop"
)

// Actions lists them.
func Actions() []string { return []string{Add, Retry, Drop} }

// Wish is a control with where it came from: Input is its position in the input stream.
type Wish struct {
	events.QueueControl
	Queue string
	Input uint64
}

// Check returns what is wrong with a control, in words for who sent it.
func Check(c events.QueueControl) error {
	switch {
	case !slices.Contains(Actions(), c.Action):
		return fmt.Errorf("unknown action %.80q: the actions are %s", c.Action, strings.Join(Actions(), ", "))
	case (c.Action == Add) != (c.Spec != nil):
		return fmt.Errorf("a spec goes with %s, and it needs one", Add)
	case (c.Action == Add) != (c.Work == ""):
		return fmt.Errorf("work names the work item of an entry: it goes with %s and %s, and they need it", Retry, Drop)
	case c.Action == Add:
		return c.Spec.Check()
	}
	return events.CheckID("work", c.Work)
}

// Steer carries out a control, or returns a *Refused.
func Steer(s State, w Wish, now time.Time) (State, error) {
	if s.Took(w.Input) {
		return s, nil
	}
	by := events.WorkBy{Input: w.Input, By: w.By, Reason: w.Reason}
	switch {
	case w.Action == Add && s.Exists():
		return s, &Refused{Exists, fmt.Sprintf("there is a merge queue %q", s.ID), "give the new one another name"}
	case w.Action == Add:
		return s.then(&events.QueueCreatedData{Event: "queue_created", Queue: w.Queue, Spec: *w.Spec, WorkBy: by}, now), nil
	case !s.Exists():
		return s, NotThere(w.Queue)
	}
	e, ok := s.Of(w.Work, 0)
	switch {
	case !ok:
		return s, &Refused{UnknownEntry, fmt.Sprintf("merge queue %q has no entry of work item %q", s.ID, w.Work),
			"inspan queue show " + s.ID + " lists its entries"}
	case e.State == events.EntryIsTaken:
		return s, &Refused{Running, fmt.Sprintf("run %s tests the entry of work item %q", e.Landing, w.Work),
			"its end ends the attempt: wait for it, or end it with inspan stop " + e.Landing}
	case !e.EndedAt.IsZero():
		return s, &Refused{BadMove, fmt.Sprintf("the entry of work item %q is %s", w.Work, e.State),
			"deliver the item again: inspan sling " + w.Work + " AGENT --deliver"}
	case w.Action == Drop:
		return s.then(&events.QueueDroppedData{Event: "queue_dropped", Number: e.Number, WorkBy: by}, now), nil
	}
	return s.then(&events.QueueRetriedData{Event: "queue_retried", Number: e.Number, WorkBy: by}, now), nil
}

// NotThere says that there is no such queue.
func NotThere(id string) *Refused {
	return &Refused{Unknown, fmt.Sprintf("there is no merge queue %q", id),
		"inspan queue list lists those of the station; inspan queue add makes one"}
}

// Enqueue puts a delivered branch into the queue, once, or returns a *Refused.
func Enqueue(s State, id string, q events.Queued, now time.Time) (State, error) {
	if _, there := s.Of(q.Work, q.Epoch); there {
		return s, nil
	}
	switch e, there := s.Of(q.Work, 0); {
	case !s.Exists():
		return s, NotThere(id)
	case there && e.EndedAt.IsZero():
		return s, &Refused{BadMove, fmt.Sprintf("entry %d of work item %q has not ended", e.Number, q.Work),
			"wait for its end, or drop it: inspan queue drop " + s.ID + " " + q.Work}
	case len(s.Entries) >= events.MaxQueued:
		return s, &Refused{Full, fmt.Sprintf("%d entries wait in merge queue %q", len(s.Entries), s.ID),
			"the delivery goes on when one of them has ended"}
	}
	return s.then(&events.QueueEnqueuedData{Event: "queue_enqueued", Number: s.Last + 1, Queued: q}, now), nil
}

// Take takes the first entry whose time has come, where none is taken.
func Take(s State, now time.Time, id ID) State {
	if _, is := s.Taken(); is {
		return s
	}
	for _, e := range s.Entries {
		if !now.Before(e.NotBefore) {
			return s.then(&events.QueueTakenData{Event: "queue_taken", Number: e.Number, Attempt: e.Attempt + 1,
				Run: id(s.ID, e.Number, e.Attempt+1)}, now)
		}
	}
	return s
}

// Wake is when an entry is to be taken that waits for a time; ok is false where none does, or one is taken.
func Wake(s State) (at time.Time, ok bool) {
	if _, is := s.Taken(); is {
		return at, false
	}
	for _, e := range s.Entries {
		if !ok || e.NotBefore.Before(at) {
			at, ok = e.NotBefore, true
		}
	}
	return at, ok
}

// Finish ends the attempt of a run. It changes nothing where that is not the one that is made.
func Finish(s State, number, attempt int, run string, o events.LandingOutcome, now time.Time) State {
	e, is := s.Taken()
	if !is || e.Number != number || e.Attempt != attempt || e.Landing != run {
		return s
	}
	if o.Code == "" {
		return s.then(&events.QueueLandedData{Event: "queue_landed", Number: number, Attempt: attempt, Run: run,
			Base: o.Base, Commit: o.Commit, Tree: o.Tree, How: o.How,
			Removed: o.Removed, Kept: clip(o.Kept)}, now)
	}
	code, reason := o.Code, clip(cmp.Or(o.Reason, o.Code))
	again := code == events.LandingMoved || code == events.LandingUnreachable
	switch {
	case code == events.LandingMoved && e.Code == events.LandingMoved && e.Base == o.Base:
		code, again = events.LandingRejected, false // the target did not move: it is the remote that refuses
	case attempt >= events.MaxLandings:
		again = false
	}
	if !again {
		return s.then(&events.QueueBouncedData{Event: "queue_bounced", Number: number, Attempt: attempt, Base: o.Base,
			Code: code, Reason: reason}, now)
	}
	d := &events.QueueReturnedData{Event: "queue_returned", Number: number, Attempt: attempt, Base: o.Base, Code: code,
		Reason: reason}
	if code == events.LandingUnreachable {
		d.NotBefore = now.Add(min(events.LandingDelay<<min(attempt-1, 10), events.MaxLandingDelay))
	}
	return s.then(d, now)
}

func clip(text string) string {
	if len(text) > events.MaxReason {
		text = text[:events.MaxReason]
	}
	return strings.ToValidUTF8(text, "")
}

// CheckStep is the id of the step of a landing run that has the checks decide about the merged tree.
const CheckStep = "check"

// commands are those of some checks that judge a tree and not what an agent said of it.
func commands(a *events.Accept) *events.Accept {
	if a == nil {
		return nil
	}
	of := &events.Accept{Protect: a.Protect}
	for _, c := range a.Checks {
		if c.Kind == events.CheckCommand {
			of.Checks = append(of.Checks, c)
		}
	}
	if len(of.Checks) == 0 {
		return nil
	}
	return of
}

// TaskOf is the task of the run that makes an attempt. item is what decides about the work item: its commands are
// checks beside those of the queue. No model is asked: the plan is the checks alone.
func TaskOf(s State, e events.QueueEntry, item *events.Accept) events.Task {
	yes, no := true, false
	accept := *s.Spec.Accept.Also(commands(item))
	accept.MaxAttempts = 1 // the tree is what it is
	return events.Task{ID: e.Landing, Agent: s.Spec.Agent, Repo: s.Spec.Repo, Branch: s.Spec.Branch, WorkID: e.Work,
		By: "queue " + s.ID,
		Task: fmt.Sprintf("Merge %s at %s into %s, check the merged tree and push it: entry %d of the merge queue %s, attempt %d.",
			e.Branch, e.Commit, s.Spec.Branch, e.Number, s.ID, e.Attempt),
		Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: CheckStep, Description: "Check the merged tree.",
			Accept: &accept, Flow: &events.StepFlow{Check: true}}}},
		Git: &events.TaskGit{GitSettings: events.GitSettings{AutoBranch: &yes, BranchPrefix: "landing/", AutoCommit: &no,
			WorkingBranch: s.Spec.Branch, Collaboration: events.Sequential, Push: &yes}}}
}
