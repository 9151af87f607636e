package service

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Program is one role as a program of its own.
type Program struct {
	Role events.Service
	// Config points to the settings of the program, which are read into it; Base is the part that all programs have.
	Config any
	Base   *Base
	// Wire is called once the settings were read.
	Wire func() (Wiring, error)
	// Prepare, which may be nil, is called once the station is set up, before the role takes messages.
	Prepare func(ctx context.Context, ports Ports, log zerolog.Logger) error
}

// RegisterAgents reads the folder of agent files, if one is named, into the station's configuration and logs the
// warnings.
func RegisterAgents(ctx context.Context, kv kernel.KV, cfg Planning, log zerolog.Logger) error {
	if cfg.Agents == "" {
		return nil
	}
	names, warnings, err := (&Agents{KV: kv, Defaults: cfg.AgentDefaults}).Register(ctx, cfg.Agents)
	for _, w := range warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("path", w.Path).Str("warning", w.Message).Msg("agent file")
	}
	if err != nil {
		return fmt.Errorf("agents in %s: %w", cfg.Agents, err)
	}
	log.Info().Strs("agents", names).Msg("registered")
	return nil
}
