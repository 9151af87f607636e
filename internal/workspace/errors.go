package workspace

import (
	"errors"
	"fmt"
)

// What callers branch on.
var (
	// ErrLost: the tree belongs to somebody else now, and nothing that is done here counts any more.
	ErrLost = errors.New("the working tree belongs to another instance now")
	// ErrDamaged: what was kept of a tree is missing, changed or too large, so that no other try would restore it.
	ErrDamaged = errors.New("the working tree cannot be restored")
	// ErrUnkept: no snapshot of a tree can be taken, for a reason on this machine.
	ErrUnkept = errors.New("the working tree cannot be kept")
	// ErrChanging: a tree changed while a snapshot of it was taken.
	ErrChanging = errors.New("the working tree is being changed")
)

// BusyError refuses a claim: the owner lives.
type BusyError struct {
	// Workspace is the path of the tree below the workspace root, Owner the instance that holds it, Run the run that it
	// was claimed for.
	Workspace, Owner, Run string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("workspace %s is held by %s for run %s", e.Workspace, e.Owner, e.Run)
}
