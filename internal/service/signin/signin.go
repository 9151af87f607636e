// Package signin says who has a token of the identity provider, and what that lets them do over NATS.
//
// Promises: the provider, the claims and the grants are those of the gateway, so a person has one name and the same
// rights whichever way they come. It knows no NATS: who asks it makes a user of what it says.
package signin

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// rightOf a scope is what its token may do over NATS.
var rightOf = map[tokens.Scope]topology.Right{tokens.Read: topology.MayWatch, tokens.Write: topology.MayDispatch,
	tokens.Answer: topology.MayApprove}

// Rights are what tokens with some scopes may do over NATS.
func Rights(scopes []tokens.Scope) []topology.Right {
	var rights []topology.Right
	for _, s := range scopes {
		if r, ok := rightOf[s]; ok {
			rights = append(rights, r)
		}
	}
	return rights
}

// Verifier judges tokens by the settings; nil where they name no provider.
func Verifier(cfg service.Gateway) (*oidc.Verifier, error) {
	if cfg.GatewayOIDCIssuer == "" {
		return nil, nil
	}
	grants, err := oidc.Grants(cfg.GatewayOIDCGrants)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_OIDC_GRANTS: %w", err)
	}
	var names []string
	for _, s := range tokens.Scopes() {
		names = append(names, string(s))
	}
	v, err := oidc.New(oidc.Config{Issuer: cfg.GatewayOIDCIssuer, Audience: cfg.GatewayOIDCAudience,
		Claim: cfg.GatewayOIDCClaim, Name: cfg.GatewayOIDCName, Grants: grants, Scopes: names})
	if err != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_OIDC_: %w", err)
	}
	return v, nil
}

// Person is who has a token, what it lets them do, and until when.
type Person struct {
	Name   string
	Rights []topology.Right
	Until  time.Time
}

// Judge says who has a token.
type Judge func(ctx context.Context, token string) (Person, error)

// New makes a judge of people who connect to NATS; nil where the settings do not let them.
func New(cfg service.Gateway) (Judge, error) {
	if !cfg.GatewayOIDCNATS {
		return nil, nil
	}
	v, err := Verifier(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string) (Person, error) {
		t, err := v.Verify(ctx, token)
		if err != nil {
			return Person{}, err
		}
		return Person{Name: t.Name, Rights: Rights(tokens.ScopesOf(t.Scopes)), Until: t.Expires}, nil
	}, nil
}
