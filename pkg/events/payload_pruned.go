package events

import (
	"fmt"
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
}

// Kind implements Payload.
func (*RunPrunedData) Kind() Kind { return RunPruned }

func (d *RunPrunedData) line() string {
	return fmt.Sprintf("run %s; its %d events are in the backup of %s, manifest %.12s", d.Result.Status, d.Covered,
		d.BackupAt.UTC().Format(time.RFC3339), d.Backup)
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
