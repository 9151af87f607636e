package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/streaming"
)

// publishers are those of what is said live, by name.
func (c *Config) publishers() ([]string, error) {
	names, err := streaming.Names(c.Streaming)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	return names, nil
}

// feed is where one role says what comes, and which answers those who come late, for the life of ctx. Nil says nothing.
func (h *Host) feed(ctx context.Context) (*streaming.Feed, error) {
	names, err := h.cfg.publishers()
	if err != nil || len(names) == 0 || h.ports.Live == nil {
		return nil, err
	}
	from := map[string]streaming.Publisher{streaming.ByNATS: h.ports.Live}
	if h.ports.Kept != nil {
		from[streaming.ByJetStream] = h.ports.Kept
	}
	if h.ports.Said != nil {
		from[streaming.ToChannel] = streaming.Channel(h.ports.Said)
	}
	out, err := streaming.Choose(h.cfg.Streaming, from)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	f := streaming.New(out)
	if h.ports.AnswerSoFar == nil || slices.Equal(names, []string{streaming.ToChannel}) {
		return f, nil
	}
	stop, err := h.ports.AnswerSoFar(f.SoFar)
	if err != nil {
		return nil, fmt.Errorf("answer those who watch late: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return f, nil
}
