// Package workspace lets working trees follow their runs: one instance at a time works in a tree, and where it is lost
// another one goes on with what was kept of it.
//
// Promises: a tree has one owner, named in its record together with a fence that rises with every change of owner.
// Every change of a record is a compare-and-swap, so whoever lost a tree cannot say anything of it any more. A new
// owner works in a new directory: a former one that wakes up changes only its own. A snapshot is in the object store
// before the record names it, and the record names it before Keep returns. What cannot be restored whole is not
// restored at all. A living owner's directory is never removed by others. Without Snapshots (one volume for all) only
// the claim is kept.
//
// A Trees may be used by several goroutines. It starts none but those of Run, which waits for them.
package workspace
