package service

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/inspan/inspan/pkg/events"
)

// context reads what the operator tells all agents. It is read for each run, so that a change needs no restart.
func (h *Host) context(context.Context) (string, error) {
	if h.cfg.Context == "" {
		return "", nil
	}
	f, err := os.Open(h.cfg.Context)
	if err != nil {
		return "", fmt.Errorf("INSPAN_CONTEXT: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, events.MaxContext+1))
	if err != nil {
		return "", fmt.Errorf("INSPAN_CONTEXT: %w", err)
	}
	return string(b), nil
}
