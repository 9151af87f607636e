// Package mergequeue is the aggregate of merge queues: which delivered branches wait to be landed on one branch of a
// repository, which of them is tested now, and what became of each.
//
// Promises: a queue is its log, and the row that others read is a view of it. A decision is a function of a state and a
// time; it returns the state with what it decided noted in Changes. A delivery is in a queue once, whatever is sent
// twice. At most one entry is taken: taking it is one event that folds only where none is taken, with the next attempt
// of that entry, and has the id of the run that makes the attempt. Only the end of that run ends the attempt. An entry
// is landed only where its run saw the target branch of the remote at the commit that has the work. A target that moved
// means that the entry is tested again, and a remote that refuses the same push to the same target twice means that it
// bounces.
package mergequeue
