// Package run is the memory of Inspan: the state of a run as the fold of its events.
//
// Promises: Apply is pure, total over the known kinds and the only way a State changes; a State is a value, and the
// one it was made from stays as it was. fold(a+b) == fold(fold(a), b). A gap, a wrong hash, an unknown schema, a
// event by a service that may not say it, an event that does not fit what came before, or any event after the end is an
// error and yields no state at all (SAFE-2). The package imports the standard library and pkg/events only.
package run
