package run

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Anchor is the persister's signed word that the log of a run has an event with that hash at that sequence. The hashes
// in a log prove everything but its end: a log whose last events were cut off is sound in itself, and does not reach
// its anchor (SAFE-3).
type Anchor struct {
	Station  string `json:"station"`
	Run      string `json:"runid"`
	Sequence uint64 `json:"sequence"`
	// Seq is where in the station's log the event stood. It is only a hint: a log that was restored has other
	// positions.
	Seq  uint64    `json:"seq"`
	Hash string    `json:"hash"`
	At   time.Time `json:"at"`
	// Key is the KeyID of the public key, Signature the Ed25519 signature in base64.
	Key       string `json:"key"`
	Signature string `json:"signature"`
}

// ErrAnchor means that an anchor is not what its key signed.
var ErrAnchor = errors.New("the signature of the anchor is wrong")

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(public ed25519.PublicKey) string {
	h := sha256.Sum256(public)
	return hex.EncodeToString(h[:8])
}

// text is what is signed. No part of it can hold a line break.
func (a *Anchor) text() []byte {
	return []byte(strings.Join([]string{"inspan anchor 1", a.Station, a.Run, fmt.Sprint(a.Sequence), fmt.Sprint(a.Seq),
		a.Hash,
		a.At.UTC().Format(time.RFC3339Nano)}, "\n"))
}

// AnchorOf signs the head of a run, which stands at seq in the station's log.
func AnchorOf(s State, seq uint64, at time.Time, key ed25519.PrivateKey) Anchor {
	a := Anchor{Station: s.Identity.Station, Run: s.HarnessID, Sequence: s.Sequence, Seq: seq, Hash: s.Hash,
		At:  at.UTC().Round(0),
		Key: KeyID(key.Public().(ed25519.PublicKey))} // an Ed25519 key has no other
	a.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, a.text()))
	return a
}

// Verify returns ErrAnchor (wrapped) unless the key signed this very anchor.
func (a Anchor) Verify(public ed25519.PublicKey) error {
	sig, err := base64.StdEncoding.DecodeString(a.Signature)
	if err != nil || len(public) != ed25519.PublicKeySize || a.Key != KeyID(public) || !ed25519.Verify(public, a.text(),
		sig) {
		return fmt.Errorf("%w: run %s, event %d, key %s", ErrAnchor, a.Run, a.Sequence, a.Key)
	}
	return nil
}
