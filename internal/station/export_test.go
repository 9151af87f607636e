package station

import (
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/lite"
	"github.com/inspan/inspan/internal/reactor"
)

// Server is the one that the station runs on.
func (s *Station) Server() *jet.Server { return s.server }

// Local is the store that stands in for it.
func (s *Station) Local() *lite.Station { return s.local }

// Between puts a journal between the roles and the log of a station.
func (c Config) Between(wrap func(reactor.Journal) reactor.Journal) Config {
	c.between = wrap
	return c
}
