package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/inspan/inspan/internal/oauth"
	"github.com/inspan/inspan/internal/secret"
)

// ErrNoLogin means that a server asked for no authorization.
var ErrNoLogin = errors.New("the server answers without authorization")

// Login is how a person grants access at the authorization server of an MCP server.
type Login struct {
	// Server is the address of the MCP server.
	Server string
	// ClientID and ClientSecret are those of a client that was registered by hand; empty registers one.
	ClientID     string
	ClientSecret secret.Value
	// Scopes are asked for besides those that the server names.
	Scopes []string
	// Port of 127.0.0.1 that the browser is sent back to; 0 takes a free one.
	Port int
	// Show gets the address that the person opens in a browser.
	Show func(address string)
}

// Run waits until the person has decided, or ctx ends.
func (l Login) Run(ctx context.Context) (oauth.Grant, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", l.Port))
	if err != nil {
		return oauth.Grant{}, err
	}
	back := &redirected{answers: make(chan auth.AuthorizationResult, 1), refusals: make(chan string, 1)}
	server := &http.Server{Handler: back, ReadHeaderTimeout: 10 * time.Second}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()
	got, asked := &recorded{}, error(nil)
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: fmt.Sprintf("http://%s/callback", listener.Addr()), RequestRefreshToken: true,
		AcceptUnadvertisedIss: true, Client: loginClient(),
		ScopeFilter: func(named []string) []string {
			all := slices.Clone(named)
			for _, s := range l.Scopes {
				if !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
			return all
		},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if asked != nil { // who refused is not asked again
				return nil, asked
			}
			l.Show(args.URL)
			var a *auth.AuthorizationResult
			a, asked = back.wait(ctx)
			return a, asked
		},
		NewTokenSource: func(ctx context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			got.from = c.TokenSource(ctx, t)
			got.grant = oauth.Grant{Server: l.Server, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
				TokenURL: c.Endpoint.TokenURL, AuthStyle: int(c.Endpoint.AuthStyle)}
			got.keep(t)
			return got, nil
		},
	}
	l.client(cfg)
	handler, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		return oauth.Grant{}, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "inspan", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: l.Server, HTTPClient: loginClient(),
		MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage, OAuthHandler: handler}, nil)
	if err != nil {
		if err = clean(err); ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err) // the library has it as text, or not at all
		}
		return oauth.Grant{}, err
	}
	_ = session.Close()
	got.mu.Lock()
	defer got.mu.Unlock()
	if got.grant.Access == "" {
		return oauth.Grant{}, ErrNoLogin
	}
	return got.grant, nil
}

// recorded keeps the last token of a source: one that ends soon is renewed while the session is tried.
type recorded struct {
	mu    sync.Mutex
	from  oauth2.TokenSource
	grant oauth.Grant
}

// Token implements oauth2.TokenSource.
func (r *recorded) Token() (*oauth2.Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.from.Token()
	if err == nil {
		r.keep(t)
	}
	return t, err
}

func (r *recorded) keep(t *oauth2.Token) {
	r.grant.Access, r.grant.Refresh, r.grant.Expiry = t.AccessToken, t.RefreshToken, t.Expiry
}

// client sets who asks.
func (l Login) client(cfg *auth.AuthorizationCodeHandlerConfig) {
	if l.ClientID == "" {
		us := &oauthex.ClientRegistrationMetadata{ClientName: "Inspan", RedirectURIs: []string{cfg.RedirectURL},
			TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}}
		cfg.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: us}
		return
	}
	cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: l.ClientID}
	if !l.ClientSecret.Empty() {
		cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: l.ClientSecret.Reveal()}
	}
}

// loginClient asks servers of which nothing is known yet.
func loginClient() *http.Client {
	pool := http.DefaultTransport.(*http.Transport).Clone()
	pool.MaxResponseHeaderBytes, pool.DisableKeepAlives = 64<<10, true
	return &http.Client{Transport: pool, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// redirected answers the browser that comes back from the authorization server.
type redirected struct {
	answers  chan auth.AuthorizationResult
	refusals chan string
}

// ServeHTTP implements http.Handler.
func (r *redirected) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	q := req.URL.Query()
	if req.Method != http.MethodGet || req.URL.Path != "/callback" || q.Get("state") == "" {
		http.NotFound(w, req)
		return
	}
	if why := q.Get("error"); why != "" {
		page(w, "The server refused. You can close this page; the terminal says why.\n")
		select {
		case r.refusals <- why:
		default:
		}
		return
	}
	page(w, "You can close this page and go back to the terminal.\n")
	select {
	case r.answers <- auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}:
	default: // the first answer counts
	}
}

// page sends all of a page at once: the command may end as soon as it has the answer.
func page(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text))
	_ = http.NewResponseController(w).Flush()
}

// wait returns what the browser came back with.
func (r *redirected) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case a := <-r.answers:
		return &a, nil
	case why := <-r.refusals:
		return nil, fmt.Errorf("the authorization server refused: %.200q", why)
	case <-ctx.Done():
		return nil, fmt.Errorf("no browser came back: %w", ctx.Err())
	}
}
