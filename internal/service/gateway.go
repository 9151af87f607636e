package service

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/inspan/inspan/internal/secret"
)

// Gateway: of the gateway, which answers over HTTP.
type Gateway struct {
	GatewayListen          string       `envconfig:"INSPAN_GATEWAY_LISTEN" default:"127.0.0.1:8222" desc:"address that the program gateway answers at; inspan up has --http in its place"`
	GatewayTokens          string       `envconfig:"INSPAN_GATEWAY_TOKENS" desc:"file of the tokens that the gateway lets in, made by inspan token add --file; inspan up has one in its store"`
	GatewayHooks           string       `envconfig:"INSPAN_GATEWAY_WEBHOOKS" desc:"folder of the files of webhooks, read at start; empty for none; see gateway.md"`
	GatewaySecrets         string       `envconfig:"INSPAN_GATEWAY_SECRETS" desc:"folder of the secrets of webhooks, one in each file: secret:NAME in the file of a webhook stands for what the file NAME holds"`
	GatewayCallbacks       string       `envconfig:"INSPAN_GATEWAY_CALLBACKS" desc:"folder of the files of callbacks, which are called when runs end or wait for a person, read at start; empty for none; see callbacks.md"`
	GatewayCallbacksState  string       `envconfig:"INSPAN_GATEWAY_CALLBACKS_STATE" desc:"file in which the program gateway keeps what is still to be called; inspan up has one in its store"`
	GatewayAgents          bool         `envconfig:"INSPAN_GATEWAY_AGENTS" default:"false" desc:"true has the gateway answer prompts to the agents of the station by the Synadia Agent Protocol for NATS; see protocols.md"`
	GatewayConsole         string       `envconfig:"INSPAN_GATEWAY_CONSOLE" desc:"where the NATS server takes NATS over WebSocket, such as ws://nats:9222 or wss://nats.example.com:9222: the program gateway then serves the web console; empty for none; inspan up needs none"`
	GatewayConsolePassword secret.Value `envconfig:"INSPAN_GATEWAY_CONSOLE_PASSWORD" desc:"password of the users of that server that begin with console; INSPAN_GATEWAY_CONSOLE_PASSWORD_FILE names a file with it"`
	GatewayOrigins         []string     `envconfig:"INSPAN_GATEWAY_ORIGINS" desc:"origins of web pages that may use the gateway, such as https://console.example.com, comma separated; requests of all other pages are refused"`
	GatewayRate            int          `envconfig:"INSPAN_GATEWAY_RATE" default:"50" desc:"requests a second of one token, and of one webhook; twice as many may come at once"`
	GatewayStreams         int          `envconfig:"INSPAN_GATEWAY_STREAMS" default:"1024" desc:"requests that may wait at the same time for events or the end of a run; one token may have a quarter of them"`
}

// gatewayTraits are those of the variables of the gateway. A project has no say in who is let in.
func gatewayTraits() map[string]trait {
	return map[string]trait{
		"INSPAN_GATEWAY_LISTEN":           {key: "gateway.listen"},
		"INSPAN_GATEWAY_TOKENS":           {key: "gateway.tokens", path: true},
		"INSPAN_GATEWAY_WEBHOOKS":         {key: "gateway.webhooks", path: true},
		"INSPAN_GATEWAY_SECRETS":          {key: "gateway.secrets", path: true},
		"INSPAN_GATEWAY_CALLBACKS":        {key: "gateway.callbacks", path: true},
		"INSPAN_GATEWAY_CALLBACKS_STATE":  {key: "gateway.callbacks_state", path: true},
		"INSPAN_GATEWAY_AGENTS":           {key: "gateway.agents"},
		"INSPAN_GATEWAY_CONSOLE":          {key: "gateway.console"},
		"INSPAN_GATEWAY_CONSOLE_PASSWORD": {key: "gateway.console_password"},
		"INSPAN_GATEWAY_ORIGINS":          {key: "gateway.origins"},
		"INSPAN_GATEWAY_RATE":             {key: "gateway.rate"},
		"INSPAN_GATEWAY_STREAMS":          {key: "gateway.streams"},
	}
}

func (g *Gateway) check() error {
	var errs []error
	if g.GatewayRate < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_GATEWAY_RATE is %d, want 1 or more", g.GatewayRate))
	}
	if g.GatewayStreams < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_GATEWAY_STREAMS is %d, want 1 or more", g.GatewayStreams))
	}
	for name, path := range map[string]*string{"INSPAN_GATEWAY_TOKENS": &g.GatewayTokens,
		"INSPAN_GATEWAY_WEBHOOKS": &g.GatewayHooks, "INSPAN_GATEWAY_SECRETS": &g.GatewaySecrets,
		"INSPAN_GATEWAY_CALLBACKS": &g.GatewayCallbacks, "INSPAN_GATEWAY_CALLBACKS_STATE": &g.GatewayCallbacksState} {
		if *path == "" {
			continue
		}
		at, err := filepath.Abs(*path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		*path = at
	}
	return errors.Join(errs...)
}
