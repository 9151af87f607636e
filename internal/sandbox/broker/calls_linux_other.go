//go:build linux && !amd64

package broker

// Calls that this processor does not have, or programs of Go's size of words do not use: no call has these numbers.
const (
	sysChmod = -1 - iota
	sysChown
	sysLchown
	sysUtime
	sysUtimes
	sysFutimesat
)
