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
	GatewayTLSCert         string       `envconfig:"INSPAN_GATEWAY_TLS_CERT" desc:"file of the certificate of the gateway, with its chain, in PEM; read again when it changes; empty for no TLS"`
	GatewayTLSKey          string       `envconfig:"INSPAN_GATEWAY_TLS_KEY" desc:"file of the key of that certificate, in PEM"`
	GatewayOIDCIssuer      string       `envconfig:"INSPAN_GATEWAY_OIDC_ISSUER" desc:"address of an OpenID Connect provider whose tokens the gateway lets in, such as https://login.example.com; empty for none; see gateway.md for this and the next"`
	GatewayOIDCAudience    string       `envconfig:"INSPAN_GATEWAY_OIDC_AUDIENCE" desc:"what the claim aud of its tokens must hold"`
	GatewayOIDCClaim       string       `envconfig:"INSPAN_GATEWAY_OIDC_CLAIM" default:"scope" desc:"claim whose values grant scopes: a list, or a text with spaces between"`
	GatewayOIDCGrants      []string     `envconfig:"INSPAN_GATEWAY_OIDC_GRANTS" desc:"what the values grant, comma separated, such as engineers=runs:read+runs:write,leads=runs:read+gates:answer"`
	GatewayOIDCName        string       `envconfig:"INSPAN_GATEWAY_OIDC_NAME" default:"sub" desc:"claim that runs and answers to gates name their author by, such as email"`
	GatewayOIDCNATS        bool         `envconfig:"INSPAN_GATEWAY_OIDC_NATS" default:"false" desc:"true lets people connect to NATS with a token of that provider, so that what they answer is proven: inspan up then answers its server, elsewhere inspan callout does; gateway.md"`
	GatewayConsole         string       `envconfig:"INSPAN_GATEWAY_CONSOLE" desc:"where the NATS server takes NATS over WebSocket, such as ws://nats:9222 or wss://nats.example.com:9222: the program gateway then serves the web console; empty for none; inspan up needs none"`
	GatewayConsolePassword secret.Value `envconfig:"INSPAN_GATEWAY_CONSOLE_PASSWORD" desc:"password of the users of that server that begin with console; INSPAN_GATEWAY_CONSOLE_PASSWORD_FILE names a file with it"`
	GatewayOrigins         []string     `envconfig:"INSPAN_GATEWAY_ORIGINS" desc:"origins of web pages that may use the gateway, such as https://console.example.com, comma separated; requests of all other pages are refused"`
	GatewayRate            int          `envconfig:"INSPAN_GATEWAY_RATE" default:"50" desc:"requests a second of one token, and of one webhook; twice as many may come at once"`
	GatewayStreams         int          `envconfig:"INSPAN_GATEWAY_STREAMS" default:"1024" desc:"requests that may wait at the same time for events or the end of a run; one token may have a quarter of them"`
}

// Doors: how people come in, over HTTP and as users of the NATS server.
type Doors struct {
	Gateway
	SignIn
	Callout
}

// SignIn: how the console has people sign in at the identity provider.
type SignIn struct {
	GatewayOIDCClient string   `envconfig:"INSPAN_GATEWAY_OIDC_CLIENT" desc:"client id, registered at the OpenID Connect provider without a secret, with which the console has people sign in there; empty for none; gateway.md"`
	GatewayOIDCScopes []string `envconfig:"INSPAN_GATEWAY_OIDC_SCOPES" default:"openid" desc:"scopes that the console asks that provider for, comma separated, openid first"`
}

// Callout: of the program that lets people of a provider in to NATS.
type Callout struct {
	CalloutKey secret.Value `envconfig:"INSPAN_CALLOUT_KEY" desc:"seed of the NKey of an account with which inspan callout signs who a person is; the configuration of the NATS server names its public half; inspan up makes its own; INSPAN_CALLOUT_KEY_FILE names a file with it"`
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
		"INSPAN_GATEWAY_TLS_CERT":         {key: "gateway.tls.cert", path: true},
		"INSPAN_GATEWAY_TLS_KEY":          {key: "gateway.tls.key", path: true},
		"INSPAN_GATEWAY_OIDC_ISSUER":      {key: "gateway.oidc.issuer"},
		"INSPAN_GATEWAY_OIDC_AUDIENCE":    {key: "gateway.oidc.audience"},
		"INSPAN_GATEWAY_OIDC_CLAIM":       {key: "gateway.oidc.claim"},
		"INSPAN_GATEWAY_OIDC_GRANTS":      {key: "gateway.oidc.grants"},
		"INSPAN_GATEWAY_OIDC_NAME":        {key: "gateway.oidc.name"},
		"INSPAN_GATEWAY_OIDC_NATS":        {key: "gateway.oidc.nats"},
		"INSPAN_GATEWAY_OIDC_CLIENT":      {key: "gateway.oidc.client"},
		"INSPAN_GATEWAY_OIDC_SCOPES":      {key: "gateway.oidc.scopes"},
		"INSPAN_CALLOUT_KEY":              {key: "callout.key"},
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
	if (g.GatewayTLSCert == "") != (g.GatewayTLSKey == "") {
		errs = append(errs, errors.New("INSPAN_GATEWAY_TLS_CERT and INSPAN_GATEWAY_TLS_KEY: name both files, or none"))
	}
	if g.GatewayOIDCIssuer == "" && (g.GatewayOIDCAudience != "" || len(g.GatewayOIDCGrants) > 0 || g.GatewayOIDCNATS) {
		errs = append(errs, errors.New("INSPAN_GATEWAY_OIDC_ISSUER names no provider, and other INSPAN_GATEWAY_OIDC_ "+
			"variables are set"))
	}
	for name, path := range map[string]*string{"INSPAN_GATEWAY_TOKENS": &g.GatewayTokens,
		"INSPAN_GATEWAY_WEBHOOKS": &g.GatewayHooks, "INSPAN_GATEWAY_SECRETS": &g.GatewaySecrets,
		"INSPAN_GATEWAY_TLS_CERT": &g.GatewayTLSCert, "INSPAN_GATEWAY_TLS_KEY": &g.GatewayTLSKey,
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
