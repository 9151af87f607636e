package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/callout"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/internal/topology"
)

// Callout makes inspan callout.
func Callout(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "callout", Short: "Let people of an identity provider in to a NATS server (auth callout)",
		Long: `Answers a NATS server that asks who a connection is, until it is interrupted. Whoever connects with a token of the
provider that INSPAN_GATEWAY_OIDC_ISSUER names gets the rights that its claims grant, under their own name, for 15 minutes
at most and no longer than the token lasts. inspan up does it for its own server. The server's configuration is
deploy/nats/callout.conf; INSPAN_CALLOUT_KEY is the seed of the key whose public half that names. Keep it to this program
alone: who has it can have the server take anyone for anyone. Several may answer one server. INSPAN_HTTP is where probes ask
whether it answers (/healthz, /readyz).`,
		Example: "  INSPAN_NATS_USER=callout INSPAN_NATS_PASSWORD_FILE=callout.password INSPAN_CALLOUT_KEY_FILE=callout.nk inspan callout --server nats://nats:4222",
		Args:    app.Args(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return answerServer(cmd.Context(), a) },
	}
}

// answerServer answers until ctx ends.
func answerServer(ctx context.Context, a *app.App) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	desk, err := deskOf(cfg, a.Station)
	if err != nil {
		return app.Usage("%w", err)
	}
	log, err := a.Logger()
	if err != nil {
		return err
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: a.Server, Creds: a.Creds, User: cfg.NATSUser, Password: cfg.NATSPassword,
		Name: "inspan-callout", Buckets: cfg.Buckets(), DrainGrace: cfg.Drain, Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	var answers atomic.Bool
	end, err := probed(ctx, cfg.HTTP, func() error {
		if !answers.Load() || !conn.Connected() {
			return errors.New("not connected to NATS")
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer end()
	return jet.CalloutsOf(conn).Serve(ctx, desk, func() {
		answers.Store(true)
		fmt.Fprintf(a.Err, "People of %s are let in to station %s.\n", cfg.GatewayOIDCIssuer, a.Station)
	})
}

// probed answers /healthz, /readyz and /metrics at an address until end is called, nowhere where that is empty.
func probed(ctx context.Context, address string, ready func() error) (end func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	_, gone, err := service.Serve(ctx, address, service.NewMetrics(), ready)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("INSPAN_HTTP %s: %w", address, err)
	}
	return func() { cancel(); <-gone }, nil
}

// deskOf is what answers, by the settings.
func deskOf(cfg service.Config, station string) (*callout.Desk, error) {
	if cfg.GatewayOIDCIssuer == "" {
		return nil, errors.New("INSPAN_GATEWAY_OIDC_ISSUER names no provider: set it and the other INSPAN_GATEWAY_OIDC_ variables")
	}
	cfg.GatewayOIDCNATS = true // the command says so
	judge, err := signin.New(cfg.Gateway)
	if err != nil {
		return nil, err
	}
	key, err := callout.KeyOf(cfg.CalloutKey)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_CALLOUT_KEY: %w", err)
	}
	return callout.New(callout.Config{Key: key, Account: topology.FrontAccount(station),
		Judge: func(ctx context.Context, token string) (callout.Person, error) {
			p, err := judge(ctx, token)
			if err != nil {
				return callout.Person{}, err
			}
			return callout.PersonOf(station, cfg.Buckets().Outsider(station, p.Name, p.Name, p.Rights...), p.Until), nil
		}})
}
