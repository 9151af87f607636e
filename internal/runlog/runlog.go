// Package runlog is the log of runs as an aggregate of the kernel: what services append to it and receive of it.
//
// Promises: it is the one place that joins pkg/run, the fold of a run, with internal/kernel, which knows no run. Its
// types are those of the kernel for the state of a run.
package runlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The types of the kernel for runs.
type (
	Ledger       = kernel.Ledger[run.State]
	LedgerConfig = kernel.LedgerConfig[run.State]
	Pages        = kernel.Pages
	Snapshots    = kernel.Snapshots[run.State]
	Decide       = kernel.Decide[run.State]
	Written      = kernel.Written[run.State]
	StoredEvent  = kernel.StoredEvent[run.State]
	Ends         = kernel.Ends[run.State]
)

// ErrRunEnded is the cause of a context that ended because its run did.
var ErrRunEnded = kernel.ErrEnded

// Aggregate returns what the kernel needs to know of runs.
func Aggregate() *kernel.Aggregate[run.State] {
	return &kernel.Aggregate[run.State]{
		Name:     events.RunAggregate,
		Lookup:   events.Lookup,
		Apply:    run.State.ApplyEvent,
		Chain:    chain,
		Envelope: envelope,
		Ended:    func(s *run.State) bool { return s.Status.Ended() },
		Stands:   events.RunPruned,
	}
}

func chain(s *run.State) kernel.Chain {
	return kernel.Chain{ID: s.HarnessID, Sequence: s.Sequence, Hash: s.Hash}
}

// envelope returns what the next event of a run says of itself: what its first one fixed, and where it is now.
func envelope(station, runID string, s *run.State, p events.Payload) (who events.Identity, traceparent string) {
	who = s.Identity
	if s.Created != nil {
		traceparent = s.Created.TraceParent
	}
	switch d := p.(type) {
	case *events.RunCreatedData:
		return Identify(station, runID, d), d.TraceParent
	case *events.RunMovedData:
		who.Station, who.StationRun = station, station+"-"+runID
	}
	return who, traceparent
}

// Identify derives the identity that all events of a run carry.
func Identify(station, runID string, c *events.RunCreatedData) events.Identity {
	return events.Identity{Station: station, Run: runID, StationRun: station + "-" + runID, AgentName: c.Agent,
		AgentID: c.Agent,
		Session: c.Session, WorkflowRun: c.WorkflowRun}
}

// NewLedger checks the configuration, whose aggregate is that of runs.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}

// NewPages makes room for the states of that many runs; 0 means kernel.DefaultCache.
func NewPages(most int) *Pages { return kernel.NewPages(Aggregate(), most) }

// NewEnds makes an Ends that asks a ledger.
func NewEnds(l *Ledger) *Ends { return kernel.NewEnds(l) }

// Input returns the arguments of a call, which are an object where they are long.
func Input(ctx context.Context, blobs kernel.Blobs, c run.Call) ([]byte, error) {
	if c.InputRef == nil {
		return c.Input, nil
	}
	b, err := blobs.Get(ctx, *c.InputRef)
	if err != nil {
		return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
	}
	return b, nil
}

// Read decodes a record of a run and checks that it says to be what its place in the log is for. Its errors are
// *run.FoldError.
func Read(runID string, r kernel.Record) (events.Event, events.Payload, error) {
	f, p, err := Aggregate().Read(runID, r)
	if d, ok := errors.AsType[*kernel.DamageError](err); ok {
		err = &run.FoldError{Run: d.ID, Sequence: d.Sequence, Kind: d.Kind, Fault: d.Fault, Err: d.Err}
	}
	return f, p, err
}

// Apply folds a record of a run. Its errors are *run.FoldError.
func Apply(runID string, s run.State, r kernel.Record) (run.State, error) {
	f, p, err := Read(runID, r)
	if err != nil {
		return run.State{}, err
	}
	return s.ApplyEvent(f, p, run.HashOf(r.Bytes))
}
