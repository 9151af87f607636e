package keychain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Ring are the keys that a station makes idempotency keys with, by their numbers from 0. A call that began with one
// goes on with it, so none is ever taken away. In the bucket of the configuration a ring of one key is that key alone.
type Ring struct {
	Keys []RingKey `json:"keys"`
}

// RingKey is one of them. Its number is its place in the ring.
type RingKey struct {
	// Key is empty for the first one where it is a setting of the toolrunners.
	Key string    `json:"key,omitempty"`
	At  time.Time `json:"at,omitzero"`
}

// MaxRing bounds the keys of a station.
const MaxRing = 1000

// Errors of rings.
var (
	// ErrNoRing means that a value is no ring of keys.
	ErrNoRing = errors.New("the station keys are damaged")
	// ErrNoNumber means that a ring has no key of a number.
	ErrNoNumber = errors.New("the station has no such key")
)

// ReadRing reads what the bucket has; nil is a station that made no key of its own. configured is the key that
// toolrunners are given, which is the first one of a ring then.
func ReadRing(value, configured []byte) (Ring, error) {
	var r Ring
	switch {
	case len(value) == 0:
		r.Keys = []RingKey{{}}
	case !bytes.HasPrefix(value, []byte("{")):
		r.Keys = []RingKey{{Key: string(value)}}
	default:
		if err := json.Unmarshal(value, &r); err != nil {
			return r, fmt.Errorf("%w: %w", ErrNoRing, err)
		}
		if len(r.Keys) < 2 {
			return r, fmt.Errorf("%w: there is no key", ErrNoRing)
		}
	}
	if len(configured) > 0 {
		r.Keys[0].Key = string(configured)
	}
	return r, nil
}

// With is the ring with one more key, as the bucket has it.
func (r Ring) With(key string, at time.Time) ([]byte, error) {
	if len(r.Keys) >= MaxRing {
		return nil, fmt.Errorf("the station has %d keys, the limit", MaxRing)
	}
	next := Ring{append(append([]RingKey(nil), r.Keys...), RingKey{Key: key, At: at.UTC()})}
	b, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("encode the station keys: %w", err)
	}
	return b, nil
}

// Newest is the number of the key that calls begin with.
func (r Ring) Newest() int { return len(r.Keys) - 1 }

// Key is that of a number.
func (r Ring) Key(number int) ([]byte, error) {
	if number < 0 || number >= len(r.Keys) || r.Keys[number].Key == "" {
		return nil, fmt.Errorf("%w: number %d", ErrNoNumber, number)
	}
	return []byte(r.Keys[number].Key), nil
}
