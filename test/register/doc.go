// Package register proves what docs/architecture.md says of adding an event type: four files by hand are enough, and a
// part that is missing is named by the compiler or by one test.
//
// Promises: a copy of the sources gets a real event type; the sources themselves are not touched.
package register
