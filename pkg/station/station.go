// Package station embeds a station in a Go program: a NATS server, the five services and their store, in this process.
//
// Promises: it is the same station as that of inspan up, with the same log, guards and gates. Tools of this program
// stand beside the built-in ones and are judged like them. Nothing listens unless Config.Listen names an address. Start
// returns once work is taken; Close finishes what is under way. One process at a time has the store, and what was
// acknowledged is there at the next Start, also after a crash.
package station

import (
	"context"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/tool"
)

// Config of a station. Only Dir is needed.
type Config struct {
	// Dir is the folder of the store, which is made where there is none.
	Dir string
	// Name of the station; empty is client.DefaultStation.
	Name string
	// Listen is "host:port" for NATS clients, port 0 any free one; empty does not listen.
	Listen string
	// Agents and Scripts are folders of agent files and of scripts for the scripted model; empty for none.
	Agents, Scripts string
	// Workspace is the root of the workspaces; empty is a folder below Dir.
	Workspace string
	// Sandbox is what commands run in where an agent does not say; empty is the strongest that works here. A station that
	// listens refuses "host" without INSPAN_ONLY_SIGNED or INSPAN_SANDBOX_REACHES_STATION.
	Sandbox string
	// Tools stand beside the built-in ones. A name of theirs is refused.
	Tools []tool.Tool
	// ToolsPassword lets programs connect as the NATS user tools and serve tools to the station; empty lets none.
	ToolsPassword string
	// LazySync acknowledges before it is written to disk: faster, and a power cut loses the last seconds.
	LazySync bool
	// Log takes what is logged, as JSON lines; nil logs nothing. Secrets, prompts and outputs are not logged.
	Log io.Writer
}

// Station is one that runs.
type Station struct {
	s *station.Station
	c *client.Client
}

// Start starts a station. What Config does not say, such as keys of models and limits, is read from the INSPAN_
// variables of docs/config.md. Close must be called.
func Start(ctx context.Context, cfg Config) (*Station, error) {
	base, err := service.FromEnv()
	if err != nil {
		return nil, err
	}
	if cfg.ToolsPassword != "" {
		base.ToolsPassword = secret.New(cfg.ToolsPassword)
	}
	log := zerolog.Nop()
	if cfg.Log != nil {
		log = zerolog.New(cfg.Log).With().Timestamp().Logger()
	}
	s, err := station.Up(ctx, station.Config{Listen: cfg.Listen, StoreDir: cfg.Dir, Station: cfg.Name,
		AgentsDir: cfg.Agents, ScriptsDir: cfg.Scripts,
		WorkspaceDir: cfg.Workspace, Sandbox: cfg.Sandbox, LazySync: cfg.LazySync, Tools: cfg.Tools, Base: base, Log: log})
	if err != nil {
		return nil, fmt.Errorf("station in %s: %w", cfg.Dir, err)
	}
	c, err := operator.On(s.Conn(), s.Name())
	if err != nil {
		_ = s.Close(context.WithoutCancel(ctx)) // the error above is what went wrong
		return nil, err
	}
	return &Station{s: s, c: c}, nil
}

// Client talks to the station as an operator may. It ends with the station.
func (s *Station) Client() *client.Client { return s.c }

// URL for NATS clients; empty where the station does not listen.
func (s *Station) URL() string { return s.s.URL() }

// Workspace is the root of the workspaces.
func (s *Station) Workspace() string { return s.s.Workspace() }

// Failed gives the first failure of a service, if one ever comes; the station is to be closed then.
func (s *Station) Failed() <-chan error { return s.s.Failed() }

// Close takes no more work, lets what is under way finish within the drain time, and ends the server.
func (s *Station) Close(ctx context.Context) error { return s.s.Close(ctx) }
