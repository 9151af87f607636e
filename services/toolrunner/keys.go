package toolrunner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Keyring are the keys that idempotency keys are made with, by their numbers.
type Keyring interface {
	// Newest is the number of the key that calls begin with.
	Newest() int
	// Key returns the key of a number.
	Key(ctx context.Context, number int) ([]byte, error)
}

// keyOf is the idempotency key of a call: the same for each of its attempts, and unguessable without the station's key.
func keyOf(key []byte, runID, callID string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(runID + "|" + callID))
	return hex.EncodeToString(h.Sum(nil))
}
