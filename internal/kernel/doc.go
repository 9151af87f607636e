// Package kernel is the one loop of all services: receive, load, decide, append, acknowledge, for any Aggregate. It
// knows no run and no other aggregate by name.
//
// Promises: the only way to publish an event is Ledger.Write, an append guarded by compare-and-set on the aggregate's
// own events. Nothing is acted on because it was read; only an acknowledged append gives the right to act. A message is
// acknowledged after what it caused is stored. The ports (Journal, Inbox, Blobs, Timers, Shelf, Leases, Live) are
// filled by internal/jet for NATS, internal/mem for memory and internal/localstore for a local file; kerneltest is the
// exam that all pass.
package kernel
