// Package broker answers the system calls that the filter of a sandbox hands over, for commands that share files,
// process ids or a network with the machine.
//
// Promises: a call is carried out by the broker, or refused; what a command writes into its memory after the broker has
// looked at it changes nothing. Modes, owners, times and attributes are changed of files below Rules.Writable alone, of
// those that the command's user owns, never for privileges. A process changes limits and priorities of itself alone. A
// command connects to every address but those that Rules.Closed names. A broker that has ended answers ENOSYS.
package broker

import "net/netip"

// Rules say what is permitted.
type Rules struct {
	// Writable are the real paths of directories and files that commands may change.
	Writable []string
	// Closed reports whether commands must not connect to an address; nil closes none.
	Closed func(netip.AddrPort) bool
}
