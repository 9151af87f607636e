package operator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Trust is what an audit believes beside the log. The zero value believes the station's own row and keys of anchors.
type Trust struct {
	// Anchors that the log must reach, beside the one in the run's row.
	Anchors []run.Anchor
	// Keys that sign anchors; where there are none, those that the station has are taken. The log says which keys they
	// certified, and Ends, which an audit fills in, up to which position those count that were replaced.
	Keys []ed25519.PublicKey
	Ends map[string]uint64
	// Approvers whose signed answers to gates are verified. With OnlySigned every answer must be signed by one of them.
	Approvers  approval.Keys
	OnlySigned bool
}

// Audit reads the log of a run as it is stored and checks it, its objects, its anchors (SAFE-3) and the signed answers
// to its gates (SAFE-9). It returns client.ErrNotFound for a run of which there is neither an event nor a row.
func Audit(ctx context.Context, c *client.Client, runID string, trust Trust) (audit.Report, error) {
	if err := checkRun(runID); err != nil {
		return audit.Report{}, err
	}
	o, err := of(c)
	if err != nil {
		return audit.Report{}, err
	}
	info, err := c.Runs().Get(ctx, runID)
	if errors.Is(err, client.ErrNotFound) {
		return audit.Report{}, err
	}
	known := knownOf(info) // nothing, where its row cannot be read: that is no reason not to look at the log
	known.anchors = append(known.anchors, trust.Anchors...)
	if trust, err = o.trusting(ctx, trust); err != nil {
		return audit.Report{}, err
	}
	damage, err := Damage(ctx, c)
	if err != nil {
		return audit.Report{}, err
	}
	log, err := o.st.Log(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	known.holes = holesExcept(log, damage)
	return o.audit(ctx, runID, trust, known)
}

// known is what is known of a run beside its log.
type known struct {
	anchors []run.Anchor
	// reached is the last event that the index has seen, holes what is missing in the station's log as a whole.
	reached uint64
	holes   string
	// row is what is wrong with its row.
	row string
}

func knownOf(i run.Info) known {
	k := known{reached: i.Sequence}
	if i.Anchor != nil {
		k.anchors = []run.Anchor{*i.Anchor}
	}
	return k
}

// trusting fills in the keys that the station has, where none are given, and what follows from the log of its keys.
func (o station) trusting(ctx context.Context, trust Trust) (Trust, error) {
	published, err := AnchorKeys(ctx, o.Client)
	if err != nil && len(trust.Keys) == 0 {
		return trust, err
	}
	chain, err := KeyChain(ctx, o.Client)
	if err != nil {
		return trust, err
	}
	all, err := keychain.Trust(o.Station(), trust.Keys, published, chain)
	trust.Keys, trust.Ends = all.Keys, all.Ends
	return trust, err
}

// audit checks one run.
func (o station) audit(ctx context.Context, runID string, trust Trust, known known) (audit.Report, error) {
	a := audit.New(audit.Config{Run: runID, Anchors: known.anchors, Reached: known.reached, Keys: trust.Keys,
		Ends: trust.Ends, Object: o.sees(),
		Approvers: audit.Approvers{Keys: trust.Approvers, OnlySigned: trust.OnlySigned}})
	// Never less than the leader has: a reader that is behind would look like a log that was cut off.
	last, _, err := o.st.Journal().Last(ctx, runID)
	if err != nil {
		return audit.Report{}, err
	}
	if err := o.records(ctx, runID, last.Seq, func(r kernel.Record) bool { return a.Event(ctx, r) }); err != nil {
		return audit.Report{}, err
	}
	for _, fault := range []string{known.row, known.holes} {
		if fault != "" {
			a.Log(fault)
		}
	}
	return a.End(), nil
}

// records calls each with the events of a run as they are stored, at least up to a position, until it returns false.
func (o station) records(ctx context.Context, runID string, upTo uint64, each func(kernel.Record) bool) error {
	for after := uint64(0); ; {
		evs, more, err := o.st.Journal().Read(ctx, runID, after)
		if err != nil {
			return fmt.Errorf("read run %s: %w", runID, err)
		}
		for _, r := range evs {
			if after = r.Seq; !each(r) {
				return nil
			}
		}
		if !more && (after >= upTo || len(evs) == 0 && after > 0) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// sees looks at each object once.
func (o station) sees() func(context.Context, events.Ref) error {
	seen := map[events.Ref]bool{}
	return func(ctx context.Context, ref events.Ref) error {
		if seen[ref] {
			return nil
		}
		_, err := o.Object(ctx, ref)
		seen[ref] = err == nil
		return err
	}
}

// AnchorKeys returns the public keys that the persisters of the station sign anchors with.
func AnchorKeys(ctx context.Context, c *client.Client) ([]ed25519.PublicKey, error) {
	o, err := of(c)
	if err != nil {
		return nil, err
	}
	kv := o.st.KV(topology.StateBucket)
	names, err := kv.Keys(ctx, audit.KeyPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the keys of anchors: %w", err)
	}
	var keys []ed25519.PublicKey
	for _, name := range names {
		b, err := kv.Get(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("key of anchors %s: %w", name, err)
		}
		key, err := audit.ParsePublic(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
