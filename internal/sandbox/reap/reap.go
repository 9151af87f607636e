// Package reap removes what sandboxes of lost toolrunners left on a machine: processes, control groups, directories.
//
// Promises: only what carries the mark of a sandbox is touched, and only where the process that made it is known to be
// gone: its id in this very namespace is no one's, or somebody's who started at another time. What belongs to a living
// toolrunner, or to one in a namespace of which nothing is known, is left alone. Reaping twice is reaping once.
package reap

// Found is what was removed.
type Found struct {
	Processes, Groups, Directories int
}

// Any reports whether there was anything.
func (f Found) Any() bool { return f != Found{} }
