// Package core is the mind: its folders are small rooms of pure decisions.
//
// Promises: every room's functions take a state and an input and return events or values. They import the standard
// library, pkg/events and pkg/run only; there is no clock, no chance, no context, no log and no goroutine. A second
// look answers nothing, and any prefix of an answer is a legal history.
package core
