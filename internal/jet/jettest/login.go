package jettest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
)

// Login connects to a server with the key in a file, or as a guest where that is "", as the plain client does. lost is
// called when the connection has ended. Where the server does not let it in the error is jet.ErrUnauthorized.
func Login(t testing.TB, url, key string, lost func()) (*nats.Conn, error) {
	t.Helper()
	opts := []nats.Option{nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.ClosedHandler(func(*nats.Conn) { lost() })}
	if key != "" {
		nkey, err := nats.NkeyOptionFromSeed(key)
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, nkey)
	}
	nc, err := nats.Connect(url, opts...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, fmt.Errorf("%w: %w", jet.ErrUnauthorized, err)
	}
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}
