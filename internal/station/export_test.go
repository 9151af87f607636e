package station

import (
	"maps"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
)

// Server is the one that the station runs on.
func (s *Station) Server() *natsserver.Server { return s.server }

// Between puts a journal between the roles and the log of a station.
func (c Config) Between(wrap func(kernel.Journal) kernel.Journal) Config {
	c.between = wrap
	return c
}

// Tap puts something between the connections of a station and its server.
func (c Config) Tap(wrap func(user string, s jet.Embedded) jet.Embedded) Config {
	c.tap = wrap
	return c
}

// Passwords returns those of the users of a station's server.
func Passwords(s *Station) map[string]secret.Value { return maps.Clone(s.users.passwords) }

// CutAt ends a rotation after a step.
func (k KeyRotation) CutAt(step string, err error) KeyRotation {
	k.cut = func(now string) error {
		if now == step {
			return err
		}
		return nil
	}
	return k
}
