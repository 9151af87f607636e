package cli_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/jet/callout"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/natsserver"
	roles "github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/services/gateway/oidc/oidctest"
)

func TestCallout(t *testing.T) { // variables of the process
	seed, issuer, err := callout.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Port, cfg.LazySync = -1, true
		cfg.Accounts = topology.Buckets{}.CalloutAccounts("default", issuer, nil,
			func(string) string { return strconv.Quote(remotePassword) }, topology.Setup("default"))
	})
	cfg, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Station, cfg.NATSURL, cfg.NATSPassword, cfg.AcceptLazy = "default", s.URL(), secret.New(remotePassword), true
	cfg.NATSUser = topology.SetupUser
	if _, err := roles.Setup(t.Context(), cfg, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	provider := oidctest.New(t)
	token := func(group string) string {
		return provider.Token(t, map[string]any{"aud": "station-a", "sub": "ann", "email": "ann@example.com",
			"groups": []string{group}, "exp": time.Now().Add(time.Hour).Unix()})
	}
	as := func(token string) said {
		return inspan(t, "runs", "--json", "--server", strings.Replace(s.URL(), "://", "://"+token+"@", 1))
	}
	// up has inspan callout answer while do is done.
	up := func(do func()) (code int, errs string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		wrong := &ending{on: "are let in"}
		wrong.end = func() { wrong.end = func() {}; go func() { defer cancel(); do() }() }
		var out bytes.Buffer
		code = cli.MainAlone(ctx, []string{"callout", "--server", s.URL()}, strings.NewReader(""), &out, wrong)
		return code, wrong.text.String()
	}
	t.Run("PLUS-22 a setting that is missing is named, and nothing is answered", func(t *testing.T) {
		if code, errs := up(func() {}); code != 2 || !strings.Contains(errs, "INSPAN_GATEWAY_OIDC_ISSUER") {
			t.Errorf("exit %d: %s", code, errs)
		}
		for name, value := range map[string]string{"ISSUER": provider.URL, "AUDIENCE": "station-a", "CLAIM": "groups", "NAME": "email",
			"GRANTS": "engineers=runs:read+gates:answer"} {
			t.Setenv("INSPAN_GATEWAY_OIDC_"+name, value)
		}
		user, _, err := userkey.New()
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"", string(user)} {
			t.Setenv("INSPAN_CALLOUT_KEY", bad)
			if code, errs := up(func() {}); code != 2 || !strings.Contains(errs, "INSPAN_CALLOUT_KEY") || !strings.Contains(errs, "SA") {
				t.Errorf("exit %d: %s", code, errs)
			}
		}
	})
	t.Run("PLUS-22 CLI-9 inspan callout lets in people of the provider to a server elsewhere, and no one while it is away", func(t *testing.T) {
		for name, value := range map[string]string{"ISSUER": provider.URL, "AUDIENCE": "station-a", "CLAIM": "groups", "NAME": "email",
			"GRANTS": "engineers=runs:read+gates:answer"} {
			t.Setenv("INSPAN_GATEWAY_OIDC_"+name, value)
		}
		t.Setenv("INSPAN_CALLOUT_KEY", seed.Reveal())
		t.Setenv("INSPAN_NATS_USER", topology.CalloutUser)
		t.Setenv("INSPAN_NATS_PASSWORD", remotePassword)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("INSPAN_HTTP", l.Addr().String())
		if code, errs := up(func() {}); code == 0 || !strings.Contains(errs, "INSPAN_HTTP") {
			t.Errorf("its probes are in use: exit %d: %s", code, errs)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var good, bad said
		var code int
		var errs, probes string
		try := func() (int, string) {
			return up(func() {
				good, bad = as(token("engineers")), as(token("others"))
				req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+probes+"/readyz", nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("not ready: %s", res.Status)
				}
			})
		}
		for range 10 { // another program may take a free port
			probes = free(t)
			t.Setenv("INSPAN_HTTP", probes)
			if code, errs = try(); code == 0 || !strings.Contains(errs, "in use") {
				break
			}
		}
		if code != 0 || good.code != 0 || !strings.HasPrefix(strings.TrimSpace(good.out), "[") {
			t.Errorf("exit %d: %s\n%+v", code, errs, good)
		}
		if bad.code == 0 || !strings.Contains(bad.err, "does not let this program in") {
			t.Errorf("whose group grants nothing: %+v", bad)
		}
		if away := as(token("engineers")); away.code == 0 {
			t.Errorf("no one answers: %+v", away)
		}
	})
}
