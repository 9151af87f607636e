// Package workspace lets working trees follow their runs: one instance at a time works in a tree, and where it is lost
// another one goes on with what was kept of it.
//
// Promises: a tree has one owner, named in its log together with a fence that increases with every change of owner.
// Every append is a compare-and-set on the end of that log, so whoever lost a tree cannot say anything of it any more.
// A new owner works in a new directory: a former one that wakes up changes only its own. A snapshot is in the object
// store before an event names it, and the event is stored before Keep returns. What cannot be restored whole is not
// restored at all. A living owner's directory is never removed by others. Without Snapshots (one volume for all) only
// the claim is kept.
//
// A Trees may be used by several goroutines. It starts none but those of Run, which waits for them.
package workspace
