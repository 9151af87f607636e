package client

import (
	"context"
	"errors"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Of says which runs are meant; what is empty does not matter.
type Of struct {
	// Run is the id of a run, or its station run id: the station, "-" and the id (OBS-14).
	Run string
	// Session and WorkflowRun that the run belongs to.
	Session, WorkflowRun string
}

// Find returns the runs that are meant, the newest first, from the index of the station. A run that began a moment ago
// may not be there yet, unless it is asked for by its id. None is no error.
func (c *Client) Find(ctx context.Context, of Of) ([]run.Info, error) {
	if of.Run != "" {
		i, err := c.named(ctx, of.Run)
		if errors.Is(err, ErrNotFound) || err == nil && !of.fits(i) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []run.Info{i}, nil
	}
	all, err := c.Runs(ctx)
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
func (c *Client) named(ctx context.Context, id string) (run.Info, error) {
	short, long := strings.CutPrefix(id, c.Station()+"-")
	if !events.ValidID(id) && long { // a station run id may be longer than an id
		return c.Run(ctx, short)
	}
	i, err := c.Run(ctx, id)
	if long && errors.Is(err, ErrNotFound) {
		return c.Run(ctx, short)
	}
	return i, err
}

func (of Of) fits(i run.Info) bool {
	return (of.Session == "" || of.Session == i.SessionID) && (of.WorkflowRun == "" || of.WorkflowRun == i.WorkflowRunID)
}
