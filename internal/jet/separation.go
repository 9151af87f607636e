package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// Separation says how far the streams of a station are apart from those who connect.
type Separation string

// What there is.
const (
	// Separate streams are in an account of their own: an answer of the server cannot be stored in them.
	Separate Separation = "separate"
	// OneAccount has the streams in the account of this user, who has permissions.
	OneAccount Separation = "one account"
	// OpenAccount is OneAccount where this user may do anything.
	OpenAccount Separation = "one account without permissions"
)

// ErrNoJetStream means that the account has no JetStream, and imports none.
var ErrNoJetStream = errors.New("JetStream is not enabled for the account of this user")

// AccountCheck asks the server about the account of a connection.
type AccountCheck struct{ c *Conn }

// AccountCheckOf returns that of a connection.
func AccountCheckOf(c *Conn) AccountCheck { return AccountCheck{c} }

// Protected reports whether the server asks who its clients are. Where it does not, every client may do everything, and
// no one can take it for more.
func (a AccountCheck) Protected() bool { return a.c.nc.AuthRequired() }

// probeStream is the name of a stream that no station has.
const probeStream = "inspan_account_check"

// Separation finds out. It asks about a stream that no one may ask about. A refusal names the subject: in
// the account of the services that is the one that the API is mapped to. The users who set a station up are in the
// account of the streams in any case, so for them OneAccount says nothing.
func (a AccountCheck) Separation(ctx context.Context) (Separation, error) {
	err := a.c.patiently(ctx, func() error { return a.c.api(ctx, "STREAM.INFO."+probeStream, nil, nil) })
	denied, refused := errors.AsType[*deniedError](err)
	switch {
	case refused && !strings.HasPrefix(denied.as, apiPrefix):
		return Separate, nil
	case refused:
		return OneAccount, nil
	case err == nil, code(err) == codeStreamNotFound:
		return OpenAccount, nil
	case code(err) == codeNoAccountJS, code(err) == codeDisabled, errors.Is(err, nats.ErrNoResponders):
		return "", fmt.Errorf("%w: %w", ErrNoJetStream, limitHint(err))
	}
	return "", fmt.Errorf("look whether the streams have an account of their own: %w", err)
}
