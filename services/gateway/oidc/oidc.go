// Package oidc lets in who has a token of an OpenID Connect provider: a bearer token that is a JWT.
//
// Promises: a token counts if one of the provider's keys signed it, with an algorithm that fits the key, for this
// audience, and it has not expired. No token without a signature and none with a shared secret counts. What a token may
// do says the operator, by values of one claim; a token that has none of them may do nothing. Keys are asked for when
// they are needed, at most once in a while whatever comes, and what the provider took away is forgotten within an hour.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Config of a verifier.
type Config struct {
	// Issuer is the address of the provider, as the claim iss has it: https, or http of a loopback address.
	Issuer string
	// Audience is what the claim aud must hold.
	Audience string
	// Claim is the one whose values grant something: a list, or a text with spaces between. Name is the one that names
	// who it is.
	Claim, Name string
	// Grants are the scopes by value; Scopes are all that there are.
	Grants map[string][]string
	Scopes []string
	// Client may be nil. Now may be nil for the time.
	Client *http.Client
	Now    func() time.Time
}

const (
	// leeway is how far clocks may differ.
	leeway = time.Minute
	// fetchWait is how long the provider may take to answer, maxAnswer how many bytes that may have.
	fetchWait = 5 * time.Second
	maxAnswer = 1 << 20
	// freshFor is how long keys count without a look whether they are still there, and keptFor how long they do while
	// the provider does not answer.
	freshFor = time.Hour
	keptFor  = 24 * time.Hour
	// fetchEvery is between two looks at least, whatever tokens come.
	fetchEvery = 10 * time.Second
	// maxToken is the most bytes of a token, maxName of what names its owner: with the part that is its owner's alone it
	// is a token of a subject, and no longer than these may be.
	maxToken = 12 << 10
	maxName  = 64 - 17
)

// Errors of tokens.
var (
	// ErrInvalid means that a token does not count.
	ErrInvalid = errors.New("the token does not count")
	// ErrUnavailable means that no one knows: the keys of the provider cannot be had.
	ErrUnavailable = errors.New("the keys of the OpenID Connect provider cannot be had")
)

// Token says who has a token, what it lets them do, and until when.
type Token struct {
	Name    string
	Scopes  []string
	Expires time.Time
}

// Verifier judges tokens. It is safe for concurrent use.
type Verifier struct {
	cfg    Config
	keys   *keys
	parser *jwt.Parser
}

// algorithms are those that are taken, all with a key pair.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"}

// New makes a verifier. It asks the provider nothing yet.
func New(cfg Config) (*Verifier, error) {
	if err := safe(cfg.Issuer); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	if cfg.Audience == "" {
		return nil, errors.New("audience: name what tokens for this gateway are made for, as the provider knows it")
	}
	if len(cfg.Grants) == 0 {
		return nil, errors.New("grants: no value of a claim grants anything, so no token lets anyone in")
	}
	for value, scopes := range cfg.Grants {
		for _, s := range scopes {
			if !slices.Contains(cfg.Scopes, s) {
				return nil, fmt.Errorf("grants: %s=%s: a scope is one of %v", value, s, cfg.Scopes)
			}
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: fetchWait}
	}
	client := *cfg.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Verifier{cfg: cfg, keys: &keys{issuer: cfg.Issuer, client: &client, now: cfg.Now},
		parser: jwt.NewParser(jwt.WithValidMethods(algorithms), jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audience),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(cfg.Now),
			jwt.WithStrictDecoding())}, nil
}

// safe says whether keys may be asked for there: whoever can answer in its place can make tokens.
func safe(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%.200q is no address such as https://login.example.com", address)
	}
	local := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return fmt.Errorf("%.200q: want https", address)
	}
	return nil
}

// Looks reports whether a secret has the form of a JWT.
func Looks(secret string) bool { return strings.Count(secret, ".") == 2 }

// Verify returns what a token lets its owner do. The name of the token is made of who that is at the provider, and is
// no one else's.
func (v *Verifier) Verify(ctx context.Context, raw string) (Token, error) {
	claims, err := v.claims(ctx, v.parser, raw)
	if err != nil {
		return Token{}, err
	}
	subject, _ := claims["sub"].(string)
	name, _ := claims[v.cfg.Name].(string)
	if subject == "" || name == "" {
		return Token{}, fmt.Errorf("%w: it has no %s, or no sub", ErrInvalid, v.cfg.Name)
	}
	t := Token{Name: named(v.cfg.Issuer, subject, name), Scopes: v.scopes(claims[v.cfg.Claim])}
	if at, err := claims.GetExpirationTime(); err == nil && at != nil {
		t.Expires = at.Time
	}
	return t, nil
}

// claims are those of a token that one of the provider's keys signed and that a parser takes.
func (v *Verifier) claims(ctx context.Context, parser *jwt.Parser, raw string) (jwt.MapClaims, error) {
	if len(raw) > maxToken {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrInvalid, maxToken)
	}
	claims := jwt.MapClaims{}
	parsed, err := parser.ParseWithClaims(raw, claims, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		if _, critical := t.Header["crit"]; critical {
			return nil, errors.New("it has a header that is not known here")
		}
		return v.keys.find(ctx, id, t.Method.Alg())
	})
	if errors.Is(err, ErrUnavailable) {
		return nil, err
	}
	if err != nil || !parsed.Valid {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return claims, nil
}

// scopes are what the values of a claim grant.
func (v *Verifier) scopes(claim any) []string {
	var values []string
	switch c := claim.(type) {
	case string:
		values = strings.Fields(c)
	case []any:
		for _, one := range c {
			if s, ok := one.(string); ok {
				values = append(values, s)
			}
		}
	}
	granted := map[string]bool{}
	for _, value := range values {
		for _, s := range v.cfg.Grants[value] {
			granted[s] = true
		}
	}
	return slices.Sorted(maps.Keys(granted))
}

// named is a name for people, as ids of the station may be, and a part that is of this subject of this issuer alone.
func named(issuer, subject, name string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return strings.Trim(readable[:min(len(readable), maxName)], "-") + "-" + hex.EncodeToString(sum[:8])
}

// Grants reads grants: VALUE=SCOPE+SCOPE each.
func Grants(list []string) (map[string][]string, error) {
	all := map[string][]string{}
	for _, one := range list {
		value, scopes, ok := strings.Cut(one, "=")
		if !ok || value == "" || scopes == "" {
			return nil, fmt.Errorf("%.100q: want VALUE=SCOPE+SCOPE, such as engineers=runs:read+runs:write", one)
		}
		for s := range strings.SplitSeq(scopes, "+") {
			all[value] = append(all[value], s)
		}
	}
	return all, nil
}

// read gets an object of JSON.
func read(ctx context.Context, client *http.Client, address string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", address, res.Status)
	}
	return json.NewDecoder(http.MaxBytesReader(nil, res.Body, maxAnswer)).Decode(into)
}
