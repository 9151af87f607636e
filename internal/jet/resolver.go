package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Resolver takes account claims, over a connection of a user of the system account.
type Resolver struct{ c *Conn }

// ResolverOf returns that of a connection.
func ResolverOf(c *Conn) Resolver { return Resolver{c} }

// claimsUpdate is where servers with a resolver of type full take the claims of an account.
const claimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"

// ErrNoResolver means that no server takes claims: its accounts are in its configuration, or the user is not of the
// system account.
var ErrNoResolver = errors.New("no server takes account claims: its resolver is not of type full (with MEMORY, include resolver.conf and reload it), or these credentials are not of the system account")

// Update has the servers take the claims of an account, in the place of those that they have.
func (r Resolver) Update(ctx context.Context, token string) error {
	m, err := r.c.request(ctx, &nats.Msg{Subject: claimsUpdate, Data: []byte(token)})
	if untaken(err) || errors.Is(err, ErrDenied) {
		return fmt.Errorf("%w: %w", ErrNoResolver, err)
	}
	if err != nil {
		return err
	}
	var answer struct {
		Data *struct {
			Code int `json:"code"`
		} `json:"data"`
		Error *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("answer on %s: %w", claimsUpdate, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("the server refused the claims (%d): %s", answer.Error.Code, answer.Error.Description)
	}
	if answer.Data == nil {
		return ErrNoResolver // an account that is not the system's has no one there who understands
	}
	return nil
}
