package planner

import (
	"context"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Parts are what a station has beside runs. One that is nil is missing: the station has nothing of that kind.
type Parts struct {
	Schedules interface {
		// Continue gives a run its plan where whoever created it did not come to that, and the run is of this part.
		Continue(ctx context.Context, s run.State) error
		// Ended looks at what a run was of that has ended. ours is false for a run of something else.
		Ended(ctx context.Context, s run.State) (ours bool, err error)
	}
	Team interface {
		Continue(ctx context.Context, s run.State) error
		Ended(ctx context.Context, s run.State) (ours bool, err error)
		// Confirm makes a run that was just created that of its address and its work item, or ends it.
		Confirm(ctx context.Context, runID string, c *events.RunCreatedData) error
		// Acknowledge records what a turn of a run was given of its mail.
		Acknowledge(ctx context.Context, s run.State, deliveries uint64) error
		// Requested answers a call of a mail tool.
		Requested(ctx context.Context, h runlog.ReceivedEvent) error
		// Follow brings the work items of the steps of a run up to its log.
		Follow(ctx context.Context, runID string) error
	}
	Budgets interface {
		// Fund reserves for a run that is about to be created; from is what it comes from, the zero State for nothing.
		Fund(ctx context.Context, runID string, c *events.RunCreatedData, from run.State) error
		// Unborn frees what was reserved for a run that is not created after all.
		Unborn(ctx context.Context, runID string) error
		// Look does what is owed to a run that waits for its budgets.
		Look(ctx context.Context, runID string) error
		// Ended charges what a run that has ended used.
		Ended(ctx context.Context, s run.State) error
	}
	Sessions interface {
		// Input steers a session.
		Input(ctx context.Context, m kernel.Message, id string) error
		// Enter takes the lock of the session of a run that is about to be created, and pins what it finds there.
		Enter(ctx context.Context, t events.Task, runID string, c *events.RunCreatedData) error
		// Confirm makes sure that a run that was just created still has its lock, or ends it.
		Confirm(ctx context.Context, s run.State) error
		// Settle gives back the lock of a run that has ended, Abandon that of a task that was refused.
		Settle(ctx context.Context, s run.State) error
		Abandon(ctx context.Context, id, runID string) error
	}
}

// orNone puts none in the place of what is missing.
func (p Parts) orNone() Parts {
	if p.Schedules == nil {
		p.Schedules = nothing{}
	}
	if p.Team == nil {
		p.Team = noTeam{}
	}
	if p.Budgets == nil {
		p.Budgets = noBudgets{}
	}
	if p.Sessions == nil {
		p.Sessions = noSessions{}
	}
	return p
}

// nothing is in the place of a part that the station does not have: no run is of it.
type nothing struct{}

func (nothing) Continue(context.Context, run.State) error      { return nil }
func (nothing) Ended(context.Context, run.State) (bool, error) { return false, nil }

type noTeam struct{ nothing }

func (noTeam) Confirm(context.Context, string, *events.RunCreatedData) error { return nil }
func (noTeam) Acknowledge(context.Context, run.State, uint64) error          { return nil }
func (noTeam) Requested(context.Context, runlog.ReceivedEvent) error         { return nil }
func (noTeam) Follow(context.Context, string) error                          { return nil }

type noBudgets struct{}

func (noBudgets) Fund(context.Context, string, *events.RunCreatedData, run.State) error { return nil }
func (noBudgets) Look(context.Context, string) error                                    { return nil }
func (noBudgets) Ended(context.Context, run.State) error                                { return nil }
func (noBudgets) Unborn(context.Context, string) error                                  { return nil }

type noSessions struct{}

func (noSessions) Input(context.Context, kernel.Message, string) error {
	return kernel.Refuse("no_sessions", "set the station up again: inspan setup", "this station keeps no sessions")
}
func (noSessions) Enter(context.Context, events.Task, string, *events.RunCreatedData) error {
	return nil
}
func (noSessions) Confirm(context.Context, run.State) error      { return nil }
func (noSessions) Settle(context.Context, run.State) error       { return nil }
func (noSessions) Abandon(context.Context, string, string) error { return nil }

// runs is the role as the other parts see it.
type runs struct{ role *Role }

// Open implements part.Runs.
func (r runs) Open(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, from part.Origin) error {
	return r.role.open(ctx, m, t, env, from)
}

// Openable implements part.Runs.
func (r runs) Openable(ctx context.Context, t events.Task) error {
	if err := part.CheckPlacement(t); err != nil {
		return err
	}
	created, err := r.role.cfg.Resolve.Pin(ctx, t, ce.Envelope{}, t.ID)
	if err == nil {
		_, err = r.role.cfg.Resolve.Given(ctx, t, created)
	}
	return err
}

// State implements part.Runs.
func (r runs) State(ctx context.Context, id string) (run.State, error) {
	s, _, err := r.role.cfg.Ledger.State(ctx, id)
	return s, err
}

// Fresh implements part.Runs.
func (r runs) Fresh(ctx context.Context, id string) (run.State, error) {
	return r.role.cfg.Ledger.Fresh(ctx, id)
}

// Write implements part.Runs.
func (r runs) Write(ctx context.Context, id string, decide runlog.Decide) (runlog.Written, error) {
	return r.role.write(ctx, id, decide)
}

// Change implements part.Runs.
func (r runs) Change(ctx context.Context, id string, decide runlog.Decide) (runlog.Written, error) {
	w, err := r.role.write(ctx, id, decide)
	return w, r.role.kin.following(ctx, w, err)
}

// Agent implements part.Runs.
func (r runs) Agent(ctx context.Context, name string) (events.Agent, error) {
	return r.role.cfg.Resolve.Agent(ctx, name)
}
