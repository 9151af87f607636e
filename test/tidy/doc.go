// Package tidy is the rules of the house as ordinary tests: who may import whom, what the mind may not do, how long
// things may be, what may not be left lying around.
//
// Promises: the rules are one table (table_test.go), exceptions stand in it with a reason, and an exception that
// nothing needs any more is itself a fault. Files are only parsed, never built, so files behind build tags are held to
// the same rules. Each rule is shown to find what it forbids.
package tidy
