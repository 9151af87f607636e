package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/live"
)

// publishers are those of what is said live, by name.
func (c *Config) publishers() ([]string, error) {
	names, err := live.Names(c.Streaming)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	return names, nil
}

// feed is where one role says what comes, and which answers those who come late, for the life of ctx. Nil says nothing.
func (h *Host) feed(ctx context.Context) (*live.Feed, error) {
	names, err := h.cfg.publishers()
	if err != nil || len(names) == 0 || h.ports.Live == nil {
		return nil, err
	}
	from := map[string]live.Publisher{live.ByNATS: h.ports.Live}
	if h.ports.Kept != nil {
		from[live.ByJetStream] = h.ports.Kept
	}
	if h.ports.Said != nil {
		from[live.ToChannel] = live.Channel(h.ports.Said)
	}
	out, err := live.Choose(h.cfg.Streaming, from)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	f := live.New(out)
	if h.ports.AnswerSoFar == nil || slices.Equal(names, []string{live.ToChannel}) {
		return f, nil
	}
	stop, err := h.ports.AnswerSoFar(f.SoFar)
	if err != nil {
		return nil, fmt.Errorf("answer those who watch late: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return f, nil
}
