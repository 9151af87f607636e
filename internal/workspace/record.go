package workspace

import (
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Record is what the log of a workspace says of it.
type Record = events.Workspace

// Pack is one part of a chain: what a snapshot has beside its parent.
type Pack = events.WorkspacePack

// name is a workspace as one token of a path: "session/demo" is "session=demo". Ids have no "=".
func name(workspace string) (string, error) {
	if err := events.CheckWorkspace(workspace); err != nil {
		return "", err
	}
	return strings.ReplaceAll(workspace, "/", "="), nil
}
