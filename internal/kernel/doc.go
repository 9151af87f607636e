// Package kernel is the one loop and the one pen: hear, load, decide, append, acknowledge.
//
// Promises: the only way to say anything is Ledger.Write, an append guarded by compare-and-set on the run's own
// facts. Nothing is acted on because it was read; only an acknowledged append gives the right to act. A message is
// acknowledged after what it caused is stored. The ports (Journal, Inbox, Blobs, Timers, Shelf, Leases, Live) are
// filled by internal/jet for NATS and internal/mem for memory; kerneltest is the exam that both pass.
package kernel
