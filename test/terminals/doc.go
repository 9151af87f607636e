// Package terminals records real sessions of inspan at a terminal, as text and as pictures, in docs/terminals
// (make terminals).
//
// Promises: what a picture shows was printed by the program of this commit in tmux, driven as a person drives it,
// against a provider of this process; nothing is edited but the name of the temporary home. A session whose screen does
// not come to show what it is about fails, and nothing of it is written.
package terminals
