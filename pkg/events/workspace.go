package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Workspace is what a station knows of a working tree that several toolrunners may share or follow. It is the fold of
// the workspace's log; the row in the bucket of working trees is a view of it. Only toolrunners write both.
type Workspace struct {
	// Workspace is the path of the tree below the workspace root, such as "session/demo".
	Workspace string `json:"workspace"`
	// Owner is the instance that works in it; empty where no one does. Fence increases with every change of owner.
	Owner string `json:"owner,omitempty"`
	Fence uint64 `json:"fence"`
	// Run is the one that it was claimed for last.
	Run string `json:"run,omitempty"`
	// Runs came in and have not ended as far as is known, at most MaxWorkspaceRuns: beyond that the tree is not removed
	// by itself.
	Runs []string `json:"runs,omitempty"`
	// Snapshot names the content; empty where none was saved. Packs make it, the oldest first.
	Snapshot string          `json:"snapshot,omitempty"`
	Packs    []WorkspacePack `json:"packs,omitempty"`
	// Covers is the last call whose changes are in the snapshot, as RUN/CALL.
	Covers string `json:"covers,omitempty"`
	// Lost is true where an owner was lost, so that changes of calls that did not end may be missing, and no agent was
	// informed yet.
	Lost bool `json:"lost,omitempty"`
	// Unkept are calls that have ended, as RUN/CALL, whose changes the snapshot has not: the owner has them. Missing
	// are those that were lost with an owner, until an agent was informed.
	Unkept  []string `json:"unkept,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// Repository is true where the tree had a .git when the snapshot was taken.
	Repository bool `json:"repository,omitempty"`
	// Files and Bytes of the tree when the snapshot was taken.
	Files int   `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// At is the time of the last event, by the writer's clock.
	At time.Time `json:"at"`
	// Log is the last event of the workspace's log that a row includes; nil in a row of a version that had no such log.
	Log *LogHead `json:"log,omitempty"`
}

// WorkspacePack is one part of a chain of snapshots: what a snapshot has beside its parent.
type WorkspacePack struct {
	Snapshot string `json:"snapshot"`
	// Parts are the objects that make the pack, in order; their sizes are in bytes.
	Parts []Ref `json:"parts"`
}

// Limits of workspaces.
const (
	// MaxWorkspaceRuns bounds Workspace.Runs.
	MaxWorkspaceRuns = 128
	// MaxUnkept bounds Workspace.Unkept: one more call is saved in a snapshot at once. Of Workspace.Missing the newest
	// are named.
	MaxUnkept = 128
)

// FilesQuestion asks a toolrunner, on its status subject, what it has of the files of a run. It is no event: nothing of
// it is stored.
type FilesQuestion struct {
	Run       string `json:"files_of_run"`
	Workspace string `json:"workspace"`
	// Since is the time of an event: the answer names files that were changed after it.
	Since time.Time `json:"since"`
}

// FilesAnswer is what a toolrunner has of the files of a run, as it was when it was asked.
type FilesAnswer struct {
	// Files is one of the constants below, empty where the toolrunner does not know the question.
	Files string `json:"files"`
	// Changed are files that were changed since, at most MaxFilesNamed, and directories of which something was removed.
	Changed []string `json:"changed,omitempty"`
	// More is true where more of them may have changed: there are too many to name or to look at.
	More bool `json:"more,omitempty"`
}

// What there is of the files of a run.
const (
	// FilesThere is the directory itself, FilesSaved its newest snapshot.
	FilesThere = "there"
	FilesSaved = "snapshot"
	// FilesNone means that no directory was made, FilesGone that it was removed.
	FilesNone = "none"
	FilesGone = "gone"
	// MaxFilesNamed bounds FilesAnswer.Changed.
	MaxFilesNamed = 10
)

// CheckWorkspace returns what is wrong with the path of a workspace: it is ids with slashes between them.
func CheckWorkspace(workspace string) error {
	parts := strings.Split(workspace, "/")
	for _, p := range parts {
		if !ValidID(p) {
			return fmt.Errorf("workspace %.200q: want ids with slashes between them", workspace)
		}
	}
	if len(parts) > 4 {
		return fmt.Errorf("workspace %.200q: more than 4 levels", workspace)
	}
	return nil
}

// WorkspaceID is the id of a workspace in subjects: the beginning of its path, for people, and 128 bits of the SHA-256
// of all of it, because a path may be longer than an id.
func WorkspaceID(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	readable := strings.ReplaceAll(workspace, "/", "_")
	return readable[:min(len(readable), MaxID-33)] + "_" + hex.EncodeToString(sum[:16])
}
