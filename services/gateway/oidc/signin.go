package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/inspan/inspan/internal/pattern"
)

// SignIn signs people in at the provider: the authorization code flow of OpenID Connect with PKCE, as a client that has
// no secret. It is safe for concurrent use and keeps nothing of an attempt, which its browser has.
type SignIn struct {
	v      *Verifier
	client string
	scopes string
	parser *jwt.Parser
	known  endpoints
}

// Attempt is one sign-in that has begun. Who has it and the code can end it, once.
type Attempt struct {
	// State comes back with the code, Nonce in the ID token. Proof is the code verifier of PKCE.
	State string `json:"state"`
	Nonce string `json:"nonce"`
	Proof string `json:"proof"`
	// Redirect is where the provider sends the browser back to.
	Redirect string `json:"redirect"`
}

const (
	// maxCode is the most bytes of a code, maxGrant of an answer with tokens, of which there are three at most.
	maxCode  = 4 << 10
	maxGrant = 4 * maxToken
)

// ErrRefused means that the provider does not sign somebody in, or that what it answered does not count.
var ErrRefused = errors.New("the identity provider did not sign you in")

// NewSignIn makes a way to sign in with a client that is registered at the provider. It asks the provider nothing yet.
func NewSignIn(v *Verifier, client string, scopes []string) (*SignIn, error) {
	if client == "" || len(scopes) == 0 || scopes[0] != "openid" {
		return nil, errors.New("sign in: name a client, and scopes that begin with openid")
	}
	return &SignIn{v: v, client: client, scopes: strings.Join(scopes, " "),
		parser: jwt.NewParser(jwt.WithValidMethods(algorithms), jwt.WithIssuer(v.cfg.Issuer), jwt.WithAudience(client),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(v.cfg.Now),
			jwt.WithStrictDecoding())}, nil
}

// Issuer is the address of the provider.
func (s *SignIn) Issuer() string { return s.v.cfg.Issuer }

// Begin begins an attempt. address is where the browser goes.
func (s *SignIn) Begin(ctx context.Context, redirect string) (a Attempt, address string, err error) {
	if err := safe(redirect); err != nil {
		return a, "", fmt.Errorf("%w: the address of the console: %w", ErrRefused, err)
	}
	at, err := s.endpoints(ctx)
	if err != nil {
		return a, "", err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Proof: rand.Text() + rand.Text(), Redirect: redirect}
	proof := sha256.Sum256([]byte(a.Proof))
	u, err := url.Parse(at.Authorize)
	if err != nil {
		return a, "", fmt.Errorf("%w: authorization_endpoint: %w", ErrUnavailable, err)
	}
	q := u.Query()
	for name, value := range map[string]string{"response_type": "code", "client_id": s.client, "redirect_uri": redirect,
		"scope": s.scopes, "state": a.State, "nonce": a.Nonce, "code_challenge_method": "S256",
		"code_challenge": base64.RawURLEncoding.EncodeToString(proof[:])} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return a, u.String(), nil
}

// grant is what the provider gives for a code.
type grant struct {
	ID     string `json:"id_token"`
	Access string `json:"access_token"`
	Error  string `json:"error"`
}

// End exchanges the code of an attempt for a token that Verify takes: the ID token where that is made for the audience
// of this gateway, the access token otherwise.
func (s *SignIn) End(ctx context.Context, a Attempt, code string) (string, error) {
	if code == "" || len(code) > maxCode {
		return "", fmt.Errorf("%w: the code has %d bytes, want 1 to %d", ErrRefused, len(code), maxCode)
	}
	g, err := s.exchange(ctx, a, code)
	if err != nil {
		return "", err
	}
	claims, err := s.v.claims(ctx, s.parser, g.ID)
	if err != nil {
		return "", fmt.Errorf("%w: ID token: %w", ErrRefused, err)
	}
	nonce, _ := claims["nonce"].(string)
	party, named := claims["azp"].(string)
	audience, _ := claims.GetAudience()
	switch {
	case a.Nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(a.Nonce)) != 1:
		return "", fmt.Errorf("%w: the ID token is of another attempt", ErrRefused)
	case named && party != s.client, !named && len(audience) > 1:
		return "", fmt.Errorf("%w: the ID token was given to another client", ErrRefused)
	case s.client == s.v.cfg.Audience:
		return s.counts(ctx, g.ID)
	}
	access, err := s.v.claims(ctx, s.v.parser, g.Access)
	if err != nil {
		return "", fmt.Errorf("%w: access token: %w", ErrRefused, err)
	}
	if access["sub"] != claims["sub"] {
		return "", fmt.Errorf("%w: the access token is of somebody else than the ID token", ErrRefused)
	}
	return s.counts(ctx, g.Access)
}

// counts is a token, if the gateway takes it.
func (s *SignIn) counts(ctx context.Context, token string) (string, error) {
	if _, err := s.v.Verify(ctx, token); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return token, nil
}

// exchange asks the provider for the tokens of a code. What it answers is in no error but the code of its refusal.
func (s *SignIn) exchange(ctx context.Context, a Attempt, code string) (g grant, err error) {
	at, err := s.endpoints(ctx)
	if err != nil {
		return g, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.Redirect},
		"client_id": {s.client}, "code_verifier": {a.Proof}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return g, fmt.Errorf("%w: token_endpoint", ErrUnavailable)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	res, err := s.v.keys.client.Do(req)
	if err != nil {
		return g, fmt.Errorf("%w: no answer of %s", ErrUnavailable, at.Token)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	err = json.NewDecoder(http.MaxBytesReader(nil, res.Body, maxGrant)).Decode(&g)
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		return g, fmt.Errorf("%w: %s answered %d", ErrUnavailable, at.Token, res.StatusCode)
	case res.StatusCode != http.StatusOK && refusal.MatchString(g.Error):
		return g, fmt.Errorf("%w: %s", ErrRefused, g.Error)
	case res.StatusCode != http.StatusOK:
		return g, fmt.Errorf("%w: it answered %d", ErrRefused, res.StatusCode)
	case err != nil:
		return g, fmt.Errorf("%w: its answer is no JSON of at most %d bytes", ErrRefused, maxGrant)
	case g.ID == "":
		return g, fmt.Errorf("%w: it gave no ID token: its client needs the scope openid", ErrRefused)
	}
	return g, nil
}

// refusal is the code of an error of OAuth.
var refusal = pattern.New(`^[a-z_]{1,40}$`)

// endpoints are where the provider signs people in. The addresses are asked for at most once in a while.
type endpoints struct {
	mu sync.Mutex
	// Guarded by mu: the addresses, when they were asked for, and what went wrong then.
	about   addresses
	askedAt time.Time
	err     error
}

// addresses are a part of the configuration of a provider.
type addresses struct {
	Issuer    string `json:"issuer"`
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
}

// endpoints asks the provider where it signs people in, unless it did a moment ago. One asks; the others wait for it.
func (s *SignIn) endpoints(ctx context.Context) (addresses, error) {
	k := &s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh := freshFor
	if k.err != nil || k.about.Token == "" {
		fresh = fetchEvery
	}
	now := s.v.cfg.Now()
	if !k.askedAt.IsZero() && now.Sub(k.askedAt) < fresh {
		return k.about, k.err
	}
	k.askedAt = now
	k.about, k.err = s.find(context.WithoutCancel(ctx)) // others wait for the answer, too
	return k.about, k.err
}

// find asks the provider where it signs people in.
func (s *SignIn) find(ctx context.Context) (at addresses, err error) {
	issuer := s.v.cfg.Issuer
	if err := read(ctx, s.v.keys.client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration",
		&at); err != nil {
		return addresses{}, fmt.Errorf("%w: configuration of %s: %w", ErrUnavailable, issuer, err)
	}
	if at.Issuer != issuer {
		return addresses{}, fmt.Errorf("%w: it calls itself %.200q, and %q is configured", ErrUnavailable, at.Issuer, issuer)
	}
	for name, address := range map[string]string{"authorization_endpoint": at.Authorize, "token_endpoint": at.Token} {
		plain, _, _ := strings.Cut(address, "?") // an endpoint may have a query of its own
		if err := safe(plain); err != nil {
			return addresses{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, name, err)
		}
	}
	return at, nil
}
