package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/docs"
	"github.com/inspan/inspan/services/gateway/console"
	"github.com/inspan/inspan/services/gateway/console/help"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// Console is how the gateway connects consoles to NATS. A console is a client of NATS over WebSocket with the rights of
// its user, so the gateway passes on bytes and judges nothing of what they say.
type Console struct {
	// Address is where the server takes NATS over WebSocket, HOST:PORT.
	Address func() string
	// TLS says that it takes it over TLS.
	TLS bool
	// Login returns the user and the password of a console whose token has these scopes; it is empty where there is none.
	Login func(scopes []tokens.Scope) (user, password string)
	// UserCookie and PasswordCookie are how the server is told of them.
	UserCookie, PasswordCookie string
	// TokenCookie, which may be empty, is where the server takes a token of the provider, for which it asks itself who
	// that is.
	TokenCookie string
	// SignIn, which may be nil, has people sign in at the identity provider.
	SignIn *oidc.SignIn
	// About is what a page needs to know of the station before anyone has signed in.
	About ConsoleAbout
}

// ConsoleAbout is what anyone may know, as anyone does who connects to NATS.
type ConsoleAbout struct {
	Station string `json:"station"`
	// State and Files are the buckets that an operator may name.
	State string `json:"state"`
	Files string `json:"files"`
	// Version of the program.
	Version string `json:"version"`
	// SignIn is the address of the identity provider at which the page can have people sign in; empty for none.
	SignIn string `json:"sign_in,omitempty"`
	// Token is the name of the token that was sent and Scopes what it has; both are empty without one. Person says that
	// the NATS server knows the person by that name, so that answers to gates are proven.
	Token  string         `json:"token,omitempty"`
	Scopes []tokens.Scope `json:"scopes,omitempty"`
	Person bool           `json:"person,omitempty"`
}

const (
	consolePath = "/console"
	// subprotocol is what a console speaks, and tokenProtocol begins the one that holds its token: a browser lets a page
	// set no other header of a WebSocket, and an address would be logged.
	subprotocol   = "nats.inspan"
	tokenProtocol = "token."
	// consoles is the name under which consoles without a token are counted together.
	consoles = "console without a token"
	// noUser is who a console is that names no user. The server has no such user, so it is refused: nothing comes in
	// through the gateway that did not prove who it is, also where the server has a guest.
	noUser = "none"
)

// consoleServer serves the console of a gateway.
type consoleServer struct {
	*Gateway
	console *Console
	// toNATS connects to the WebSocket listener directly: no proxy of the environment sees it.
	toNATS *http.Transport
}

// serveConsole adds the routes of the console.
func serveConsole(gateway *Gateway) error {
	files, err := console.Handler()
	if err != nil {
		return err
	}
	pages, err := help.Handler(docs.Pages)
	if err != nil {
		return err
	}
	g := &consoleServer{Gateway: gateway, console: gateway.cfg.Console, toNATS: &http.Transport{
		DialContext: (&net.Dialer{Timeout: headerWait}).DialContext, DisableKeepAlives: true,
		ResponseHeaderTimeout: headerWait, TLSHandshakeTimeout: headerWait}}
	g.mux.Handle("GET /{$}", http.RedirectHandler(consolePath+"/", http.StatusFound))
	g.mux.Handle("GET "+consolePath+"/", http.StripPrefix(consolePath+"/", files))
	g.mux.Handle("GET "+consolePath+"/docs/", http.StripPrefix(consolePath+"/docs/", pages))
	g.mux.HandleFunc("GET "+consolePath+"/about", g.about)
	g.mux.HandleFunc("GET "+consolePath+"/nats", g.nats)
	if g.console.SignIn != nil {
		serveSignIn(g)
	}
	return nil
}

// ofConsole reports whether a request is one of the console, whose pages anyone may load and link to.
func ofConsole(g *Gateway, r *http.Request) bool {
	return g.cfg.Console != nil && clean(r.URL) && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, consolePath+"/"))
}

// about says what the page needs to know. Where a token is sent, it must be good.
func (g *consoleServer) about(w http.ResponseWriter, r *http.Request) {
	if p := g.page(w, r); p != nil {
		g.refuse(w, r, consolePath, p)
		return
	}
	about := g.console.About
	if g.console.SignIn != nil {
		about.SignIn = g.console.SignIn.Issuer()
	}
	if r.Header.Get("Authorization") != "" {
		t, p := g.token(r, tokens.Read)
		if p != nil {
			g.refuse(w, r, consolePath, p)
			return
		}
		about.Token, about.Scopes, about.Person = t.Name, t.Scopes, g.known(bearer(r))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(about) // the client may be gone
}

// nats connects a page to the NATS server until one of them ends it, the token ends, or the gateway stops.
func (g *consoleServer) nats(w http.ResponseWriter, r *http.Request) {
	if !g.ownPage(r) {
		g.refuse(w, r, consolePath, &Problem{Status: http.StatusForbidden, Code: "origin",
			Hint: "an operator can add the origin of the page to INSPAN_GATEWAY_ORIGINS"})
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		g.refuse(w, r, consolePath, &Problem{Status: http.StatusUpgradeRequired, Code: "upgrade",
			Detail: "this is where consoles connect, over WebSocket", Hint: "open " + consolePath + "/ in a browser"})
		return
	}
	who, p := g.user(r)
	if p != nil {
		g.refuse(w, r, consolePath, p)
		return
	}
	release, ok := g.limits.stream(who.name)
	if !ok {
		g.refuse(w, r, consolePath, tooManyStreams())
		return
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	watching.Go(func() { g.watch(ctx, cancel, r) })
	defer func() { cancel(); watching.Wait() }()
	scheme := "http"
	if g.console.TLS {
		scheme = "https"
	}
	upstream := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: scheme, Host: g.console.Address()})
			p.Out.URL.Path, p.Out.URL.RawQuery, p.Out.Host = "/", "", ""
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Sec-Websocket-Extensions",
				"Sec-Websocket-Protocol"} {
				p.Out.Header.Del(name)
			}
			for _, c := range who.cookies {
				p.Out.AddCookie(c)
			}
		},
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusSwitchingProtocols {
				res.Header.Set("Sec-Websocket-Protocol", subprotocol)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if ctx.Err() == nil {
				g.cfg.Failed(consolePath, err)
			}
			g.refuse(w, r, consolePath, &Problem{Status: http.StatusServiceUnavailable, Code: "unavailable",
				Detail: "the NATS server does not answer", Hint: "try again in a moment"})
		},
		ErrorLog: quiet(), Transport: g.toNATS,
	}
	upstream.ServeHTTP(w, r.WithContext(ctx))
}

// watch ends a connection once its token is no longer good or the gateway stops.
func (g *consoleServer) watch(ctx context.Context, end context.CancelFunc, r *http.Request) {
	defer end()
	beat := time.NewTicker(g.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if _, p := g.user(r); p != nil {
				return
			}
		case <-g.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// signedIn is who a console is for the NATS server where it does not say so itself, with a key.
type signedIn struct {
	// name is that of the token.
	name    string
	cookies []*http.Cookie
}

// login is who a user of the server is.
func (g *consoleServer) login(name, user, password string) signedIn {
	return signedIn{name, []*http.Cookie{{Name: g.console.UserCookie, Value: user},
		{Name: g.console.PasswordCookie, Value: password}}}
}

// known reports whether the NATS server itself judges a token.
func (g *consoleServer) known(secret string) bool {
	return g.console.TokenCookie != "" && oidc.Looks(secret)
}

// user is who a console is for the NATS server.
func (g *consoleServer) user(r *http.Request) (signedIn, *Problem) {
	offered := strings.Split(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",")
	for i := range offered {
		offered[i] = strings.TrimSpace(offered[i])
	}
	if !slices.Contains(offered, subprotocol) {
		return signedIn{}, bad("the console speaks the subprotocol "+subprotocol, "reload the page of the console")
	}
	i := slices.IndexFunc(offered, func(s string) bool { return strings.HasPrefix(s, tokenProtocol) })
	if i < 0 {
		return g.login(consoles, noUser, noUser), nil
	}
	secret := strings.TrimPrefix(offered[i], tokenProtocol)
	ask := &http.Request{Header: http.Header{"Authorization": {"Bearer " + secret}}}
	t, p := g.token(ask, tokens.Read)
	if p != nil {
		return signedIn{}, p
	}
	if g.known(secret) {
		return signedIn{t.Name, []*http.Cookie{{Name: g.console.TokenCookie, Value: secret}}}, nil
	}
	user, password := g.console.Login(t.Scopes)
	if user == "" {
		return signedIn{}, &Problem{Status: http.StatusForbidden, Code: "scope"}
	}
	return g.login(t.Name, user, password), nil
}

// ownPage reports whether a WebSocket comes from a page of this gateway. The name that the page has for the gateway
// must be one that no one else can point here: an address, localhost, or the host of an origin that an operator named.
func (g *consoleServer) ownPage(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	if slices.Contains(g.cfg.Origins, strings.ToLower(origins[0])) {
		return true
	}
	u, err := url.Parse(origins[0])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || strings.EqualFold(u.Hostname(), "localhost")
}
