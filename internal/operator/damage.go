package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// Damage returns what the station knows of losses of its store, and what its log shows now. A station that was never
// checked, and one in a local store, tells nothing but that.
func Damage(ctx context.Context, c *client.Client) (d storecheck.Status, err error) {
	o, err := of(c)
	if _, here := o.st.(alone); here || err != nil {
		return d, err
	}
	// The mark first: it can only be behind the log.
	var mark storecheck.LogMark
	if err := o.readKey(ctx, topology.StateBucket, storecheck.LogMarkKey, &mark); err != nil {
		return d, err
	}
	if err := o.readKey(ctx, topology.ConfigBucket, topology.DamageKey, &d); err != nil {
		return d, err
	}
	log, err := o.st.Log(ctx)
	if err != nil || len(d.Lost) > 0 {
		return d, err
	}
	lost := mark.Missing(topology.Log(c.Station()), log.Stream(), d)
	d.ID = lost.ID()
	for _, f := range lost.Lost() {
		d.Lost = append(d.Lost, f.String())
	}
	return d, nil
}

// readKey reads what the station says under a key; v stays as it is where it says nothing, or this user may not read
// it.
func (o station) readKey(ctx context.Context, bucket, key string, v any) error {
	b, err := o.st.KV(bucket).Get(ctx, key)
	if errors.Is(err, kernel.ErrNotFound) || errors.Is(err, client.ErrDenied) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("what the station says of its store: %w", err)
	}
	return nil
}

// holesExcept says what is missing in the log beside what a person has accepted.
func holesExcept(log jet.LogState, accepted storecheck.Status) string {
	if log.Deleted == 0 && log.First <= 1 {
		return log.Holes()
	}
	if uint64(log.Deleted) <= accepted.Deleted && log.First <= max(1, accepted.First) {
		return ""
	}
	return log.Holes()
}
