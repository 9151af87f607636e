package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Keys of anchors are Ed25519. The private one is written as its seed, the public one as it is, both as 64 hex digits.

// KeyPrefix begins the keys of the state bucket that hold the public keys of anchors, by their run.KeyID.
const KeyPrefix = "anchorkey."

// ErrKey means that a text is not a key.
var ErrKey = errors.New("a key is 64 hex digits")

// ParsePrivate reads the seed of a signing key: the first line of a text. Below it, a file of a key may say what
// brought the key; see package keychain.
func ParsePrivate(text string) (ed25519.PrivateKey, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	seed, err := hex.DecodeString(strings.TrimSpace(first))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("signing key of anchors: %w: make one with openssl rand -hex 32", ErrKey)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// ParsePublic reads a public key.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key of anchors: %w", ErrKey)
	}
	return ed25519.PublicKey(b), nil
}

// FormatPublic writes the public key of a signing key.
func FormatPublic(key ed25519.PrivateKey) string {
	return hex.EncodeToString(key.Public().(ed25519.PublicKey)) // an Ed25519 key has no other
}
