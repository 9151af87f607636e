package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of merge queues.
const (
	// MaxQueued is how many entries wait in one queue, MaxQueueDone how many that have ended its row still names.
	MaxQueued    = 64
	MaxQueueDone = 64
	// MaxLandings is how often one entry is tried before it bounces.
	MaxLandings = 12
	MaxRepo     = 1 << 10
	MaxBranch   = 255
)

// Times of a queue: how long an entry waits whose remote did not answer, doubled each time up to MaxLandingDelay.
const (
	LandingDelay    = 30 * time.Second
	MaxLandingDelay = 15 * time.Minute
)

// LandingRunPrefix is what the ids of the runs begin with that test and land an entry. No task of an outsider may have
// such an id.
const LandingRunPrefix = "landing_"

// QueueSpec is which branch a merge queue lands on, and what it tests with.
type QueueSpec struct {
	// Repo is the address of the repository, Branch the branch that is landed on.
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	// Agent is the definition whose sandbox and git settings its runs have; no model is asked.
	Agent string `json:"agent"`
	// Accept decides about the merged tree, with what decides about the work item.
	Accept *Accept `json:"accept" jsonschema:"oneof_type=object;string"`
	// ReviewTo and Oversight are the addresses that get the notices of deliveries that name none.
	ReviewTo  string `json:"review_to,omitempty"`
	Oversight string `json:"oversight,omitempty"`
	// KeepBranches leaves branches at the remote that have landed.
	KeepBranches bool `json:"keep_branches,omitempty"`
}

// Check returns what is wrong with a spec, in words for whoever wrote it.
func (s QueueSpec) Check() error {
	var err error
	switch {
	case s.Repo == "":
		err = errors.New("the queue has no repo")
	case s.Branch == "":
		err = errors.New("the queue has no branch to land on")
	case s.Accept == nil:
		err = errors.New("the queue has no checks: name what decides about the merged tree with accept")
	}
	err = firstOf(err, checkText("repo", s.Repo, MaxRepo, false), checkText("branch", s.Branch, MaxBranch, false))
	if err == nil {
		err = CheckID("agent", s.Agent)
	}
	if fault := s.Accept.Fault(); err == nil && fault != "" {
		err = fmt.Errorf("accept: %s", fault)
	}
	return firstOf(err, checkNoticed("review_to", s.ReviewTo), checkNoticed("oversight", s.Oversight))
}

// EntryState says what became of an entry of a merge queue.
type EntryState string

// The states of an entry. The last three are ends.
const (
	EntryWaits    EntryState = "waiting"
	EntryIsTaken  EntryState = "taken"
	EntryIsLanded EntryState = "landed"
	EntryBounced  EntryState = "bounced"
	EntryDropped  EntryState = "dropped"
)

// Queued is a branch that a delivery gives to a merge queue.
type Queued struct {
	Work  string `json:"work"`
	Epoch int    `json:"epoch"`
	// Run made the work, as Agent.
	Run   string `json:"run"`
	Agent string `json:"agent,omitempty"`
	// Branch of the repository, and the commit that was delivered: no other is landed.
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// QueueEntry is one branch in a merge queue.
type QueueEntry struct {
	// Number counts the entries of the queue from 1.
	Number int `json:"number"`
	Queued
	State EntryState `json:"state"`
	// Attempt counts the times that it was taken, Landing is the run of the last one.
	Attempt int    `json:"attempt,omitempty"`
	Landing string `json:"landing,omitempty"`
	// NotBefore is when it is tried again.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Target is the branch of the queue. Base is the commit of it that the last attempt merged into, Landed the one that
	// has the work.
	Target string `json:"target"`
	Base   string `json:"base,omitempty"`
	Landed string `json:"landed,omitempty"`
	Tree   string `json:"tree,omitempty"`
	// Removed is true where the remote has the branch no more since it landed; else Kept says why it has.
	Removed bool   `json:"removed,omitempty"`
	Kept    string `json:"kept,omitempty"`
	// Code and Reason say why the last attempt did not land it.
	Code       string    `json:"code,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	EnqueuedAt time.Time `json:"enqueued_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
}

// Codes of attempts that did not land an entry.
const (
	// LandingConflict: both sides changed the same places. LandingChecks: a check failed on the merged tree.
	LandingConflict = "conflict"
	LandingChecks   = "checks_failed"
	// LandingMoved: the target moved while it was tested; it is tested again. LandingRejected: the remote refuses the push
	// although the target did not move.
	LandingMoved    = "target_moved"
	LandingRejected = "rejected"
	// LandingGone: the branch is not at the remote. LandingRewritten: it is at another commit than the one delivered.
	LandingGone      = "branch_missing"
	LandingRewritten = "branch_rewritten"
	// LandingUnreachable: the remote did not answer; it is tried again later.
	LandingUnreachable = "unreachable"
	// LandingDenied: a person, a guard rule or a hook refused it. LandingFailed: anything else.
	LandingDenied = "denied"
	LandingFailed = "landing_failed"
	// LandingDropped: somebody took the entry out.
	LandingDropped = "dropped"
	// LandingWrongRepo: the delivery was pushed to another repository than that of the queue.
	LandingWrongRepo = "wrong_repository"
)

// LandingOutcome is what the run of an attempt came to, as its log tells. Code is empty where the target branch has the
// work: then Commit is the one of that branch, and How as in QueueLandedData.
type LandingOutcome struct {
	Base, Commit, Tree, How string
	Code, Reason            string
	// Removed is true where the remote has the branch of the entry no more; else Kept says why.
	Removed bool
	Kept    string
}

// LandingRef names the attempt that a run makes, and what it is to land.
type LandingRef struct {
	Queue   string `json:"queue"`
	Number  int    `json:"number"`
	Attempt int    `json:"attempt"`
	Branch  string `json:"branch"`
	Commit  string `json:"commit"`
	Target  string `json:"target"`
	// Keep leaves the branch at the remote once it has landed.
	Keep bool `json:"keep,omitempty"`
}

// MergeQueue is all that a station knows of a merge queue. It is the fold of its log; the row in the bucket of sessions
// is a view of it.
type MergeQueue struct {
	ID   string    `json:"queue"`
	Spec QueueSpec `json:"spec"`
	// Last is the number of the last entry.
	Last int `json:"last"`
	// Entries wait or are taken, in their order; at most one is taken. Done are the last that have ended.
	Entries   []QueueEntry `json:"entries,omitempty"`
	Done      []QueueEntry `json:"done,omitempty"`
	By        string       `json:"by,omitempty"`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (q MergeQueue) Took(input uint64) bool { return slices.Contains(q.Inputs, input) }

// Of returns the entry of a delivery, the living one first.
func (q MergeQueue) Of(work string, epoch int) (e QueueEntry, ok bool) {
	for _, all := range [][]QueueEntry{q.Entries, q.Done} {
		for _, e := range slices.Backward(all) {
			if e.Work == work && (epoch == 0 || e.Epoch == epoch) {
				return e, true
			}
		}
	}
	return e, false
}

// Taken returns the entry that a run tests; ok is false where none is.
func (q MergeQueue) Taken() (e QueueEntry, ok bool) {
	i := slices.IndexFunc(q.Entries, func(e QueueEntry) bool { return e.State == EntryIsTaken })
	if i < 0 {
		return e, false
	}
	return q.Entries[i], true
}

// QueueControl is what a user publishes to make or steer a merge queue.
type QueueControl struct {
	// Action is add, retry or drop.
	Action string `json:"action"`
	// Spec goes with add.
	Spec *QueueSpec `json:"spec,omitempty"`
	// Work names the work item of an entry, with retry and drop.
	Work string `json:"work,omitempty"`
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Check returns what is wrong with who steers a queue and why.
func (c *QueueControl) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }

// QueueSubject is where users make and steer a merge queue.
func QueueSubject(station, queue string) string {
	return strings.Join([]string{"station", station, QueueAggregate, queue, "control"}, ".")
}
