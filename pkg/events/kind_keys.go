package events

import "fmt"

// KeysAggregate is the name of the aggregate that says which key of anchors replaced which, KeysID the id of its one
// log.
const (
	KeysAggregate = "keys"
	KeysID        = "station"
)

// KeyRotated is the kind of the one event of keys.
const KeyRotated Kind = "key.rotated"

// KeysRegistry returns the event types of keys.
func KeysRegistry() []Type { return keysTypes[:] }

var keysTypes = [...]Type{
	{KeyRotated, Persister, "key_rotated", Recorded, InLog, line((*KeyRotatedData).line),
		"The key that signs the anchors of runs was replaced. From here on an anchor of the old one is not accepted.",
		func() Payload { return new(KeyRotatedData) }},
}

// LookupKeys is Lookup for the event types of keys.
func LookupKeys(k Kind) (Type, bool) { return lookup(keysTypes[:], k) }

// Why a key of anchors was replaced. Only a key that was rotated certifies the next one: what a key that leaked signs
// proves nothing, and one that is lost signs nothing.
const (
	KeyWasRotated = "rotated"
	KeyHasLeaked  = "leaked"
	KeyIsLost     = "lost"
)

// KeyLink says that one key of anchors replaced another. Keys are public keys of Ed25519, as 64 hex digits.
type KeyLink struct {
	// Reason is rotated, leaked or lost.
	Reason string `json:"reason"`
	// Old is the key that is replaced; empty where it is not known, because it is lost.
	Old string `json:"old,omitempty"`
	New string `json:"new"`
	// NotAfter is the last position of the log at which an anchor of a key that leaked is accepted; 0 is the event's.
	NotAfter uint64 `json:"not_after,omitempty"`
	// At is when it was decided, in UTC, with the format of RFC 3339.
	At string `json:"at"`
	// OldSignature is that of the old key, of one that was rotated alone, and NewSignature that of the new one: Ed25519
	// in base64.
	OldSignature string `json:"old_signature,omitempty"`
	NewSignature string `json:"new_signature"`
}

// KeyRotatedData is the payload of key.rotated.
type KeyRotatedData struct {
	Event string `json:"event"`
	// Number counts the replacements of the station from 1.
	Number int `json:"number"`
	KeyLink
}

// Kind implements Payload.
func (*KeyRotatedData) Kind() Kind { return KeyRotated }

func (d *KeyRotatedData) line() string {
	return fmt.Sprintf("key of anchors %d: %s, now %.16s", d.Number, d.Reason, d.New)
}
