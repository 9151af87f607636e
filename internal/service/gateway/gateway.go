// Package gateway makes the gateway of a station from its settings.
package gateway

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
	"github.com/inspan/inspan/services/gateway/webhook"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Gateway
	service.Messages
}

// New makes the gateway. tokensFile is the list of tokens, which is read again when it changes. console is nil where the
// gateway serves no console.
func New(cfg service.Gateway, c *client.Client, tokensFile string, console *gateway.Console, log zerolog.Logger,
	m *service.Metrics) (*gateway.Gateway, error) {
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
	return gateway.New(gateway.Config{Client: c, Tokens: tokens.Follow(tokensFile).Now, Hooks: hooks,
		Console: console,
		Origins: cfg.GatewayOrigins, Rate: float64(cfg.GatewayRate), Streams: cfg.GatewayStreams, Observe: m.Requests(),
		Failed: func(route string, err error) {
			log.Error().Err(err).Str("route", route).Msg("request failed")
		}})
}
