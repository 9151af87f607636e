package station

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// rowPrefix begins the keys of the rows of runs in the index.
const rowPrefix = "run."

// doubtful reports whether the marks alone do not say which runs have lost events: there are none, the end of the log
// was not whole, or something of the log is lost.
func (st *store) doubtful(log string) bool {
	ofLog := func(f storecheck.Finding) bool { return f.Stream == log }
	return st.old == nil || slices.ContainsFunc(st.notes, func(f storecheck.Finding) bool {
		return ofLog(f) &&
			f.Outcome == storecheck.Unfinished
	}) ||
		slices.ContainsFunc(st.losses.Open.Lost(), ofLog)
}

// heads finds the runs whose log ends before what the index has seen of it: the index is made from the log and cannot
// be ahead of it.
func (st *store) heads(ctx context.Context, conn *jet.Conn) (found []storecheck.Finding, err error) {
	place, err := conn.Station(st.cfg.Station)
	if err != nil {
		return nil, err
	}
	kv, journal := place.KV(topology.StateBucket), place.Journal()
	keys, err := kv.Keys(ctx, rowPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the rows of the index: %w", err)
	}
	for _, key := range keys {
		b, err := kv.Get(ctx, key)
		var info run.Info
		if err != nil || json.Unmarshal(b, &info) != nil {
			continue // a row is a view: a damaged one says nothing of the log
		}
		id := strings.TrimPrefix(key, rowPrefix)
		last, ok, err := journal.Last(ctx, id)
		if err != nil {
			return nil, err
		}
		about := events.About{}
		if ok {
			if about, err = events.AboutOf(last.Bytes); err != nil {
				continue // the audit of the run says so
			}
		}
		if about.Sequence < info.Sequence {
			found = append(found, storecheck.Finding{Outcome: storecheck.Lost, Stream: topology.Log(st.cfg.Station),
				Runs: []string{id},
				What: fmt.Sprintf("the log of run %s ends with event %d, the index has event %d", id, about.Sequence,
					info.Sequence)})
		}
	}
	return found, nil
}
