package service

import (
	"context"
	"fmt"
	"strconv"

	"github.com/inspan/inspan/internal/live"
)

// streams reports whether what is said live is published; nothing set means that it is.
func (c *Config) streams() (bool, error) {
	if c.Streaming == "" {
		return true, nil
	}
	on, err := strconv.ParseBool(c.Streaming)
	if err != nil {
		return false, fmt.Errorf("INSPAN_STREAMING is %q, want true or false", c.Streaming)
	}
	return on, nil
}

// feed is where one role says what comes, and which answers those who come late, for the life of ctx. Nil says nothing.
func (h *Host) feed(ctx context.Context) (*live.Feed, error) {
	on, err := h.cfg.streams()
	if err != nil || !on || h.ports.Live == nil {
		return nil, err
	}
	f := live.New(h.ports.Live)
	if h.ports.AnswerSoFar == nil {
		return f, nil
	}
	stop, err := h.ports.AnswerSoFar(f.SoFar)
	if err != nil {
		return nil, fmt.Errorf("answer those who watch late: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return f, nil
}
