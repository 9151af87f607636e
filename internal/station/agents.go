package station

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Registry writes agents while a station runs.
type Registry struct{ Station *Station }

// RegisterAgents registers definitions and removes agents by their names, while the station runs, and returns what was
// new, changed or removed: nothing where all is as it should be. Whatever it returns was read back as clients read it.
// Runs that have begun keep the definitions that they began with.
func (g Registry) RegisterAgents(ctx context.Context, defs map[string]events.Agent,
	removed []string) (done []service.Registration, err error) {
	read, err := g.configuration()
	if err != nil {
		return nil, err
	}
	agents := &service.Agents{KV: read}
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		r, err := agents.Compare(ctx, defs[name])
		if err != nil {
			return nil, err
		}
		if r.State != service.AgentUnchanged {
			done = append(done, r)
		}
	}
	for _, name := range removed {
		_, err := agents.Agent(ctx, name)
		if err == nil {
			done = append(done, service.Registration{Agent: name, State: service.AgentRemoved})
		} else if !errors.Is(err, kernel.ErrNotFound) {
			return nil, err
		}
	}
	if len(done) == 0 { // the users of the server change for nothing less
		return nil, nil
	}
	if err := g.write(ctx, defs, done); err != nil {
		return nil, err
	}
	for _, r := range done {
		if r.State == service.AgentRemoved {
			if _, err := agents.Agent(ctx, r.Agent); !errors.Is(err, kernel.ErrNotFound) {
				return nil, errors.Join(err, fmt.Errorf("agent %s: %w", r.Agent, service.ErrNotReadBack))
			}
		} else if err := agents.ReadBack(ctx, r, defs[r.Agent]); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// write writes what is to be done as the user who may.
func (g Registry) write(ctx context.Context, defs map[string]events.Agent, todo []service.Registration) error {
	write := func(kv kernel.KV) error {
		agents := &service.Agents{KV: kv}
		for _, r := range todo {
			var err error
			if r.State == service.AgentRemoved {
				err = agents.Remove(ctx, r.Agent)
			} else {
				_, err = agents.Put(ctx, defs[r.Agent])
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	s := g.Station
	if s.cfg.Alone {
		return write(Alone(s.local).Config)
	}
	return s.users.administer(ctx, s.cfg.buckets().Setup(s.cfg.Station), func(conn *jet.Conn) error {
		st, err := conn.Station(s.cfg.Station)
		if err != nil {
			return err
		}
		return write(st.KV(topology.ConfigBucket))
	})
}

// configuration is the bucket of agents as clients see it: the local store is only that where there is no NATS, else it
// stands in for the log alone.
func (g Registry) configuration() (kernel.KV, error) {
	s := g.Station
	if s.cfg.Alone {
		return Alone(s.local).Config, nil
	}
	st, err := s.conn.Station(s.cfg.Station)
	if err != nil {
		return nil, err
	}
	return st.KV(topology.ConfigBucket), nil
}
