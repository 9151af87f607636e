package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// noPolicy stands for the digest of a station that has no policy.
const noPolicy = "none"

// errOtherPolicy means that a service was given another policy than its station.
var errOtherPolicy = errors.New("INSPAN_POLICY of this service is not the station's")

// RecordPolicy writes the digest of the policy of a service as that of the station. Only whoever sets a station up may.
func RecordPolicy(ctx context.Context, kv kernel.KV, cfg Base) error {
	policy, _, err := agentfile.LoadPolicy(cfg.Policy)
	if err != nil {
		return fmt.Errorf("INSPAN_POLICY: %w", err)
	}
	if err := kv.Put(ctx, topology.PolicyKey, []byte(digestOf(policy))); err != nil {
		return fmt.Errorf("record the station's policy: %w", err)
	}
	return nil
}

func digestOf(p agentfile.Policy) string {
	if p.Digest == "" {
		return noPolicy
	}
	return p.Digest
}

// readsPolicy reports whether a role acts on the policy.
func readsPolicy(role events.Service) bool { return role != events.Persister }

// samePolicy is the check that this service's policy is the station's. A station that was set up before policies were
// recorded has none on record, and nothing is held.
func (h *Host) samePolicy(ctx context.Context) error {
	b, err := h.ports.Config.Get(ctx, topology.PolicyKey)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if own := digestOf(h.policy); own != string(b) {
		return fmt.Errorf("%w: %w: it has %s, and inspan setup recorded %s. Give every service and inspan setup the same file, and run inspan setup after each change of it", ErrHeld, errOtherPolicy, shortDigest(own), shortDigest(string(b)))
	}
	return nil
}

func shortDigest(d string) string { return d[:min(len(d), 12)] }
