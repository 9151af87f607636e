// Package mailbox is the aggregate of addresses: agents, queues, lists and channels, each with the mail that waits
// for it.
//
// Promises: an address is its log, and the row that others read is a view of it. A decision is a function of a state
// and a time; it returns the state with what it decided noted in Changes, by the same rule that folds the stored
// event. An agent is at most one run at a time: agent.woken folds only where the address has none, with the next
// epoch. A message leaves a mailbox only by an event: it was given to a run, somebody took it out, or no agent was
// given it in time. While a run is the agent, none of its messages expires, since that run may be given it at the
// same moment. A message of a queue is claimed by one event that folds only while it waits. What others wrote is
// data: each line of it begins with a mark that the text itself cannot leave.
//
// The life of an agent is in the same log (agent.go): a run makes way for the next one by agent.asked, its own end
// and agent.handed-off, and what it left, its account, stands until a run that was given it has completed. Nothing
// wakes an agent that is stopped. An idle agent has no timer, but for one that left changes in its directory, until
// it was looked at. An agent of a role is reserved for the next binding of a work item by agent.assigned, which comes
// before that binding and is decided only on an agent that is free: no two items get the same one.
package mailbox
