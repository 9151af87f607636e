package station

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Fall puts a local store in front of the log of a station whose only writers are the roles of this process, and
// brings home what an earlier process left there. The caller runs the Fallback beside the roles.
func Fall(ctx context.Context, conn *jet.Conn, ports service.Ports, local *localstore.Station,
	log zerolog.Logger) (service.Ports, *localstore.Fallback, error) {
	f, err := fallback(ctx, localstore.Primary{Journal: ports.Journal, Inbox: ports.Inbox, Timers: ports.Timers,
		Blobs:    ports.Blobs,
		Refusals: ports.Refusals, Connected: conn.Connected, Answers: conn.Answers}, local, log)
	if err != nil {
		return ports, nil, err
	}
	return behind(f, local, ports), f, nil
}

// fallback puts a local store behind a log, and brings home what an earlier process left there.
func fallback(ctx context.Context, primary localstore.Primary, local *localstore.Station,
	log zerolog.Logger) (*localstore.Fallback, error) {
	primary.Notify = func(n localstore.Notice) { report(log, n) }
	f, err := localstore.NewFallback(ctx, local, primary)
	if err != nil {
		return nil, err
	}
	if err := f.Settle(ctx); err != nil {
		log.Error().Err(err).Msg("events in the local store could not be added to the log, their runs wait: inspan doctor and the log of the server say more")
	}
	return f, nil
}

// behind are the ports of a station with a fallback in front of what may go away.
func behind(f *localstore.Fallback, local *localstore.Station, ports service.Ports) service.Ports {
	ports.Journal, ports.Inbox, ports.Timers, ports.Blobs = f, f, f, f.Blobs()
	ports.OnEnd = local.OnEnd
	ports.Leases = local.Leases() // all instances are in this process, and end with it
	ports.Local = local.KV(topology.StateBucket)
	return ports
}

// report logs news of a branch.
func report(log zerolog.Logger, n localstore.Notice) {
	switch n.Status {
	case localstore.BranchOpen:
		log.Warn().Str("run", n.Run).Str("reason", n.Reason).Msg("the station's log is away, the local store keeps the run")
	case localstore.BranchHome:
		log.Info().Str("run", n.Run).Int("events",
			n.Events).Msg("the station's log is back and has what the local store kept")
	case localstore.BranchRefused:
		log.Error().Str("run", n.Run).Int("events", n.Events).Int("in_log", n.Home).Str("reason", n.Reason).
			Msg("the station's log has moved on without what the local store kept: it stays there as evidence, inspan dead list tells")
	}
}

// Alone is the set of ports of a station without NATS: everything is in the local store.
func Alone(local *localstore.Station) service.Ports {
	state := local.KV(topology.StateBucket)
	return service.Ports{Journal: local.Journal(), Inbox: local.Inbox(), Timers: local.Timers(), Blobs: local.Blobs(),
		State: state, Local: state,
		Config: local.KV(topology.ConfigBucket), SessionLog: local.JournalFor(events.SessionAggregate),
		Sessions:    local.KV(topology.SessionBucket),
		ScheduleLog: local.JournalFor(events.ScheduleAggregate), ScheduleTimers: local.TimersFor(events.ScheduleAggregate),
		WorkLog: local.JournalFor(events.WorkAggregate), WorkTimers: local.TimersFor(events.WorkAggregate),
		QueueLog: local.JournalFor(events.QueueAggregate), QueueTimers: local.TimersFor(events.QueueAggregate),
		AgentLog: local.JournalFor(events.AgentAggregate), AgentTimers: local.TimersFor(events.AgentAggregate),
		HarnessLog: local.JournalFor(events.HarnessAggregate),
		TreeLog:    local.JournalFor(events.WorkspaceAggregate),
		Trees:      local.KV(topology.TreeBucket), Leases: local.Leases(), Live: local.Live(), Retained: local.Live(),
		AnswerSoFar: local.AnswerSoFar, Refusals: local.Refusals(),
		OnEnd: local.OnEnd, Durability: localstore.Durability}
}
