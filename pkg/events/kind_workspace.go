package events

import "fmt"

// WorkspaceAggregate is the name of the aggregates that are workspaces, as it stands in subjects.
const WorkspaceAggregate = "workspace"

// The kinds of the events of a workspace.
const (
	WorkspaceMigrated    Kind = "workspace.migrated"
	WorkspaceRestored    Kind = "workspace.restored"
	WorkspaceClaimed     Kind = "workspace.claimed"
	WorkspaceEntered     Kind = "workspace.entered"
	WorkspaceChanged     Kind = "workspace.changed"
	WorkspaceSnapshotted Kind = "workspace.snapshotted"
	WorkspaceReleased    Kind = "workspace.released"
	WorkspaceForgotten   Kind = "workspace.forgotten"
)

// WorkspaceRegistry returns the event types of workspaces, in the order of a workspace's life.
func WorkspaceRegistry() []Type { return workspaceTypes[:] }

var workspaceTypes = [...]Type{
	{WorkspaceMigrated, Toolrunner, "workspace_migrated", Recorded, InLog, line((*WorkspaceMigratedData).line),
		"The row that an older version kept of the workspace was taken over: the log begins with it.",
		func() Payload { return new(WorkspaceMigratedData) }},
	{WorkspaceRestored, Toolrunner, "workspace_restored", Recorded, InLog, line((*WorkspaceRestoredData).line),
		"The workspace was restored from an archive or a bundle: the log begins with what that had.",
		func() Payload { return new(WorkspaceRestoredData) }},
	{WorkspaceClaimed, Toolrunner, "workspace_claimed", Recorded, InLog, line((*WorkspaceClaimedData).line),
		"A toolrunner owns the workspace from now on, under a fence that is higher than all before it.",
		func() Payload { return new(WorkspaceClaimedData) }},
	{WorkspaceEntered, Toolrunner, "workspace_entered", Recorded, InLog, line((*WorkspaceEnteredData).line),
		"One more run works in the workspace of its owner.",
		func() Payload { return new(WorkspaceEnteredData) }},
	{WorkspaceChanged, Toolrunner, "workspace_changed", Recorded, InLog, line((*WorkspaceChangedData).line),
		"A call may have changed files, and no snapshot is taken before the end of its step.",
		func() Payload { return new(WorkspaceChangedData) }},
	{WorkspaceSnapshotted, Toolrunner, "workspace_snapshotted", Recorded, InLog, line((*WorkspaceSnapshottedData).line),
		"A snapshot of the workspace is in the object store, before the result of the call is in the log of its run.",
		func() Payload { return new(WorkspaceSnapshottedData) }},
	{WorkspaceReleased, Toolrunner, "workspace_released", Recorded, InLog, line((*WorkspaceReleasedData).line),
		"The owner gave the workspace up: any toolrunner may claim it.",
		func() Payload { return new(WorkspaceReleasedData) }},
	{WorkspaceForgotten, Toolrunner, "workspace_forgotten", Recorded, InLog, line((*WorkspaceForgottenData).line),
		"Nothing is kept of the workspace any more: its session was deleted, or its runs ended long ago.",
		func() Payload { return new(WorkspaceForgottenData) }},
}

// LookupWorkspace is Lookup for the event types of workspaces.
func LookupWorkspace(k Kind) (Type, bool) { return lookup(workspaceTypes[:], k) }

// WorkspaceMigratedData is the payload of workspace.migrated.
type WorkspaceMigratedData struct {
	Event string `json:"event"`
	// Row is what the station knew of the workspace, Revision that of the row in its bucket.
	Row      Workspace `json:"row"`
	Revision uint64    `json:"revision"`
}

// WorkspaceRestoredData is the payload of workspace.restored.
type WorkspaceRestoredData struct {
	Event string `json:"event"`
	// Row is what was saved of the workspace, without an owner and with a higher fence.
	Row Workspace `json:"row"`
}

// WorkspaceClaimedData is the payload of workspace.claimed.
type WorkspaceClaimedData struct {
	Event     string `json:"event"`
	Workspace string `json:"workspace"`
	// Owner is the instance, Run the run that it claimed the workspace for.
	Owner string `json:"owner"`
	Run   string `json:"run"`
	Fence uint64 `json:"fence"`
	// Resumed says that the owner released the workspace before, no one has owned it since, and its files are as they
	// were.
	Resumed bool `json:"resumed,omitempty"`
}

// WorkspaceEnteredData is the payload of workspace.entered.
type WorkspaceEnteredData struct {
	Event string `json:"event"`
	Fence uint64 `json:"fence"`
	Run   string `json:"run"`
}

// WorkspaceLearned is what the owner of a workspace learned since its last event.
type WorkspaceLearned struct {
	// Ended are runs that worked in the workspace and have ended.
	Ended []string `json:"ended_runs,omitempty"`
	// Informed says that a run's log has what was lost with an earlier owner.
	Informed bool `json:"informed,omitempty"`
}

// WorkspaceChangedData is the payload of workspace.changed.
type WorkspaceChangedData struct {
	Event string `json:"event"`
	Fence uint64 `json:"fence"`
	// Call is RUN/CALL.
	Call string `json:"call"`
	WorkspaceLearned
}

// WorkspaceSnapshottedData is the payload of workspace.snapshotted.
type WorkspaceSnapshottedData struct {
	Event string `json:"event"`
	Fence uint64 `json:"fence"`
	// Covers is the last call whose changes are in the snapshot, as RUN/CALL.
	Covers string `json:"covers"`
	// Taken is the snapshot; nil where the calls since the last one have changed nothing after all.
	Taken *WorkspaceSnapshot `json:"taken,omitempty"`
	WorkspaceLearned
}

// WorkspaceSnapshot is a snapshot that was taken.
type WorkspaceSnapshot struct {
	// Pack is what it has beside the snapshot before, or all of it where Whole is true.
	Pack  WorkspacePack `json:"pack"`
	Whole bool          `json:"whole,omitempty"`
	// Files and Bytes of the tree.
	Files      int   `json:"files"`
	Bytes      int64 `json:"bytes"`
	Repository bool  `json:"repository,omitempty"`
}

// WorkspaceReleasedData is the payload of workspace.released.
type WorkspaceReleasedData struct {
	Event string `json:"event"`
	Fence uint64 `json:"fence"`
	WorkspaceLearned
}

// WorkspaceForgottenData is the payload of workspace.forgotten. Fence is that of the workspace from now on.
type WorkspaceForgottenData struct {
	Event string `json:"event"`
	Fence uint64 `json:"fence"`
}

// Kind implements Payload.
func (*WorkspaceMigratedData) Kind() Kind { return WorkspaceMigrated }

// Kind implements Payload.
func (*WorkspaceRestoredData) Kind() Kind { return WorkspaceRestored }

// Kind implements Payload.
func (*WorkspaceClaimedData) Kind() Kind { return WorkspaceClaimed }

// Kind implements Payload.
func (*WorkspaceEnteredData) Kind() Kind { return WorkspaceEntered }

// Kind implements Payload.
func (*WorkspaceChangedData) Kind() Kind { return WorkspaceChanged }

// Kind implements Payload.
func (*WorkspaceSnapshottedData) Kind() Kind { return WorkspaceSnapshotted }

// Kind implements Payload.
func (*WorkspaceReleasedData) Kind() Kind { return WorkspaceReleased }

// Kind implements Payload.
func (*WorkspaceForgottenData) Kind() Kind { return WorkspaceForgotten }

func (d *WorkspaceMigratedData) line() string {
	return fmt.Sprintf("workspace %s taken over from revision %d of its row", d.Row.Workspace, d.Revision)
}

func (d *WorkspaceRestoredData) line() string {
	return fmt.Sprintf("workspace %s restored with fence %d", d.Row.Workspace, d.Row.Fence)
}

func (d *WorkspaceClaimedData) line() string {
	return fmt.Sprintf("workspace %s claimed by %s for run %s, fence %d", d.Workspace, d.Owner, d.Run, d.Fence)
}

func (d *WorkspaceEnteredData) line() string { return fmt.Sprintf("run %s entered", d.Run) }

func (d *WorkspaceChangedData) line() string {
	return fmt.Sprintf("call %s changed files that no snapshot has", d.Call)
}

func (d *WorkspaceSnapshottedData) line() string {
	if d.Taken == nil {
		return fmt.Sprintf("nothing changed up to call %s", d.Covers)
	}
	return fmt.Sprintf("snapshot %.12s of %d files after call %s", d.Taken.Pack.Snapshot, d.Taken.Files, d.Covers)
}

func (d *WorkspaceReleasedData) line() string { return fmt.Sprintf("released, fence %d", d.Fence) }

func (d *WorkspaceForgottenData) line() string { return fmt.Sprintf("forgotten, fence %d", d.Fence) }
