// Package work is the aggregate of work items: what there is to do, which agent holds it, and what became of it.
//
// Promises: an item is its log, and the row that others read is a view of it. A decision is a function of a state and a
// time; it returns the state with what it decided noted in Changes, by the same rule that folds the stored event. Each
// control leads to one event, so that a crash leaves either none of it or all. An item has at most one holder: a
// binding is one event that folds only on a free item, with the next epoch, and every later event of a binding names
// its epoch. A run has an item only from work.started on, which is appended on the item's log and comes before the
// start of the run; from then on only the end of the run frees the item. Text of an item is data for the agent, never
// an instruction of ours: each of its lines begins with a mark that the text itself cannot leave.
package work
