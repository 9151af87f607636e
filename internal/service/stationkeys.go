package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// StationKeys are the keys of idempotency keys, by their numbers. A call names the number that it began with.
type StationKeys struct {
	config     kernel.KV
	configured secret.Value

	mu   sync.Mutex
	ring keychain.Ring
}

// StationKeys returns the keys: the configured one, or the one in the station's configuration, made by whoever came
// first, and those that replaced it.
func (in *Instance) StationKeys(ctx context.Context, configured secret.Value) (*StationKeys, error) {
	k := &StationKeys{config: in.Ports.Config, configured: configured}
	if configured.Empty() {
		if _, err := in.Key(ctx, topology.StationKeyKey); err != nil {
			return nil, err
		}
	}
	return k, k.read(ctx)
}

func (k *StationKeys) read(ctx context.Context) error {
	value, err := k.config.Get(ctx, topology.StationKeyKey)
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return fmt.Errorf("station keys: %w", err)
	}
	k.ring, err = keychain.ReadRing(value, []byte(k.configured.Reveal()))
	return err
}

// Newest is the number of the key that calls begin with, as far as this process knows.
func (k *StationKeys) Newest() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ring.Newest()
}

// Key returns the key of a number, which another process may have begun with that knows a newer one.
func (k *StationKeys) Key(ctx context.Context, number int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, err := k.ring.Key(number)
	if err == nil {
		return key, nil
	}
	if err := k.read(ctx); err != nil {
		return nil, err
	}
	if key, err = k.ring.Key(number); err != nil {
		return nil, fmt.Errorf("%w: give the toolrunners the keys that the station had, see inspan backup --keys", err)
	}
	return key, nil
}

// Secrets are all of them, to be masked.
func (k *StationKeys) Secrets() []secret.Value {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []secret.Value
	for _, key := range k.ring.Keys {
		if key.Key != "" {
			all = append(all, secret.New(key.Key))
		}
	}
	return all
}
