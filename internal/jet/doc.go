// Package jet is the client side of NATS JetStream: it implements the ports of the kernel, and nothing else in the
// program imports nats.go. It links no server: one in this process is package natsserver.
//
// Promises: an append is a compare-and-set over all events of its run and its outcome is told apart honestly: what is
// not known is Unknown, never guessed. A read may be old but never skips an event; the last event comes from the
// leader. A connection lasts for ever: it reconnects, and what cannot wait for it returns an error. What a user may not
// do is an error at once and not a timeout. Streams, consumers and buckets are made from internal/topology alone.
// Whatever starts a goroutine here waits for it.
package jet
