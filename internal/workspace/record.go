package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Record is what the station knows of a working tree. Only toolrunners write it.
type Record struct {
	// Workspace is the path of the tree below the workspace root, such as "session/demo".
	Workspace string `json:"workspace"`
	// Owner is the instance that works in it; empty where no one does. Fence rises with every change of owner.
	Owner string `json:"owner,omitempty"`
	Fence uint64 `json:"fence"`
	// Run is the one that it was claimed for last.
	Run string `json:"run,omitempty"`
	// Runs came in and have not ended as far as is known, at most maxRuns: beyond that the tree is not taken away by
	// itself.
	Runs []string `json:"runs,omitempty"`
	// Snapshot names the content; empty where none was kept. Packs make it, the oldest first.
	Snapshot string `json:"snapshot,omitempty"`
	Packs    []Pack `json:"packs,omitempty"`
	// Covers is the last call whose changes are in the snapshot, as RUN/CALL.
	Covers string `json:"covers,omitempty"`
	// Lost is true where an owner was lost, so that changes of calls that did not end may be missing, and no agent was
	// told yet.
	Lost bool `json:"lost,omitempty"`
	// Unkept are calls that have ended, as RUN/CALL, whose changes the snapshot has not: the owner has them. Missing
	// are those that were lost with an owner, until an agent was told.
	Unkept  []string `json:"unkept,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// Repository is true where the tree had a .git when it was kept.
	Repository bool `json:"repository,omitempty"`
	// Files and Bytes of the tree when it was kept.
	Files int   `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// At is when the record was last written, by the writer's clock.
	At time.Time `json:"at"`
}

// Pack is one part of a chain: what a snapshot has beside its parent.
type Pack struct {
	Snapshot string `json:"snapshot"`
	// Parts are the objects that make the pack, in order; their sizes are in bytes.
	Parts []events.Ref `json:"parts"`
}

// maxRuns bounds Record.Runs.
const maxRuns = 128

// keys is what the keys of records begin with.
const keys = events.TreeKeys

// name is a workspace as one token of a key and of a path: "session/demo" is "session=demo". Ids have no "=".
func name(workspace string) (string, error) {
	parts := strings.Split(workspace, "/")
	for _, p := range parts {
		if !events.ValidID(p) {
			return "", fmt.Errorf("workspace %.200q: want ids with slashes between them", workspace)
		}
	}
	if len(parts) > 4 {
		return "", fmt.Errorf("workspace %.200q: more than 4 levels", workspace)
	}
	return strings.Join(parts, "="), nil
}

// Load returns the record of a tree and its revision; a tree that no one ever claimed has an empty one of revision 0.
func Load(ctx context.Context, kv kernel.KV, workspace string) (Record, uint64, error) {
	rec := Record{Workspace: workspace}
	n, err := name(workspace)
	if err != nil {
		return rec, 0, err
	}
	b, revision, err := kv.Load(ctx, keys+n)
	if errors.Is(err, kernel.ErrNotFound) {
		return rec, 0, nil
	}
	if err != nil {
		return rec, 0, fmt.Errorf("record of workspace %s: %w", workspace, err)
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return rec, 0, fmt.Errorf("record of workspace %s: %w", workspace, err)
	}
	if rec.Workspace != workspace {
		return rec, 0, fmt.Errorf("record of workspace %s speaks of %.200q", workspace, rec.Workspace)
	}
	return rec, revision, nil
}

// swap writes a record where no one else did since it was read; else it returns kernel.ErrExists.
func swap(ctx context.Context, kv kernel.KV, rec Record, revision uint64) (uint64, error) {
	n, err := name(rec.Workspace)
	if err != nil {
		return 0, err
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("record of workspace %s: %w", rec.Workspace, err)
	}
	now, err := kv.Swap(ctx, keys+n, b, revision)
	if err != nil {
		return 0, fmt.Errorf("record of workspace %s: %w", rec.Workspace, err)
	}
	return now, nil
}
