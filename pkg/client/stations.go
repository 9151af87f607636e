package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// StationSummary is what a station shows of itself to whoever may watch it.
type StationSummary struct {
	Station string `json:"station"`
	// Version is that of a planner that answers; empty where none does, and where the account has several stations, as
	// services do not say to which of them they belong.
	Version string `json:"version,omitempty"`
	// Policy is the digest of the station's policy; empty where it has none.
	Policy string `json:"policy,omitempty"`
	Halted bool   `json:"halted,omitempty"`
	// MovedTo is where a halted station goes on; empty where it has not moved.
	MovedTo string `json:"moved_to,omitempty"`
	// Runs have begun, Open ones have not ended.
	Runs int `json:"runs"`
	Open int `json:"open_runs"`
	// Events, Bytes and Limit are those of the log; Limit is 0 where it has none.
	Events uint64 `json:"log_events"`
	Bytes  int64  `json:"log_bytes"`
	Limit  int64  `json:"log_limit_bytes,omitempty"`
	// Last is when the last event was stored; zero where there is none.
	Last time.Time `json:"last_activity,omitzero"`
}

// StationsOf returns the summaries of the stations that a client can see: its own first, then the others of the same
// account, where the user may list its streams. A station with an account of its own is alone in it. Where the
// summary of the client's own station cannot be read it returns the error, ErrDenied to a user without the right watch;
// another station that cannot be read is left out. It returns nothing for a station without NATS.
func StationsOf(ctx context.Context, c *Client) ([]StationSummary, error) {
	own, ok := c.st.(*jet.Station)
	if !ok {
		return nil, nil
	}
	first, err := summaryOf(ctx, c, own)
	if err != nil {
		return nil, err
	}
	all := []StationSummary{first}
	others, err := jet.StationsOfAccount(ctx, own)
	if err != nil { // who may not list the streams of the account sees the one station
		others = nil
	}
	if len(others) <= 1 {
		all[0].Version = versionOf(ctx, c)
	}
	for _, st := range others {
		if st.Name() == own.Name() {
			continue
		}
		if s, err := summaryOf(ctx, Over(st, c.conn, nil), st); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

func summaryOf(ctx context.Context, c *Client, st *jet.Station) (StationSummary, error) {
	log, err := jet.SummaryOf(ctx, st)
	if err != nil {
		return StationSummary{}, err
	}
	out := StationSummary{Station: st.Name(), Runs: log.Runs, Open: log.Open, Events: log.Events, Bytes: log.Bytes,
		Limit: log.Limit, Last: log.Last}
	policy, err := st.KV(topology.ConfigBucket).Get(ctx, topology.PolicyKey)
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return out, fmt.Errorf("policy of station %s: %w", st.Name(), err)
	}
	out.Policy = string(policy)
	halted, err := NewHalts(c).Get(ctx)
	if err != nil {
		return out, err
	}
	out.Halted, out.MovedTo = halted.Halted, halted.MovedTo
	return out, nil
}

// versionOf is the version of a planner that answers on the connection of a client.
func versionOf(ctx context.Context, c *Client) string {
	if c.conn == nil {
		return ""
	}
	answers, err := c.conn.Services().Ping(ctx)
	if err != nil { // it is not known
		return ""
	}
	for _, a := range answers {
		var s struct {
			Name, Version string
		}
		if json.Unmarshal(a, &s) == nil && s.Name == "inspan-"+string(events.Planner) {
			return s.Version
		}
	}
	return ""
}
