package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/oidc"
)

// browser is one that signs in at a provider.
type browser struct {
	people
	cookie string
}

// begins asks for a sign-in, keeps its cookie, and returns where to go.
func (b *browser) begins(t *testing.T) *url.URL {
	t.Helper()
	a := b.want(t, 200, "POST", "/console/signin", "", `{}`, "Origin", b.url)
	b.cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	u, err := url.Parse(in[gateway.SignInBegun](t, a).URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// goes follows an address to the provider and returns what that sends the browser back with; nil where it sends it
// nowhere.
func (b *browser) goes(t *testing.T, to *url.URL) url.Values {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", to.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	at, err := res.Location()
	if errors.Is(err, http.ErrNoLocation) {
		return nil
	}
	if err != nil || !strings.HasPrefix(at.String(), b.url+"/console/?") {
		t.Fatalf("%v, %v", at, err)
	}
	return at.Query()
}

// ends ends a sign-in.
func (b *browser) ends(t *testing.T, code, state string) answered {
	t.Helper()
	text, err := json.Marshal(gateway.SignInBack{Code: code, State: state})
	if err != nil {
		t.Fatal(err)
	}
	return b.do(t, "POST", "/console/signin/done", "", string(text), "Origin", b.url, "Cookie", b.cookie)
}

// signsIn does all of it.
func (b *browser) signsIn(t *testing.T) answered {
	t.Helper()
	back := b.goes(t, b.begins(t))
	return b.ends(t, back.Get("code"), back.Get("state"))
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	b := &browser{people: newPeople(t)}
	redirect := b.url + "/console/"
	// registered has bob sign in, with other claims.
	registered := func(more map[string]any) {
		b.provider.Register("station-a", redirect, func(client, nonce string) map[string]any {
			claims := map[string]any{"aud": client, "sub": "bob", "email": "bob@example.com", "groups": []string{"engineers"}, "nonce": nonce,
				"exp": time.Now().Add(time.Hour).Unix()}
			for name, v := range more {
				claims[name] = v
			}
			return claims
		})
	}
	registered(nil)
	refused := func(t *testing.T, a answered, status int, code string) {
		t.Helper()
		p := in[gateway.Problem](t, a)
		if a.status != status || p.Code != code || p.Hint == "" || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%d %s, want %d %s: %v", a.status, a.body, status, code, a.header)
		}
		if strings.Contains(a.body, "eyJ") {
			t.Errorf("a token is in %s", a.body)
		}
	}
	t.Run("PLUS-22 PLUS-9 a person signs in at the provider by redirect, and what they answer in the console is proven", func(t *testing.T) {
		about := b.want(t, 200, "GET", "/console/about", "", "")
		if got := in[gateway.ConsoleAbout](t, about); got.SignIn != b.provider.URL {
			t.Errorf("%+v", got)
		}
		to := b.begins(t)
		q := to.Query()
		if to.Path != "/authorize" || q.Get("client_id") != "station-a" || q.Get("redirect_uri") != redirect || q.Get("code_challenge_method") != "S256" || q.Get("scope") != "openid email" ||
			len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 || q.Get("state") == q.Get("nonce") {
			t.Errorf("%s", to)
		}
		back := b.goes(t, to)
		a := b.ends(t, back.Get("code"), back.Get("state"))
		token := in[gateway.SignedIn](t, a).Token
		if a.status != 200 || !oidc.Looks(token) || a.header.Get("Cache-Control") != "no-store" || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Fatalf("%d %v", a.status, a.header)
		}
		id, g := b.gate(t, "asks", b.token(t, "ann", "engineers"))
		page := b.page(t, token)
		if said := page.signIn(t, nothing); strings.Contains(said, "-ERR") {
			t.Fatalf("signed in: %s", said)
		}
		answer := `{"decision":"approve","proposal_hash":"` + g.Hash + `"}`
		own := events.GateSubject(b.station.Name(), id, g.ID) + "." + b.name(t, token)
		page.say(t, fmt.Sprintf("PUB %s %d\r\n%s\r\n", own, len(answer), answer))
		s, err := awaits(t, b.client, id, func(s run.State) bool { return s.Status == events.Completed })
		if err != nil || s.Gate(g.ID).By != b.name(t, token) {
			t.Errorf("%v %+v", err, s.Gate(g.ID))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if text := strings.Join(b.failed, "\n"); strings.Contains(text, token) || strings.Contains(text, back.Get("code")) {
			t.Errorf("reported: %s", text)
		}
	})
	t.Run("PLUS-22 SAFE-12 the cookie of an attempt is for no script and no other site, and the page stays strict", func(t *testing.T) {
		a := b.want(t, 200, "POST", "/console/signin", "", `{}`, "Origin", b.url)
		c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
		if err != nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console/signin" || c.MaxAge != 600 {
			t.Errorf("%v, %v", c, err)
		}
		policy := b.want(t, 200, "GET", "/console/", "", "").header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "connect-src 'self';") || strings.Contains(policy, b.provider.URL) {
			t.Errorf("%s", policy)
		}
		for what, headers := range map[string][]string{"another page": {"Origin", "https://evil.example.com"}, "no page": nil} {
			for _, path := range []string{"/console/signin", "/console/signin/done"} {
				if a := b.do(t, "POST", path, "", `{}`, headers...); a.status != 403 || !strings.Contains(a.body, "origin") || a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s: %s: %d %s", what, path, a.status, a.body)
				}
			}
		}
	})
	t.Run("PLUS-22 SAFE-12 an answer with another state, of no attempt or of an earlier one, signs no one in", func(t *testing.T) {
		back := b.goes(t, b.begins(t))
		refused(t, b.ends(t, back.Get("code"), "other"), 400, "bad_request")
		refused(t, b.ends(t, back.Get("code"), ""), 400, "bad_request")
		first := b.cookie
		b.begins(t)
		refused(t, b.ends(t, back.Get("code"), back.Get("state")), 400, "bad_request")
		for _, cookie := range []string{"", "inspan-signin=", "inspan-signin=e30", "inspan-signin=!", first + "; " + first} {
			b.cookie = cookie
			refused(t, b.ends(t, back.Get("code"), back.Get("state")), 400, "bad_request")
		}
		empty := base64.RawURLEncoding.EncodeToString([]byte(`{"state":"","nonce":"","proof":"","redirect":"` + redirect + `"}`))
		b.cookie = "inspan-signin=" + empty
		refused(t, b.ends(t, back.Get("code"), ""), 400, "bad_request")
	})
	t.Run("PLUS-22 SAFE-12 a code counts once, for its own attempt", func(t *testing.T) {
		back := b.goes(t, b.begins(t))
		if a := b.ends(t, back.Get("code"), back.Get("state")); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		refused(t, b.ends(t, back.Get("code"), back.Get("state")), 403, "sign_in") // replayed
		stolen := b.goes(t, b.begins(t))
		back = b.goes(t, b.begins(t))
		refused(t, b.ends(t, stolen.Get("code"), back.Get("state")), 403, "sign_in") // its proof is another one
		refused(t, b.ends(t, "", back.Get("state")), 403, "sign_in")
		refused(t, b.ends(t, strings.Repeat("x", 5000), back.Get("state")), 403, "sign_in")
	})
	t.Run("PLUS-22 SAFE-12 a code of another client and an ID token of one sign no one in", func(t *testing.T) {
		b.provider.Register("other", redirect, func(client, nonce string) map[string]any { return map[string]any{"aud": client, "nonce": nonce} })
		defer registered(nil)
		to := b.begins(t)
		q := to.Query()
		q.Set("client_id", "other")
		to.RawQuery = q.Encode()
		back := b.goes(t, to)
		refused(t, b.ends(t, back.Get("code"), back.Get("state")), 403, "sign_in")
		for what, more := range map[string]map[string]any{"made for another": {"aud": "other"}, "given to another": {"azp": "other"}, "for two, given to no one": {"aud": []string{"station-a", "other"}},
			"of another attempt": {"nonce": "other"}, "of no attempt": {"nonce": ""}, "ended": {"exp": time.Now().Add(-time.Hour).Unix()}, "of no name": {"email": ""},
			"too large": {"pad": strings.Repeat("x", 13<<10)}} {
			t.Log(what)
			registered(more)
			refused(t, b.signsIn(t), 403, "sign_in")
		}
	})
	t.Run("PLUS-22 SAFE-12 the provider sends no one to an address that is not registered, and exchanges for none", func(t *testing.T) {
		to := b.begins(t)
		q := to.Query()
		q.Set("redirect_uri", "https://evil.example.com/")
		to.RawQuery = q.Encode()
		if back := b.goes(t, to); back != nil {
			t.Errorf("sent back with %v", back)
		}
		v, err := signin.Verifier(b.settings)
		if err != nil {
			t.Fatal(err)
		}
		s, err := oidc.NewSignIn(v, "station-a", []string{"openid"})
		if err != nil {
			t.Fatal(err)
		}
		a, address, err := s.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		to, err = url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		a.Redirect = b.url + "/other/"
		if token, err := s.End(t.Context(), a, b.goes(t, to).Get("code")); !errors.Is(err, oidc.ErrRefused) || token != "" {
			t.Errorf("%v", err)
		}
		for _, bad := range []string{"http://console.example.com/console/", "javascript:alert(1)", "https://a@b/console/", ""} {
			if _, _, err := s.Begin(t.Context(), bad); !errors.Is(err, oidc.ErrRefused) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
	t.Run("PLUS-22 SAFE-12 what the provider answers wrong is refused without its words, and its absence is no refusal", func(t *testing.T) {
		defer b.provider.Answer(nil)
		for what, c := range map[string]struct {
			change func(map[string]any) int
			status int
			code   string
		}{
			"it refuses":          {func(a map[string]any) int { clear(a); a["error"] = "access_denied"; return 400 }, 403, "sign_in"},
			"a text in its error": {func(a map[string]any) int { clear(a); a["error"] = "<b>eyJ call 555</b>"; return 400 }, 403, "sign_in"},
			"no ID token":         {func(a map[string]any) int { delete(a, "id_token"); return 200 }, 403, "sign_in"},
			"no signature": {func(a map[string]any) int {
				s := a["id_token"].(string)
				a["id_token"] = s[:strings.LastIndex(s, ".")+1]
				return 200
			}, 403, "sign_in"},
			"an answer without end": {func(a map[string]any) int { a["pad"] = strings.Repeat("x", 1<<20); return 200 }, 403, "sign_in"},
			"a redirect":            {func(map[string]any) int { return 302 }, 403, "sign_in"},
			"trouble":               {func(map[string]any) int { return 500 }, 503, "no_provider"},
		} {
			t.Log(what)
			b.provider.Answer(c.change)
			refused(t, b.signsIn(t), c.status, c.code)
		}
		b.provider.Answer(nil)
		back := b.goes(t, b.begins(t))
		b.provider.Away.Store(true)
		a := b.ends(t, back.Get("code"), back.Get("state"))
		b.provider.Away.Store(false)
		refused(t, a, 503, "no_provider")
		if a := b.signsIn(t); a.status != 200 {
			t.Errorf("it is back: %d %s", a.status, a.body)
		}
	})
	t.Run("PLUS-22 SAFE-12 where tokens are made for another audience the access token counts, if it is of the same person", func(t *testing.T) {
		v, err := signin.Verifier(b.settings)
		if err != nil {
			t.Fatal(err)
		}
		s, err := oidc.NewSignIn(v, "console", []string{"openid"})
		if err != nil {
			t.Fatal(err)
		}
		b.provider.Register("console", redirect, func(client, nonce string) map[string]any {
			return map[string]any{"aud": client, "sub": "bob", "nonce": nonce, "exp": time.Now().Add(time.Hour).Unix()}
		})
		defer registered(nil)
		defer b.provider.Answer(nil)
		for who, good := range map[string]bool{"bob": true, "eve": false, "": false} {
			access := b.token(t, who, "engineers")
			if who == "" {
				access = "opaque"
			}
			b.provider.Answer(func(a map[string]any) int { a["access_token"] = access; return 200 })
			a, address, err := s.Begin(t.Context(), redirect)
			if err != nil {
				t.Fatal(err)
			}
			to, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			token, err := s.End(t.Context(), a, b.goes(t, to).Get("code"))
			if good != (err == nil && token == access) || !good && !errors.Is(err, oidc.ErrRefused) {
				t.Errorf("%q: %v", who, err)
			}
		}
	})
}
