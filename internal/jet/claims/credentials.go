package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/secret"
)

// maxCredentials is the most bytes of a credentials file.
const maxCredentials = 64 << 10

// ErrBadCredentials means that a credentials file is no such file, or that its time is over.
var ErrBadCredentials = errors.New("the credentials cannot be used")

// Credentials are what a credentials file says of itself.
type Credentials struct {
	// User and Account are public keys, Name is what the user is called.
	User, Account, Name string
	// Expires is the zero time where they have no end.
	Expires time.Time
}

// read decodes credentials, and checks that the key in them is the user's.
func read(text []byte) (*jwt.UserClaims, error) {
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil || token == "" {
		return nil, errors.New("it has no user JWT: want a file as nsc generate creds and inspan nats-accounts write it")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, fmt.Errorf("its JWT is not that of a user: %w", err)
	}
	pair, err := jwt.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, errors.New("it has no seed of a user's key behind the JWT: the file was cut off, or is not a credentials file")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return nil, errors.New("its key is not the one that its JWT names: it was put together from two files")
	}
	return claims, nil
}

// ReadCredentials reads a credentials file, and says what is wrong with one that no server takes: the server itself
// says only that it refuses. Errors are ErrBadCredentials and name the file.
func ReadCredentials(path string, now time.Time) (Credentials, error) {
	text, err := disk.ReadAtMost(path, maxCredentials)
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, fmt.Errorf("%w: there is no file %s: give its path with --creds or INSPAN_NATS_CREDS", ErrBadCredentials, path)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("%w: %w", ErrBadCredentials, err)
	}
	claims, err := read(text)
	if err != nil {
		return Credentials{}, fmt.Errorf("%w: %s: %w", ErrBadCredentials, path, err)
	}
	out := Credentials{User: claims.Subject, Account: claims.IssuerAccount, Name: claims.Name}
	if out.Account == "" {
		out.Account = claims.Issuer
	}
	if claims.Expires != 0 {
		out.Expires = time.Unix(claims.Expires, 0).UTC()
		if !now.Before(out.Expires) {
			return out, fmt.Errorf("%w: %s of user %s expired at %s: put new ones into that file (inspan nats-accounts makes them, or whoever signs users of the account)",
				ErrBadCredentials, path, out.Name, out.Expires.Format(time.RFC3339))
		}
	}
	return out, nil
}

// KeyOf is the public key of the user of credentials, "" where they are none.
func KeyOf(text []byte) string {
	claims, err := read(text)
	if err != nil {
		return ""
	}
	return claims.Subject
}

// TrimSeed is the seed in the content of a file.
func TrimSeed(text []byte) secret.Value { return secret.New(strings.TrimSpace(string(text))) }
