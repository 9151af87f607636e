package toolrunner

import "context"

// Keyring are the keys that idempotency keys are made with, by their numbers.
type Keyring interface {
	// Newest is the number of the key that calls begin with.
	Newest() int
	// Key returns the key of a number.
	Key(ctx context.Context, number int) ([]byte, error)
}

// oneKey is a station whose key was never replaced.
type oneKey []byte

// Newest implements Keyring.
func (oneKey) Newest() int { return 0 }

// Key implements Keyring.
func (k oneKey) Key(context.Context, int) ([]byte, error) { return k, nil }

// keys are those of the identity.
func (i Identity) keys() Keyring {
	if i.Keys != nil {
		return i.Keys
	}
	return oneKey(i.Key)
}
