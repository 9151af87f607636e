// Package mutants holds planted bugs: each puts one fault into the program, of the kind that harnesses for agents ship
// with, and the tests must notice.
//
// Promises: the program itself carries no trace of them. A mutant is a text and what replaces it; it is compiled
// through the overlay of the go command, so no file is changed. A text that is not there exactly once fails: a mutant
// that plants nothing proves nothing.
package mutants

// Mutant is one planted bug.
type Mutant struct {
	// Name says what the program does wrong then.
	Name string
	// File is changed: Old stands there once and is replaced by New.
	File, Old, New string
	// By is the test that must fail: empty for the simulation, else the arguments of go test.
	By []string
}
