package gateway

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/services/gateway/oidc"
)

// signInServer has people of a console sign in at the identity provider. What belongs to an attempt is in a cookie of
// the browser that no script reads and no other site has sent; the gateway keeps nothing, so another one may end it.
type signInServer struct{ *consoleServer }

const (
	signInPath = consolePath + "/signin"
	// signInWait is how long an attempt may take.
	signInWait = 10 * time.Minute
	// maxSignIn is the most bytes of a request that ends an attempt.
	maxSignIn = 8 << 10
	// signInCookie has the attempt. hostCookie is its name where the page came over TLS: then no other host may set it.
	signInCookie = "inspan-signin"
	hostCookie   = "__Host-" + signInCookie
	// signers is the name under which attempts are counted together.
	signers = "console that signs in"
)

// SignInBegun is where a browser goes to sign in.
type SignInBegun struct {
	URL string `json:"url"`
}

// SignInBack is what the browser was sent back with.
type SignInBack struct {
	Code  string `json:"code"`
	State string `json:"state"`
}

// SignedIn has the token of a person who signed in.
type SignedIn struct {
	Token string `json:"token"`
}

// serveSignIn adds the routes.
func serveSignIn(g *consoleServer) {
	s := signInServer{g}
	g.mux.HandleFunc("POST "+signInPath, s.handle(s.begin))
	g.mux.HandleFunc("POST "+signInPath+"/done", s.handle(s.done))
}

// ofSignIn reports whether a request is one by which a page of the console signs somebody in.
func ofSignIn(g *Gateway, r *http.Request) bool {
	return g.cfg.Console != nil && g.cfg.Console.SignIn != nil && r.Method == http.MethodPost &&
		(r.URL.Path == signInPath || r.URL.Path == signInPath+"/done")
}

// handle answers the requests of pages of this gateway alone, and no more than are good for it.
func (s signInServer) handle(do func(w http.ResponseWriter, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		var err error
		switch {
		case !s.ownPage(r):
			err = &Problem{Status: http.StatusForbidden, Code: "origin",
				Hint: "an operator can add the origin of the page to INSPAN_GATEWAY_ORIGINS"}
		default:
			if p := s.often(signers); p != nil {
				err = p
				break
			}
			answer, err = do(w, r)
		}
		if err != nil {
			s.refuse(w, r, signInPath, signInProblem(s.Gateway, err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	}
}

// signInProblem is an error of the provider as the page gets it.
func signInProblem(g *Gateway, err error) error {
	switch {
	case errors.Is(err, oidc.ErrUnavailable):
		g.cfg.Failed(signInPath, err)
		return &Problem{Status: http.StatusServiceUnavailable, Code: "no_provider", after: later,
			Detail: "the identity provider does not answer", Hint: "try again in a moment; the log of the gateway says more"}
	case errors.Is(err, oidc.ErrRefused):
		return &Problem{Status: http.StatusForbidden, Code: "sign_in", Detail: err.Error(),
			Hint: "sign in again; where that does not help an operator compares the client at the provider with " +
				"INSPAN_GATEWAY_OIDC_"}
	}
	return err
}

// begin begins an attempt.
func (s signInServer) begin(w http.ResponseWriter, r *http.Request) (any, error) {
	origin := r.Header.Get("Origin")
	a, address, err := s.console.SignIn.Begin(r.Context(), origin+consolePath+"/")
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	c := cookieOf(origin)
	c.Value, c.MaxAge = base64.RawURLEncoding.EncodeToString(b), int(signInWait/time.Second)
	http.SetCookie(w, c)
	return SignInBegun{address}, nil
}

// done ends an attempt, which can be ended once in this browser, and answers with the token.
func (s signInServer) done(w http.ResponseWriter, r *http.Request) (any, error) {
	origin := r.Header.Get("Origin")
	c := cookieOf(origin)
	c.MaxAge = -1
	http.SetCookie(w, c)
	var back SignInBack
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignIn))
	if err != nil {
		return nil, err
	}
	if err := ce.Strict(body, &back); err != nil {
		return nil, bad("the body: "+err.Error(), "reload the page of the console")
	}
	a, ok := attemptOf(r, c.Name)
	switch {
	case !ok || a.State == "" || a.Redirect != origin+consolePath+"/":
		return nil, bad("this browser has begun no sign-in here, or longer ago than 10 minutes", "sign in again")
	case subtle.ConstantTimeCompare([]byte(a.State), []byte(back.State)) != 1:
		return nil, bad("the answer is of another sign-in than the last one of this browser", "sign in again")
	}
	token, err := s.console.SignIn.End(r.Context(), a, back.Code)
	if err != nil {
		return nil, err
	}
	return SignedIn{token}, nil
}

// cookieOf is the cookie of an attempt from pages of an origin, without a value.
func cookieOf(origin string) *http.Cookie {
	c := &http.Cookie{Name: signInCookie, Path: signInPath, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if strings.HasPrefix(strings.ToLower(origin), "https://") {
		c.Name, c.Path, c.Secure = hostCookie, "/", true
	}
	return c
}

// attemptOf is the attempt that a request has in its one cookie of a name.
func attemptOf(r *http.Request, name string) (a oidc.Attempt, ok bool) {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return a, false
	}
	b, err := base64.RawURLEncoding.DecodeString(all[0].Value)
	return a, err == nil && ce.Strict(b, &a) == nil
}
