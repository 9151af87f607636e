// Package harness is the SDK for long-running work of one's own: write one method, Execute, that yields pairs of an
// input and an output, and the framework counts the steps, records each, keeps the state, and goes on after a restart.
//
// A harness is a type that embeds BaseHarness and has Execute; Run runs it. Without options it runs in this process and
// nothing outlives it. With OnStation each step is an event in the log of a station, and a program that is started
// again goes on after the last recorded step.
//
// Promises: a recorded step is never recorded again, and none of its effects is carried out again. After a restart
// Execute runs from its beginning with what is recorded in the place of what would happen: Do, Ask, Dispatch, Now and
// Sleep return at once what they returned before, and a yield is compared with its record. Where Execute does not
// repeat what is recorded, Run ends with a *DivergedError and records nothing. Of two programs with one id the one that
// attached last records, and Run of the other ends with ErrReplaced. The state that is handed out is a copy: no one
// changes an earlier one.
//
// What the user must do: everything in Execute that touches the world or depends on it goes through the Execution,
// and an effect that must not happen twice says so with its class. Code between them only computes.
package harness
