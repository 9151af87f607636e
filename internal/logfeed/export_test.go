package logfeed

import "github.com/inspan/inspan/pkg/events"

// Pending counts what a role has not acknowledged.
func (f *Feed) Pending(role events.Service) int { return f.queues.Pending(role) }

// StoreShare is the part of the time that positions take at most.
const StoreShare = storeShare
