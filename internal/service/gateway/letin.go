package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// listOf is the list of tokens in a file; where there is no file named, no token is let in by it.
func listOf(file string) func() (tokens.List, error) {
	if file == "" {
		return func() (tokens.List, error) { return tokens.List{}, nil }
	}
	return tokens.Follow(file).Now
}

// bearerOf says what tokens of the provider let in, by the settings; nil where they name none.
func bearerOf(cfg service.Gateway) (func(context.Context, string) (tokens.Token, error), error) {
	v, err := signin.Verifier(cfg)
	if v == nil || err != nil {
		return nil, err
	}
	return func(ctx context.Context, secret string) (tokens.Token, error) {
		t, err := v.Verify(ctx, secret)
		return tokens.Token{Name: t.Name, Scopes: tokens.ScopesOf(t.Scopes), Expires: t.Expires}, err
	}, nil
}

// signInOf is how a console has people sign in, by the settings; nil where they name no client.
func signInOf(cfg service.Gateway, in service.SignIn) (*oidc.SignIn, error) {
	if in.GatewayOIDCClient == "" {
		return nil, nil
	}
	v, err := signin.Verifier(cfg)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("INSPAN_GATEWAY_OIDC_CLIENT is set, and INSPAN_GATEWAY_OIDC_ISSUER names no provider")
	}
	s, err := oidc.NewSignIn(v, in.GatewayOIDCClient, in.GatewayOIDCScopes)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_OIDC_SCOPES: %w", err)
	}
	return s, nil
}

// tlsOf is how the gateway speaks TLS, by the settings; nil where it does not.
func tlsOf(cfg service.Gateway, failed func(route string, err error)) (*tls.Config, error) {
	if cfg.GatewayTLSCert == "" {
		return nil, nil
	}
	c, err := gateway.LoadCertificate(cfg.GatewayTLSCert, cfg.GatewayTLSKey, func(err error) { failed("tls", err) })
	if err != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_TLS_CERT: %w", err)
	}
	return c.TLS(), nil
}
