package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Message is one delivery.
type Message interface {
	Subject() string
	Data() []byte
	// Header returns the first value of a header, or "".
	Header(name string) string
	// Seq is the position in its stream, Time when it was stored there; both are the same on each delivery.
	Seq() uint64
	Time() time.Time
	// Deliveries counts from 1.
	Deliveries() uint64
	// Ack ends the message for good. It returns once the word is on its way: one that is lost only leads to another
	// look.
	Ack(ctx context.Context) error
	// Nak asks for it again after a delay.
	Nak(delay time.Duration) error
	// Working says that it is still being worked on.
	Working() error
}

// Inbox delivers what one role receives: each message to one instance of the role, until it is acknowledged.
type Inbox interface {
	// Listen calls hear for each message, at most workers at a time, until ctx ends; then it takes no more, waits
	// for the calls under way and returns nil. Messages of one run may come in any order and at the same time.
	Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context, Message)) error
}

// Timers wake a role up later. A firing is only a reason to look: it may come late, early or twice.
type Timers interface {
	// Set replaces the timer of that name; a name is {family}.{id}. It returns once the timer is stored. after is the
	// sequence of the last event of the state that led to it: whoever handles the firing knows at least as much. 0 is for
	// a timer that follows from no event.
	Set(ctx context.Context, run, name string, at time.Time, after uint64) error
}

// Blobs keeps large things by content. Put is idempotent; Get checks the digest and returns ErrNotFound or a
// damage error, never other bytes.
type Blobs interface {
	Put(ctx context.Context, kind string, data []byte) (events.Ref, error)
	Get(ctx context.Context, ref events.Ref) ([]byte, error)
}

// Shelf is a place for views that can be made again from the log, and for configuration.
type KV interface {
	Put(ctx context.Context, key string, value []byte) error
	// Create is Put for a key that is not there yet; else it returns ErrExists and changes nothing. A key that was
	// deleted a moment ago may still count as one that is there.
	Create(ctx context.Context, key string, value []byte) error
	// Get returns ErrNotFound where there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	// Load is Get with the revision of the value.
	Load(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Swap is Put where the key still has that revision, and Create where revision is 0; else it returns ErrExists and
	// changes nothing. It returns the new revision.
	Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	Delete(ctx context.Context, key string) error
	// Keys lists the keys that begin with prefix, which ends in "." or is empty.
	Keys(ctx context.Context, prefix string) ([]string, error)
	// Each visits the keys that Keys lists, with their values, each once. Calls of visit may come side by side and in any
	// order; its first error ends the walk and is returned.
	Each(ctx context.Context, prefix string, visit func(key string, value []byte) error) error
}

// EachOf is KV.Each by way of Keys and Get. A key that is deleted meanwhile is left out.
func EachOf(ctx context.Context, kv KV, prefix string, visit func(key string, value []byte) error) error {
	keys, err := kv.Keys(ctx, prefix)
	if err != nil {
		return err
	}
	for _, key := range keys {
		value, err := kv.Get(ctx, key)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err == nil {
			err = visit(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Leases say which instances are alive. A lease is held by renewing it well within its term.
type Leases interface {
	// Renew holds the lease of this instance for another term.
	Renew(ctx context.Context, instance string) error
	// Alive reports whether the lease of an instance is held.
	Alive(ctx context.Context, instance string) (bool, error)
}

// Live publishes what is not kept: tokens, tool output.
type Live interface {
	Publish(run string, data []byte)
}

// Refusals takes input that was refused, so that nothing disappears in silence.
type Refusals interface {
	// Refuse stores a dead letter and returns once it is stored.
	Refuse(ctx context.Context, by events.Service, d DeadLetter) error
	// Refused reports whether a dead letter of a message is stored by a role, also if it was stored a moment ago by
	// another instance. An error means that no one can say now.
	Refused(ctx context.Context, by events.Service, m Message) (bool, error)
}

// DeadLetter is refused input with the reason.
type DeadLetter struct {
	// Subject it came on, and its position and time there.
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Run     string    `json:"runid,omitempty"`
	// Code is stable for programs, Reason and Hint are for people.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
	// Data is the message as it came, shortened to 8 KiB; DataBytes its whole length.
	Data      string `json:"data"`
	DataBytes int    `json:"data_bytes"`
	// Header has what tells how to read the message, where it came with any.
	Header map[string]string `json:"header,omitempty"`
	// Token echoes the Inspan-Token header, so that the sender can recognise the answer.
	Token string `json:"token,omitempty"`
}

// Of reports whether the letter is that of a message.
func (d DeadLetter) Of(m Message) bool {
	return d.Subject == m.Subject() && d.Seq == m.Seq() && d.Time.Equal(m.Time())
}

// Fill is how full a store is that runs need in order to go on, in bytes. Limit is above 0.
type Fill struct {
	// Store is its name for people.
	Store       string
	Used, Limit int64
	// Reserve is how much of Limit stays free whatever is stored, as on a disk that others write to as well: Used and
	// Reserve together may be more than Limit.
	Reserve int64
}

// StationStats tells how busy a station is, from the log and the stores themselves: it is the same for all instances
// and survives all restarts. What it tells may be behind by what is under way.
type StationStats interface {
	// Running counts the runs that were created and have not ended.
	Running(ctx context.Context) (int, error)
	// Created counts the runs that were created since a time.
	Created(ctx context.Context, since time.Time) (int, error)
	// Fills returns the stores that have a limit, in no order.
	Fills(ctx context.Context) ([]Fill, error)
}
