package jet_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// logLines is a log that may be read while it is written.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range words {
		if !strings.Contains(l.b.String(), w) {
			return false
		}
	}
	return true
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Minute); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	o := jettest.NewOperator(t, "s1", nil, topology.Setup("s1"))
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, o.Config() })
	good, err := os.ReadFile(o.Creds("planner"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(o.Creds("executor"))
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Index(good, []byte("-----BEGIN USER NKEY SEED-----"))
	otherHalf := bytes.Index(other, []byte("-----BEGIN USER NKEY SEED-----"))
	for name, c := range map[string]struct {
		text []byte
		want []string
	}{
		"missing":                {nil, []string{"there is no file", "--creds"}},
		"empty":                  {[]byte{}, []string{"no user JWT"}},
		"not credentials":        {[]byte("hello\n"), []string{"not that of a user"}},
		"cut off":                {good[:half], []string{"no seed"}},
		"put together from two":  {append(bytes.Clone(good[:half]), other[otherHalf:]...), []string{"two files"}},
		"larger than such files": {bytes.Repeat([]byte("x"), 1<<20), []string{"more than"}},
	} {
		t.Run("PLUS-17a credentials that no server takes are refused before one is asked, with the reason: "+name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.creds")
			if c.text != nil {
				if err := os.WriteFile(path, c.text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := jet.Connect(within(t), jet.Config{URL: s.URL(), Creds: path})
			if !errors.Is(err, claims.ErrBadCredentials) {
				t.Fatalf("got %v, want ErrBadCredentials", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
			if regexp.MustCompile(`S[OAU][A-Z2-7]{56}`).MatchString(err.Error()) {
				t.Error("the error has a seed")
			}
		})
	}
	t.Run("PLUS-17a credentials of another operator are refused, and the error says of whom they are", func(t *testing.T) {
		t.Parallel()
		stranger := jettest.NewOperator(t, "s1", nil, topology.Setup("s1"))
		_, err := jet.Connect(within(t), jet.Config{URL: s.URL(), Creds: stranger.Creds("planner")})
		if !errors.Is(err, jet.ErrUnauthorized) || !strings.Contains(err.Error(), stranger.Key("planner")) || !strings.Contains(err.Error(), "not one of this server") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("PLUS-17a a connection whose credentials expire says so, and goes on with new ones in the same file", func(t *testing.T) {
		t.Parallel()
		log := &logLines{}
		path := filepath.Join(t.TempDir(), "planner.creds")
		var conn *jet.Conn
		for life := time.Second; conn == nil; life *= 2 { // a slow machine connects after the first ones have ended
			o := expiring(t, o, life)
			if err := os.WriteFile(path, o, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := jet.Connect(within(t), jet.Config{URL: s.URL(), Creds: path, InboxPrefix: topology.InboxPrefix("s1", "planner"), Log: zerolog.New(log)})
			if err != nil && !errors.Is(err, claims.ErrBadCredentials) && !errors.Is(err, jet.ErrUnauthorized) {
				t.Fatal(err)
			}
			conn = c
		}
		defer conn.Close()
		eventually(t, "the reason in the log", func() bool { return log.has("nats refuses the credentials", "expired at", path) })
		eventually(t, "the end of the connection whose credentials have ended", func() bool { return !conn.Connected() })
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a connection with the new credentials", conn.Connected)
	})
}

// expiring are credentials of the planner that end.
func expiring(t *testing.T, o *jettest.Operator, life time.Duration) []byte {
	t.Helper()
	b, err := o.Expiring("planner", life)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRenewedCredentials(t *testing.T) {
	t.Parallel()
	o := jettest.NewOperator(t, "s1", nil, topology.Setup("s1"))
	before := o.Key("planner")
	t.Run("PLUS-17a accounts are signed again without a change of credentials", func(t *testing.T) {
		operator := o.Made.Operator
		o.Make()
		if o.Key("planner") != before || o.Made.Operator != operator {
			t.Error("a key or the operator changed")
		}
		for _, u := range o.Made.Users {
			if u.Fresh {
				t.Errorf("%s has new credentials", u.Name)
			}
		}
	})
	t.Run("PLUS-17a credentials with less than half of their life left are made anew, others stay", func(t *testing.T) {
		now := time.Now()
		o.Make(func(c *claims.Config) { c.Life, c.Revoked = 10*time.Hour, map[string]time.Time{before: now} })
		first := o.Key("planner")
		if first == before {
			t.Fatal("revoked credentials stay")
		}
		o.Make(func(c *claims.Config) { c.Now = now.Add(4 * time.Hour) })
		if o.Key("planner") != first {
			t.Error("they were made anew with 6 of 10 hours left")
		}
		o.Make(func(c *claims.Config) { c.Now = now.Add(6 * time.Hour) })
		if o.Key("planner") == first {
			t.Error("they were not made anew with 4 of 10 hours left")
		}
	})
}

// limited is a server whose only account has limits of JetStream.
func limited(t *testing.T, jetstream string) *jet.Conn {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Port, cfg.MaxStore = -1, 1<<40 // limits are those of the account, whatever the disk has
		cfg.Accounts = fmt.Sprintf("accounts { A: { %s users: [{user: u, password: x}] } }", jetstream)
	})
	c, err := jet.Connect(within(t), jet.Config{URL: s.URL(), User: "u", Password: secret.New("x")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAccountLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jetstream string
		o         jet.ApplyOptions
		want      []string
	}{
		"no JetStream":       {"", jet.ApplyOptions{}, []string{"JetStream is not enabled for the account"}},
		"too few streams":    {"jetstream: {max_streams: 3},", jet.ApplyOptions{}, []string{"a station needs 19 streams", "raised"}},
		"too few consumers":  {"jetstream: {max_consumers: 2},", jet.ApplyOptions{}, []string{"a stream of a station has 5 consumers", "raised"}},
		"too little storage": {"jetstream: {max_store: 10MB},", jet.ApplyOptions{}, []string{"sets", "MiB aside"}},
		"a server alone":     {"jetstream: enabled,", jet.ApplyOptions{Replicas: 3}, []string{"INSPAN_REPLICAS=1"}},
		"limits wanted":      {"jetstream: {max_bytes_required: true, max_store: 100GB},", jet.ApplyOptions{}, []string{"INSPAN_LOG_MAX_BYTES", "INSPAN_FILES_MAX_BYTES"}},
		"small streams":      {"jetstream: {disk_max_stream_bytes: 1MB, max_store: 100GB},", jet.ApplyOptions{}, []string{"INSPAN_IN_MAX_BYTES"}},
		"few unacknowledged": {"jetstream: {max_ack_pending: 100},", jet.ApplyOptions{}, []string{"4096 messages unacknowledged"}},
	} {
		t.Run("PLUS-17b an account that a station does not fit into is refused with what to do: "+name, func(t *testing.T) {
			t.Parallel()
			err := limited(t, c.jetstream).Setup().Apply(within(t), "s1", c.o)
			if err == nil {
				t.Fatal("it was set up")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
	t.Run("PLUS-17b an account that wants a limit of every stream gets one: what is configured, and small ones for timers and buckets", func(t *testing.T) {
		t.Parallel()
		c := limited(t, "jetstream: {max_bytes_required: true, max_store: 100GB},")
		o := jet.ApplyOptions{Limits: topology.Limits{LogBytes: 1 << 30, InBytes: 64 << 20, FileBytes: 1 << 30, ArtifactBytes: 1 << 30}}
		for range 2 { // the second one finds all as it should be
			if err := c.Setup().Apply(within(t), "s1", o); err != nil {
				t.Fatal(err)
			}
		}
		st, err := c.Station("s1")
		if err != nil {
			t.Fatal(err)
		}
		all, err := st.Space(within(t), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, sp := range all {
			if sp.Limit <= 0 {
				t.Errorf("%s has no limit", sp.Stream)
			}
		}
	})
}
