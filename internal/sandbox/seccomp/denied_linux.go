package seccomp

import "slices"

// Closed returns the names of the system calls that are always refused, for kernels that take a filter by names.
func Closed() []string { return slices.Clone(closed[:]) }
