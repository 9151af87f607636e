package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// Audits is what was found in all runs of a station.
type Audits struct {
	Station string `json:"station"`
	// Sound says that no fault was found in any run, nothing is missing in the log as a whole, and the station knows of
	// no loss.
	Sound bool `json:"sound"`
	// Missing is what the log as a whole lacks, empty for nothing. Damage is what the station says of its store.
	Missing string            `json:"missing,omitempty"`
	Damage  storecheck.Status `json:"damage"`
	// Runs in the order of their ids: those of the index, those in the log, and those of which there is an anchor.
	Runs []audit.Report `json:"runs"`
	// Faulty and Unvouched count runs: with a fault, and without one but with a last event that no anchor vouches for.
	Faulty    int `json:"faulty"`
	Unvouched int `json:"unvouched"`
}

// AuditAll checks every run that the index, the log or an anchor of trust knows of, each as Audit does, and the log as
// a whole. A row of the index that cannot be read does not keep its run from being looked at.
func AuditAll(ctx context.Context, c *client.Client, trust Trust) (Audits, error) {
	all := Audits{Station: c.Station(), Runs: []audit.Report{}}
	o, err := of(c)
	if err != nil {
		return all, err
	}
	runs, err := o.known(ctx, trust)
	if err != nil {
		return all, err
	}
	if trust, err = o.trusting(ctx, trust); err != nil {
		return all, err
	}
	if all.Damage, err = Damage(ctx, c); err != nil {
		return all, err
	}
	log, err := o.st.Log(ctx)
	if err != nil {
		return all, err
	}
	all.Missing = holesExcept(log, all.Damage)
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		r, err := o.audit(ctx, id, trust, runs[id])
		if err != nil {
			return all, fmt.Errorf("audit of run %s: %w", id, err)
		}
		switch {
		case !r.Sound:
			all.Faulty++
		case !r.Vouched():
			all.Unvouched++
		}
		all.Runs = append(all.Runs, r)
	}
	all.Sound = all.Faulty == 0 && all.Missing == "" && len(all.Damage.Lost) == 0
	return all, nil
}

// known is what is known of every run beside its log.
func (o station) known(ctx context.Context, trust Trust) (map[string]known, error) {
	runs := map[string]known{}
	keys, err := o.st.KV(topology.StateBucket).Keys(ctx, runPrefix)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	for _, key := range keys {
		id := strings.TrimPrefix(key, runPrefix)
		if checkRun(id) != nil {
			continue // no log could have such a run
		}
		info, err := o.Runs().Get(ctx, id)
		k := knownOf(info)
		if err != nil {
			k.row = fmt.Sprintf("its row in the index cannot be read: %v", err)
		}
		runs[id] = k
	}
	logged, err := o.st.Logged(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range logged {
		runs[id] = runs[id] // one that the index does not have
	}
	for _, a := range trust.Anchors {
		k := runs[a.Run]
		k.anchors = append(k.anchors, a)
		runs[a.Run] = k
	}
	return runs, nil
}
