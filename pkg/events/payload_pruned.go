package events

import (
	"fmt"
	"slices"
	"time"
)

// RunPrunedData stands for all events of a run that had ended: they are in a backup, and were left out of the log to
// make room (PLUS-24). It is the only event of its run at this place: its sequence follows theirs, and its prevhash is
// the hash of the last of them.
type RunPrunedData struct {
	Event string `json:"event"`
	// Covered is the sequence of the last event that is in the backup.
	Covered uint64 `json:"covered_sequence"`
	// Created is the first event of the run, and Result what its last one says, both without texts and definitions.
	Created   RunCreatedData `json:"created"`
	CreatedAt time.Time      `json:"created_at"`
	StartedAt *time.Time     `json:"started_at,omitempty"`
	EndedAt   time.Time      `json:"ended_at"`
	Result    Result         `json:"result"`
	// Backup is the SHA-256 of the manifest of the backup that has the events, BackupAt the moment of that backup.
	Backup   string    `json:"backup_sha256"`
	BackupAt time.Time `json:"backup_at"`
	By       string    `json:"by,omitempty"`
	// Forgotten is set where the events were left out because their content had to be deleted (PLUS-19), and not to make
	// room: then they are meant to be in no backup either.
	Forgotten *Forgotten `json:"forgotten,omitempty"`
}

// Forgotten says why content was deleted. A reason names the request, and repeats nothing of the content.
type Forgotten struct {
	Reason string `json:"reason,omitempty"`
}

// MaxForgetReason is the most bytes of the reason of a deletion.
const MaxForgetReason = 512

// Kind implements Payload.
func (*RunPrunedData) Kind() Kind { return RunPruned }

func (d *RunPrunedData) line() string {
	if d.Forgotten != nil {
		return deleted(fmt.Sprintf("run %s; its %d events were", d.Result.Status, d.Covered), d.By, *d.Forgotten)
	}
	return fmt.Sprintf("run %s; its %d events are in the backup of %s, manifest %.12s", d.Result.Status, d.Covered,
		d.BackupAt.UTC().Format(time.RFC3339), d.Backup)
}

// deleted says of what is gone that somebody had it deleted.
func deleted(what, by string, f Forgotten) string {
	if what += " deleted on request"; by != "" {
		what += " by " + by
	}
	if f.Reason != "" {
		what += ": " + f.Reason
	}
	return what
}

// Forget leaves out what else of the run could tell its content: names of steps and checks, which a model may have
// chosen, the digest of the task, by which a guess of its text could be confirmed, and the names of some people.
func (d *RunPrunedData) Forget(reason string, people ...string) {
	d.Forgotten = &Forgotten{Reason: reason}
	c, r := &d.Created, &d.Result
	c.TaskDigest, c.TaskSource, c.To = "", "", ""
	r.FailedSteps, r.BlockedSteps = nil, nil
	r.Verified = slices.Clone(r.Verified)
	for i, v := range r.Verified { // that checks vouched for it stays, what they were called does not
		r.Verified[i] = Verified{Kind: v.Kind, Name: string(v.Kind)}
	}
	if c.Address != nil {
		bare := *c.Address
		bare.Env, bare.Dir = nil, ""
		c.Address = &bare
	}
	for _, by := range []*string{&c.By, &r.By} {
		if slices.Contains(people, *by) {
			*by = ""
		}
	}
}

// SessionPrunedData stands for all events of a session whose content was deleted (PLUS-19). It is the first event that
// is left of the log: its sequence follows theirs, and its prevhash is the hash of the last of them. The next run of
// the session begins with nothing.
type SessionPrunedData struct {
	Event   string `json:"event"`
	Session string `json:"session_id"`
	// Covered is the sequence of the last event that was left out.
	Covered uint64 `json:"covered_sequence"`
	// Fence is the last one that was given, Inputs the last controls that were carried out.
	Fence     uint64    `json:"fence"`
	Inputs    []uint64  `json:"inputs,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Backup is the SHA-256 of the manifest of the backup that was copied, BackupAt the moment of that backup.
	Backup    string    `json:"backup_sha256"`
	BackupAt  time.Time `json:"backup_at"`
	By        string    `json:"by,omitempty"`
	Forgotten Forgotten `json:"forgotten"`
}

// Kind implements Payload.
func (*SessionPrunedData) Kind() Kind { return SessionPruned }

func (d *SessionPrunedData) line() string {
	return deleted(fmt.Sprintf("session %s: its %d events were", d.Session, d.Covered), d.By, d.Forgotten)
}

// Bare is the event without texts, definitions and contents: what says which run it was, where it came from and what it
// belonged to.
func (d *RunCreatedData) Bare() RunCreatedData {
	return RunCreatedData{Event: d.Event, TaskID: d.TaskID, TaskDigest: d.TaskDigest, TaskSource: d.TaskSource,
		Agent: d.Agent, Agents: map[string]Agent{}, Options: d.Options, Workspace: d.Workspace, Session: d.Session,
		WorkflowRun: d.WorkflowRun, Parent: d.Parent, Orchestrator: d.Orchestrator, WorkID: d.WorkID, By: d.By,
		Project: d.Project, ChildOf: d.ChildOf, Review: d.Review, Firing: d.Firing, Work: d.Work, Address: d.Address,
		Landing: d.Landing, PlanOrigin: d.PlanOrigin, Durability: d.Durability, TraceParent: d.TraceParent, To: d.To}
}

// Bare is the result without texts.
func (r Result) Bare() Result {
	r.Output, r.Error, r.Hooks, r.Delivery, r.Passed = "", "", nil, nil, nil
	return r
}
