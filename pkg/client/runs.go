package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/core/report"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Runs are the runs of the station, as its index and their logs have them.
type Runs struct{ c *Client }

// Runs returns the runs of the station.
func (c *Client) Runs() Runs { return Runs{c} }

// List lists the runs of the station, the newest first (LIFE-8). The index follows the log within about a second.
func (rs Runs) List(ctx context.Context) ([]run.Info, error) {
	infos, err := rows[run.Info](ctx, rs.c, topology.StateBucket, runPrefix)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	sort.SliceStable(infos, func(i, j int) bool { return infos[j].CreatedAt.Before(infos[i].CreatedAt) })
	return infos, nil
}

// Get returns a run's row of the index, made from the log where the index does not have it yet; ErrNotFound where
// there is no such run (LIFE-9).
func (rs Runs) Get(ctx context.Context, runID string) (run.Info, error) {
	if err := checkRun(runID); err != nil {
		return run.Info{}, err
	}
	b, err := rs.c.st.KV(topology.StateBucket).Get(ctx, runPrefix+runID)
	if errors.Is(err, kernel.ErrNotFound) {
		s, err := rs.c.State(ctx, runID)
		if err != nil {
			return run.Info{}, err
		}
		return run.InfoOf(s), nil
	}
	if err != nil {
		return run.Info{}, fmt.Errorf("run %s: %w", runID, err)
	}
	var i run.Info
	if err := json.Unmarshal(b, &i); err != nil {
		return run.Info{}, fmt.Errorf("row of run %s: %w", runID, err)
	}
	return i, nil
}

// Of says which runs are meant; what is empty does not matter.
type Of struct {
	// Run is the id of a run, or its station run id: the station, "-" and the id (OBS-14).
	Run string
	// Session and WorkflowRun that the run belongs to.
	Session, WorkflowRun string
}

// Find returns the runs that are meant, the newest first, from the index of the station. A run that began a moment ago
// may not be there yet, unless it is asked for by its id. None is no error.
func (rs Runs) Find(ctx context.Context, of Of) ([]run.Info, error) {
	if of.Run != "" {
		i, err := rs.named(ctx, of.Run)
		if errors.Is(err, ErrNotFound) || err == nil && !of.fits(i) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []run.Info{i}, nil
	}
	all, err := rs.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []run.Info
	for _, i := range all {
		if of.fits(i) {
			found = append(found, i)
		}
	}
	return found, nil
}

// named finds a run by its id, or by its station run id.
func (rs Runs) named(ctx context.Context, id string) (run.Info, error) {
	short, long := strings.CutPrefix(id, rs.c.Station()+"-")
	if !events.ValidID(id) && long { // a station run id may be longer than an id
		return rs.Get(ctx, short)
	}
	i, err := rs.Get(ctx, id)
	if long && errors.Is(err, ErrNotFound) {
		return rs.Get(ctx, short)
	}
	return i, err
}

func (of Of) fits(i run.Info) bool {
	return (of.Session == "" || of.Session == i.SessionID) && (of.WorkflowRun == "" || of.WorkflowRun == i.WorkflowRunID)
}

// Checkpoints lists the checkpoints of a run, oldest first (PERS-10). ErrNotFound where there is no such run. Fork goes
// on from one of them.
func (rs Runs) Checkpoints(ctx context.Context, runID string) ([]run.Checkpoint, error) {
	s, err := rs.c.State(ctx, runID)
	if err != nil {
		return nil, err
	}
	return append([]run.Checkpoint{}, run.Slice(s.Checkpoints)...), nil
}

// Report is what was done in a run so far, in Markdown, made from its events. ErrNotFound where there is no such run.
func (rs Runs) Report(ctx context.Context, runID string) (string, error) {
	var r report.Report
	there := false
	for item, err := range rs.c.Events(ctx, runID, 0) {
		if err != nil {
			return "", err
		}
		r.Apply(item.Event, item.Payload)
		there = true
	}
	if !there {
		return "", notFound("run", runID)
	}
	return r.Markdown(), nil
}
