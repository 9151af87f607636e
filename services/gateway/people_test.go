package gateway_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/oidc/oidctest"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// people is a station whose server lets in people of a provider, with a gateway and its console.
type people struct {
	*door
	provider *oidctest.Provider
	settings service.Gateway
}

func newPeople(t *testing.T) people {
	t.Helper()
	provider := oidctest.New(t)
	var settings service.Gateway
	w := newWorld(t, func(cfg *service.Config) {
		cfg.GatewayOIDCIssuer, cfg.GatewayOIDCAudience, cfg.GatewayOIDCClaim = provider.URL, "station-a", "groups"
		cfg.GatewayOIDCName, cfg.GatewayOIDCNATS = "email", true
		cfg.GatewayOIDCGrants = []string{"engineers=runs:read+runs:write+gates:answer", "guests=runs:read"}
		settings = cfg.Gateway
	})
	v, err := signin.Verifier(settings)
	if err != nil {
		t.Fatal(err)
	}
	d := w.open(t, nil, w.withConsole, func(c *gateway.Config) {
		c.Console.TokenCookie = topology.TokenCookie
		if c.Console.SignIn, err = oidc.NewSignIn(v, "station-a", []string{"openid", "email"}); err != nil {
			t.Fatal(err)
		}
		c.Bearer = func(ctx context.Context, secret string) (tokens.Token, error) {
			one, err := v.Verify(ctx, secret)
			return tokens.Token{Name: one.Name, Scopes: tokens.ScopesOf(one.Scopes), Expires: one.Expires}, err
		}
		c.Person = func(ctx context.Context, secret string) (gateway.Answerer, error) {
			conn, err := station.Person(ctx, w.station, secret)
			if err != nil {
				return nil, err
			}
			return operator.Over(conn, w.station.Name())
		}
	})
	return people{d, provider, settings}
}

// token of somebody, with more claims.
func (p people) token(t *testing.T, who, group string, more ...any) string {
	t.Helper()
	claims := map[string]any{"aud": "station-a", "sub": who, "email": who + "@example.com", "groups": []string{group},
		"exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i < len(more); i += 2 {
		claims[more[i].(string)] = more[i+1]
	}
	return p.provider.Token(t, claims)
}

// name is what somebody is called here.
func (p people) name(t *testing.T, token string) string {
	t.Helper()
	return in[gateway.ConsoleAbout](t, p.want(t, 200, "GET", "/console/about", token, "")).Token
}

// gate starts a run in somebody's name and returns it with its gate.
func (p people) gate(t *testing.T, agent, token string) (runID string, g *run.Gate) {
	t.Helper()
	a := in[gateway.RunAnswer](t, p.want(t, 202, "POST", "/api/v1/harness/run", token, `{"agent_id":"`+agent+`","task":"x"}`))
	s, err := awaits(t, p.client, a.Run, func(s run.State) bool { return len(s.Waiting()) > 0 })
	if err != nil {
		t.Fatal(err)
	}
	return a.Run, s.Waiting()[0]
}

// page connects as a console with a token.
func (p people) page(t *testing.T, token string) *tab {
	t.Helper()
	page, status := dial(t, strings.TrimPrefix(p.url, "http://"), "/console/nats", "Sec-WebSocket-Protocol",
		"nats.inspan, token."+token, "Origin", p.url)
	if status != 101 {
		t.Fatalf("a console with a token: %d", status)
	}
	return page
}

func TestPeople(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ann, bob, carol := p.token(t, "ann", "engineers"), p.token(t, "bob", "engineers"), p.token(t, "carol", "engineers")
	approve := func(g *run.Gate) string { return `{"decision":"approve","proposal_hash":"` + g.Hash + `"}` }
	t.Run("PLUS-22 GATE-9 answers over HTTP and of the console are proven, and count for a gate of two approvers", func(t *testing.T) {
		id, g := p.gate(t, "several", ann)
		answer := "/api/v1/runs/" + id + "/gates/" + g.ID
		if a := p.want(t, 403, "POST", answer, ann, approve(g)); !strings.Contains(a.body, "own_request") {
			t.Errorf("who started the run approves it: %s", a.body)
		}
		p.want(t, 200, "POST", answer, bob, approve(g))
		p.want(t, 422, "POST", answer, bob, approve(g)) // a person counts once
		page := p.page(t, carol)
		if said := page.signIn(t, nothing); strings.Contains(said, "-ERR") {
			t.Fatalf("signed in: %s", said)
		}
		subject := events.GateSubject(p.station.Name(), id, g.ID)
		stolen := subject + "." + p.name(t, bob)
		page.say(t, fmt.Sprintf("PUB %s %d\r\n%s\r\nPING\r\n", stolen, len(approve(g)), approve(g)))
		if said, err := page.hear(`Permissions Violation for Publish to "` + stolen); err != nil {
			t.Fatalf("in another's name: %v\n%s", err, said)
		}
		own := subject + "." + p.name(t, carol)
		page.say(t, fmt.Sprintf("PUB %s %d\r\n%s\r\n", own, len(approve(g)), approve(g)))
		s, err := awaits(t, p.client, id, func(s run.State) bool { return s.Status == events.Completed })
		if err != nil {
			t.Fatal(err)
		}
		got := s.Gate(g.ID)
		if got.Status != run.GateApproved || got.By != p.name(t, carol) || len(got.Votes) != 2 || got.Votes[0].By != p.name(t, bob) {
			t.Errorf("%+v", got)
		}
		log := p.want(t, 200, "GET", "/api/v1/runs/"+id+"/events", "reader", "").body
		for _, who := range []string{bob, carol} {
			if want := `"by":"` + p.name(t, who) + `","assurance":"` + events.AssuranceSubject + `"`; strings.Count(log, want) != 1 {
				t.Errorf("no %s in\n%s", want, log)
			}
		}
		if !strings.HasPrefix(got.By, "carol-example-com-") {
			t.Errorf("by %s", got.By)
		}
	})
	t.Run("PLUS-22 DLV-6 a plain client with a token starts a run and sees its end", func(t *testing.T) {
		c, err := p.connect(t, carol)
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Start(t.Context(), events.Task{Agent: "helper", Task: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := awaits(t, c, id, func(s run.State) bool { return s.Status.Ended() }); err != nil || s.Status != events.Completed {
			t.Errorf("%v, %v", s.Status, err)
		}
	})
	t.Run("PLUS-22 a token that grants less lets its owner do less", func(t *testing.T) {
		id, g := p.gate(t, "asks", ann)
		guest := p.token(t, "dan", "guests")
		c, err := p.connect(t, guest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Gates().Approve(t.Context(), client.Decision{Run: id, Gate: g.ID, By: p.name(t, guest)}); !errors.Is(err, client.ErrDenied) {
			t.Errorf("a guest approves: %v", err)
		}
		if _, err := p.connect(t, p.token(t, "dan", "others")); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("whose group grants nothing: %v", err)
		}
	})
	t.Run("PLUS-22 SAFE-6 tokens that do not count let no one in, at the server and at the gateway", func(t *testing.T) {
		other := oidctest.New(t)
		good := strings.Split(ann, ".")
		claims, err := base64.RawURLEncoding.DecodeString(good[1])
		if err != nil {
			t.Fatal(err)
		}
		half := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		for what, token := range map[string]string{
			"of another audience":       p.token(t, "ann", "engineers", "aud", "shop"),
			"of another station":        p.token(t, "ann", "engineers", "aud", "station-b"),
			"expired":                   p.token(t, "ann", "engineers", "exp", time.Now().Add(-time.Hour).Unix()),
			"without an end":            p.token(t, "ann", "engineers", "exp", nil),
			"not yet":                   p.token(t, "ann", "engineers", "nbf", time.Now().Add(time.Hour).Unix()),
			"of another issuer":         other.Token(t, map[string]any{"aud": "station-a", "sub": "ann", "email": "ann", "groups": "engineers", "exp": time.Now().Add(time.Hour).Unix()}),
			"of no issuer, signed none": half(`{"alg":"none"}`) + "." + good[1] + ".",
			"signed with a shared key":  half(`{"alg":"HS256","kid":"k"}`) + "." + good[1] + "." + good[2],
			"changed":                   good[0] + "." + half(strings.Replace(string(claims), "ann@", "eve@", 1)) + "." + good[2],
			"cut":                       ann[:len(ann)-8],
			"no JWT":                    "a.b.c",
			"of the gateway":            p.secrets["all"],
			"too large":                 p.token(t, "ann", "engineers", "more", strings.Repeat("x", 9<<10)),
		} {
			if _, err := p.connect(t, token); err == nil {
				t.Errorf("%s: let in", what)
			}
			if what == "of the gateway" {
				continue // the gateway knows it, and the server does not
			}
			if _, status := dial(t, strings.TrimPrefix(p.url, "http://"), "/console/nats", "Sec-WebSocket-Protocol",
				"nats.inspan, token."+token, "Origin", p.url); status == 101 {
				t.Errorf("%s: the gateway opens a console", what)
			}
		}
	})
	t.Run("PLUS-22 SAFE-6 names with tricks are one token of a subject, and no one else's", func(t *testing.T) {
		seen := map[string]string{}
		for _, name := range []string{"*", ">", "a.b", "a b", "gateway", "gatekeeper", "planner", "ann@example.com", "ärger", "\r\nPUB x", strings.Repeat("n", 300), "ann"} {
			token := p.provider.Token(t, map[string]any{"aud": "station-a", "sub": "sub of " + name, "email": name,
				"groups": []string{"engineers"}, "exp": time.Now().Add(time.Hour).Unix()})
			got := p.name(t, token)
			if err := events.CheckID("name", got); err != nil || got == events.Gateway || seen[got] != "" || got == p.name(t, ann) {
				t.Errorf("%q is called %q: %v", name, got, err)
			}
			seen[got] = name
			if _, err := p.connect(t, token); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
	t.Run("PLUS-22 while the provider's keys cannot be had a person who is known is let in, and tokens of the gateway work", func(t *testing.T) {
		p.provider.Away.Store(true)
		defer p.provider.Away.Store(false)
		if _, err := p.connect(t, ann); err != nil {
			t.Errorf("with keys of a moment ago: %v", err)
		}
		p.want(t, 200, "GET", "/api/v1/runs", "reader", "")
	})
}

// connect connects to the server with a token, and nothing of the gateway.
func (p people) connect(t *testing.T, token string) (*client.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := station.Person(ctx, p.station, token)
	if err != nil {
		return nil, err
	}
	c, err := operator.Over(conn, p.station.Name())
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// awaits follows a run until its state is as wanted.
func awaits(t *testing.T, c *client.Client, id string, until func(run.State) bool) (run.State, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil || until(item.State) {
			return item.State, err
		}
	}
	return run.State{}, ctx.Err()
}
