// Package memory says how much memory a process may use, and fits to it what a process keeps for speed alone.
//
// Promises: nothing here decides what is right, only how fast it is. A limit of the process's control group, as a
// container has, or GOMEMLIMIT counts as if the machine had no more; GOGC in the environment is left as it is.
package memory

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// unknown is what is taken to be there where the system does not say.
const unknown = 2 << 30

// Available returns how many bytes this process may use: all of the machine's memory, or what it is limited to.
func Available() int64 {
	n := int64(math.MaxInt64)
	for _, ask := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if limit, err := ask(); err == nil && limit > 0 && limit < uint64(n) { //nolint:gosec // n is positive
			n = int64(limit) //nolint:gosec // it is less than n
		}
	}
	if n = min(n, debug.SetMemoryLimit(-1)); n == math.MaxInt64 {
		return unknown
	}
	return n
}

// Share returns one part in so many of the memory that is available, in bytes, but at least and at most so much.
func Share(parts, least, most int) int {
	return int(min(max(Available()/int64(parts), int64(least)), int64(most)))
}
