// Package logfeed reads the log of a station once for all roles of a process and delivers its events to them in memory.
//
// Promises: each role is delivered every event that it receives, at least once and in the order of the log, until it
// acknowledges it; what was missed of the republished events is read from the log. The durable consumer of a role
// stays: it is set to the position up to which the role has acknowledged everything, at most Every later, so another
// process goes on there. A role that is behind holds up no other. Nothing else may receive from these consumers.
package logfeed
