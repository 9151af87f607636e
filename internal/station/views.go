package station

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Views is a station as its views are rebuilt. as connects as a user: the persister, who reads the log and writes the
// views of runs, the planner, who writes those of sessions, the toolrunner, who writes those of workspaces, and the
// setup user, where the bucket of the views is gone. Whoever connected closes the connections.
func Views(ctx context.Context, name string, as func(ctx context.Context, user events.Service) (*jet.Conn,
	error)) (cfg rebuild.Config, err error) {
	conn, err := as(ctx, events.Persister)
	if err != nil {
		return cfg, fmt.Errorf("connect as %s: %w", events.Persister, err)
	}
	st, err := conn.Station(name)
	if err != nil {
		return cfg, err
	}
	state := st.KV(topology.StateBucket)
	if _, missing := state.Keys(ctx, audit.KeyPrefix); missing != nil {
		setup, err := as(ctx, topology.SetupUser)
		if err == nil {
			err = setup.Setup().Apply(ctx, name, jet.ApplyOptions{})
		}
		if err != nil {
			return cfg, fmt.Errorf("%w; make what is missing as %s: %w", missing, topology.SetupUser, err)
		}
	}
	planner, err := as(ctx, events.Planner)
	if err != nil {
		return cfg, fmt.Errorf("connect as %s: %w", events.Planner, err)
	}
	own, err := planner.Station(name)
	if err != nil {
		return cfg, err
	}
	toolrunner, err := as(ctx, events.Toolrunner)
	if err != nil {
		return cfg, fmt.Errorf("connect as %s: %w", events.Toolrunner, err)
	}
	trees, err := toolrunner.Station(name)
	if err != nil {
		return cfg, err
	}
	return rebuild.Config{Sessions: rowsOf(own, events.SessionAggregate, topology.SessionBucket),
		Schedules: rowsOf(own, events.ScheduleAggregate, topology.SessionBucket),
		Work:      rowsOf(own, events.WorkAggregate, topology.SessionBucket),
		Queues:    rowsOf(own, events.QueueAggregate, topology.SessionBucket),
		Halts:     rowsOf(own, events.HaltAggregate, topology.SessionBucket),
		Budgets: rebuild.ViewOf(budgets.Aggregate(), budgets.View(),
			rowsOf(own, events.BudgetAggregate, topology.SessionBucket)),
		Agents:     rowsOf(own, events.AgentAggregate, topology.SessionBucket),
		Harnesses:  rowsOf(own, events.HarnessAggregate, topology.SessionBucket),
		Workspaces: rowsOf(trees, events.WorkspaceAggregate, topology.TreeBucket), Journal: st.Journal(), State: state,
		Blobs: st.Blobs(), Logged: st.Logged,
		Now: time.Now}, nil
}

func rowsOf(st *jet.Station, aggregate, bucket string) rebuild.Rows {
	return rebuild.Rows{Journal: st.JournalFor(aggregate), Rows: st.KV(bucket),
		Logged: func(ctx context.Context) ([]string, error) { return st.LoggedOf(ctx, aggregate) }}
}
