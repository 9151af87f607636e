// Package gateway makes the gateway of a station from its settings.
package gateway

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/agentbus"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/webhook"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Gateway
	service.SignIn
	service.Messages
	service.Forwarding
}

// Deps are what a gateway is made of beside its settings.
type Deps struct {
	// Client of the station, and where prompts to its agents come, which are answered where the settings say so.
	Client *client.Client
	Agents agentbus.Bus
	// Tokens is the file of the list of tokens, which is read again when it changes.
	Tokens string
	// Person connects with a token of the provider, where the settings let people connect to NATS.
	Person func(ctx context.Context, token string) (*client.Client, error)
	// Console is nil where the gateway serves no console. SignIn says how it has people sign in.
	Console *gateway.Console
	SignIn  service.SignIn
	Log     zerolog.Logger
	Metrics *service.Metrics
}

// New makes the gateway.
func New(cfg service.Gateway, d Deps) (*gateway.Gateway, error) {
	c, log, m := d.Client, d.Log, d.Metrics
	var hooks []*webhook.Hook
	if cfg.GatewayHooks != "" {
		var err error
		if hooks, err = webhook.Load(cfg.GatewayHooks, cfg.GatewaySecrets); err != nil {
			return nil, fmt.Errorf("INSPAN_GATEWAY_WEBHOOKS: %w", err)
		}
	}
	m.Halted(events.Gateway, func(ctx context.Context) (halted, known bool) {
		h, err := client.NewHalts(c).Get(ctx)
		return h.Halted, err == nil
	})
	bus := d.Agents
	if !cfg.GatewayAgents {
		bus = nil
	}
	bearer, err := bearerOf(cfg)
	if err != nil {
		return nil, err
	}
	if d.Console != nil {
		if d.Console.SignIn, err = signInOf(cfg, d.SignIn); err != nil {
			return nil, err
		}
	}
	failed := func(route string, err error) { log.Error().Err(err).Str("route", route).Msg("request failed") }
	speaks, err := tlsOf(cfg, failed)
	if err != nil {
		return nil, err
	}
	var person func(context.Context, string) (gateway.Answerer, error)
	if cfg.GatewayOIDCNATS && d.Person != nil {
		person = func(ctx context.Context, token string) (gateway.Answerer, error) { return d.Person(ctx, token) }
	}
	return gateway.New(gateway.Config{Person: person, Client: c, Tokens: listOf(d.Tokens), Hooks: hooks, Bearer: bearer,
		TLS: speaks, Console: d.Console, Agents: bus, Program: service.Version(),
		Origins: cfg.GatewayOrigins, Rate: float64(cfg.GatewayRate), Streams: cfg.GatewayStreams, Observe: m.Requests(),
		Failed: failed})
}
