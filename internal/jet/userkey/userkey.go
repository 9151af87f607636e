// Package userkey makes and recognises the keys of NATS users: NKeys, of which a server needs the public half alone.
package userkey

import (
	"errors"

	"github.com/nats-io/nkeys"
)

// New makes a key: the seed, which is secret, and its public half.
func New() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", err
	}
	if public, err = pair.PublicKey(); err != nil {
		return nil, "", err
	}
	seed, err = pair.Seed()
	return seed, public, err
}

// Valid reports whether a text is the public half of the key of a user.
func Valid(public string) bool { return nkeys.IsValidPublicUserKey(public) }

// Public is the public half of a seed.
func Public(seed []byte) (string, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err == nil && !Valid(public) {
		err = errors.New("it is no key of a user")
	}
	return public, err
}
