// Package sim plays whole stations, all five roles as they are wired in a service, against a model of JetStream, with
// every kind of trouble the real one was seen to make, and judges what comes of it by rules of its own.
//
// Promises: a play is decided by its seed alone, and the same seed gives the same story, line by line. Only one thing
// happens at a time; what happens next is chosen among all that could. Every operation of every role is a place where
// its process may die, before it or after. The rules (audit_test.go) are written without the program's own decisions.
// When the trouble ends, every run must end or stand in a wait that its log declares.
//
// Legend of a story, one line an event:
//
//	12  1.204s  planner.1   append run.created #1 r1        an operation is made
//	13  1.204s  planner.1   append run.started #2 r1  ! lost answer   with this trouble
//	14  1.204s  exec.2      >> evt.step.allowed #5 (2)      a delivery begins, its second
//	15  1.204s  exec.2      X before append turn.finished   the process dies here
//	16  1.204s  exec.2      started again
//	17  1.204s  person      approve g-12ab.. of r1
//	18  31.20s  time        30s pass
//	19  31.20s  = r1#6 call.started c1-1                    the log has grown
//	20  31.20s  * pay c1-1 by tool.1                        an effect in the outside world
//	21  31.20s  ? pre_tool r1-h0 of r1 a c1-1 says block    what a hook answers
package sim
