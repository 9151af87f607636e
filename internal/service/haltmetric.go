package service

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Halted shows whether the station is halted, as a service knows it. Where it does not know, there is no figure.
func (m *Metrics) Halted(role string, get func(context.Context) (halted, known bool)) {
	halted := prometheus.NewDesc("inspan_halted", "1 where the station is halted, else 0, as the service knows it.", nil,
		prometheus.Labels{"role": role})
	m.registry.MustRegister(asked{descs: []*prometheus.Desc{halted},
		ask: func(ctx context.Context, give func(*prometheus.Desc, float64, ...string)) {
			switch now, known := get(ctx); {
			case known && now:
				give(halted, 1)
			case known:
				give(halted, 0)
			}
		}})
}

// halted is what Halted shows of a role.
func (g *halting) halted(context.Context) (halted, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.Halted, g.known
}
