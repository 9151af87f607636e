// Package view puts events and states into words for people: the activity log, the answer to "why does it not go on",
// and the tree that a terminal shows.
//
// Promises: it is pure. The same event gives the same line, the same state the same answer. Nothing is hidden but
// length, and characters of others that a terminal would act on are shown as a dot.
package view
