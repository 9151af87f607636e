// Command gateway answers over HTTP for a station on a NATS server. It is configured by INSPAN_ variables; see
// docs/gateway.md and docs/config.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/outside"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/gateway"
	"github.com/inspan/inspan/pkg/client"
)

func main() {
	var cfg gateway.Config
	os.Exit(program.Run("gateway", &cfg, &cfg.Base, func(ctx context.Context, log program.Log) error {
		return serve(ctx, cfg, log)
	}))
}

// serve answers until ctx ends.
func serve(ctx context.Context, cfg gateway.Config, log program.Log) error {
	if cfg.GatewayTokens == "" && cfg.GatewayOIDCIssuer == "" {
		return errors.New("INSPAN_GATEWAY_TOKENS names no file: every request needs a token, " +
			"which inspan token add --file makes, or one of the provider INSPAN_GATEWAY_OIDC_ISSUER")
	}
	listener, err := net.Listen("tcp", cfg.GatewayListen)
	if err != nil {
		return fmt.Errorf("INSPAN_GATEWAY_LISTEN %s: %w", cfg.GatewayListen, err)
	}
	defer func() { _ = listener.Close() }() // it is closed before, or the program ends
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser,
		Password: cfg.NATSPassword,
		Name:     "inspan-gateway", Buckets: cfg.Buckets(), DrainGrace: cfg.Drain, Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := operator.On(conn, cfg.Station)
	if err != nil {
		return err
	}
	metrics := service.NewMetrics()
	console, err := gateway.RemoteConsole(cfg)
	if err != nil {
		return err
	}
	person := func(ctx context.Context, token string) (*client.Client, error) {
		conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Token: secret.New(token), Name: "inspan-person",
			Buckets: cfg.Buckets(), DrainGrace: cfg.Drain, Log: log})
		if err != nil {
			return nil, err
		}
		return operator.Over(conn, cfg.Station)
	}
	g, err := gateway.New(cfg.Gateway,
		gateway.Deps{Client: c, Person: person, Agents: jet.AgentBusOf(conn), Tokens: cfg.GatewayTokens, Console: console,
			SignIn: cfg.SignIn, Log: log, Metrics: metrics})
	if err != nil {
		return err
	}
	if cfg.HTTP != "" {
		web, cancel := context.WithCancel(context.WithoutCancel(ctx))
		address, gone, err := service.Serve(web, cfg.HTTP, metrics, func() error {
			if !c.Connected() {
				return errors.New("not connected to NATS")
			}
			return nil
		})
		if err != nil {
			cancel()
			return fmt.Errorf("INSPAN_HTTP %s: %w", cfg.HTTP, err)
		}
		defer func() { cancel(); <-gone }()
		log.Info().Str("address", address).Msg("health and metrics")
	}
	log.Info().Str("address", listener.Addr().String()).Str("station", cfg.Station).Msg("gateway")
	sides, err := outside.New(ctx, outside.Config{Gateway: cfg.Gateway, Messages: cfg.Messages,
		Forwarding: cfg.Forwarding,
		State:      cfg.GatewayCallbacksState}, conn, c, log)
	if err != nil {
		return err
	}
	following, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1) // its only value
	go func() { ended <- sides.Run(following) }()
	err = g.Serve(ctx, listener)
	cancel()
	return errors.Join(err, <-ended)
}
