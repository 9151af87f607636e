package local

import "github.com/inspan/inspan/internal/sandbox"

// Describe tells of one process of this machine, or of the container that this program runs in.
func Describe(pid int) (sandbox.ProcessInfo, bool) { return infoOf(pid) }

// Mine reports whether a name is that of something that a sandbox of this very process made.
func Mine(name string) bool {
	owner, ok := ownerIn(name)
	return ok && owner == ownOwner()
}
