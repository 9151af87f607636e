package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// PublishedBranch is a git branch that is kept with the station, in the store of the records of working trees. It is no
// event: only toolrunners write it, and the newest one of a name is the one that counts.
type PublishedBranch struct {
	// Scope names those who share it, such as "session/demo", "workflow/w1" or "run/r1"; "deleted/demo/17" is that of a
	// session that was deleted, with its last fence.
	Scope  string `json:"scope"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// Parts are the objects that make a git bundle, in order; none where all of it is at the remote. Thin says that the
	// commits before it are at the remote alone.
	Parts []Ref `json:"parts"`
	Thin  bool  `json:"thin,omitempty"`
	Bytes int64 `json:"bytes"`
	// By is who published it, RUN/CALL, and At when, by the writer's clock.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Until is how long it stays; zero for as long as its session.
	Until time.Time `json:"until,omitzero"`
}

// TreeKeys is what the keys of the records of working trees begin with, in the store that has those of branches too.
const TreeKeys = "tree."

// TreeKey is where the record of a working tree is. A workspace is ids with slashes between them, and ids have no "=".
func TreeKey(workspace string) string { return TreeKeys + strings.ReplaceAll(workspace, "/", "=") }

// BranchKeys is what the keys of published branches begin with.
const BranchKeys = "branch."

// BranchKeysOf is what the keys of a scope begin with: ids have no "=".
func BranchKeysOf(scope string) string {
	return BranchKeys + strings.ReplaceAll(scope, "/", "=") + "."
}

// DeletedScope is the scope of what was published in a session before it was deleted. e is the row of the deleted
// session, or of the next one of its name.
func DeletedScope(e Session) string {
	return "deleted/" + e.ID + "/" + strconv.FormatUint(e.Born-1, 10)
}

// BranchKey is where the record of a branch is.
func BranchKey(scope, branch string) string {
	sum := sha256.Sum256([]byte(branch))
	return BranchKeysOf(scope) + hex.EncodeToString(sum[:16])
}
