package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// accountsMade is what inspan nats-accounts prints as JSON.
type accountsMade struct {
	Operator, Config string
	Accounts, Users  []struct {
		Name, Account, Key, File string
		New                      bool
		Expires                  *time.Time
	}
}

// makeAccounts runs inspan nats-accounts for station s1.
func makeAccounts(t *testing.T, dir string, args ...string) accountsMade {
	t.Helper()
	s := inspan(t, append([]string{"nats-accounts", "--out", dir, "--station", "s1", "--json"}, args...)...)
	if s.code != 0 {
		t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
	}
	return decode[accountsMade](t, s.out)
}

// fileOf is the content of a file of such a folder.
func fileOf(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ownServer starts a server with the accounts of a folder.
func ownServer(t *testing.T, dir string) *natsserver.Server {
	t.Helper()
	config := string(fileOf(t, dir, "resolver.conf"))
	return jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.MonitorPort, cfg.Accounts = -1, -1, config })
}

// seeds finds secret keys of operators, accounts and users; tokens and their signatures may have the first letters of
// one, but not all of them in capitals.
var seeds = regexp.MustCompile(`\bS[OAU][A-Z2-7]{56}\b`)

func TestNATSAccounts(t *testing.T) {
	t.Setenv("INSPAN_CONFIG", "none")
	dir := filepath.Join(t.TempDir(), "nats")
	made := makeAccounts(t, dir, "--user", "anna=watch,approve")
	t.Run("PLUS-17a it makes keys and credentials that others cannot read, and a configuration without secrets", func(t *testing.T) {
		if len(made.Accounts) != 3 || len(made.Users) != 11 || made.Operator != "own" {
			t.Errorf("got %+v", made)
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			hidden := info.Mode().Perm() == 0o600
			seed := seeds.Match(fileOf(t, path)) || strings.HasSuffix(path, ".nk")
			if strings.HasSuffix(path, ".creds") && !seed {
				t.Errorf("no seed is found in %s", path)
			}
			if seed && !hidden {
				t.Errorf("%s has a seed and the mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	planner := fileOf(t, dir, "creds", "planner.creds")
	operator := fileOf(t, dir, "operator.jwt")
	t.Run("PLUS-17a a second call leaves keys, the operator and credentials as they are", func(t *testing.T) {
		again := makeAccounts(t, dir)
		for _, u := range again.Users {
			if u.New {
				t.Errorf("%s is new", u.Name)
			}
		}
		if !bytes.Equal(planner, fileOf(t, dir, "creds", "planner.creds")) || !bytes.Equal(operator, fileOf(t, dir, "operator.jwt")) || len(again.Users) != len(made.Users) {
			t.Error("something changed")
		}
	})
	t.Run("PLUS-17a a call that was interrupted at any file is completed by the next", func(t *testing.T) {
		s := ownServer(t, dir)
		url := s.URL()
		for _, lost := range []string{"creds/executor.creds", "accounts/streams-s1.jwt", "operator.jwt", "resolver.conf"} {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(lost))); err != nil {
				t.Fatal(err)
			}
			makeAccounts(t, dir)
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(lost))); err != nil {
				t.Error(err)
			}
		}
		for _, user := range []string{"setup", "executor", "anna"} { // the server has the accounts of before
			c, err := jet.Connect(t.Context(), jet.Config{URL: url, Creds: filepath.Join(dir, "creds", user+".creds")})
			if err != nil {
				t.Errorf("%s: %v", user, err)
				continue
			}
			c.Close()
		}
	})
	t.Run("PLUS-17a --renew and --remove revoke, once however often, and what is removed has no file", func(t *testing.T) {
		makeAccounts(t, dir, "--renew", "planner", "--remove", "anna")
		if bytes.Equal(planner, fileOf(t, dir, "creds", "planner.creds")) {
			t.Error("the planner's credentials are as before")
		}
		if _, err := os.Stat(filepath.Join(dir, "creds", "anna.creds")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("anna has credentials: %v", err)
		}
		if s := inspan(t, "nats-accounts", "--out", dir, "--station", "s1", "--remove", "anna"); s.code != 5 {
			t.Errorf("exit %d: %s", s.code, s.err)
		}
		s := ownServer(t, dir)
		revoked := filepath.Join(t.TempDir(), "old.creds")
		if err := os.WriteFile(revoked, planner, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := jet.Connect(t.Context(), jet.Config{URL: s.URL(), Creds: revoked}); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("the old credentials: %v", err)
		}
		c, err := jet.Connect(t.Context(), jet.Config{URL: s.URL(), Creds: filepath.Join(dir, "creds", "planner.creds")})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
	t.Run("PLUS-17a the user upgrade is there for one call only", func(t *testing.T) {
		makeAccounts(t, dir, "--upgrade")
		upgrade := filepath.Join(dir, "creds", "upgrade.creds")
		if _, err := os.Stat(upgrade); err != nil {
			t.Fatal(err)
		}
		makeAccounts(t, dir)
		if _, err := os.Stat(upgrade); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
	})
	t.Run("PLUS-17a what a folder cannot be used for is refused with the reason", func(t *testing.T) {
		seed, err := claims.NewSeed(claims.Operator)
		if err != nil {
			t.Fatal(err)
		}
		account, err := claims.NewSeed(claims.Account)
		if err != nil {
			t.Fatal(err)
		}
		tmp := t.TempDir()
		for name, text := range map[string]string{"o.nk": seed.Reveal(), "a.nk": account.Reveal(), "x.nk": "hello"} {
			if err := os.WriteFile(filepath.Join(tmp, name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		base := []string{"nats-accounts", "--station", "s1", "--out"}
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"nats-accounts", "--station", "s1"}, "--out is missing"},
			{[]string{"nats-accounts", "--station", "s2", "--out", dir}, "of station s1"},
			{append(base, dir, "--operator-seed", filepath.Join(tmp, "o.nk")), "another --out"},
			{append(base, tmp+"/n", "--operator-seed", filepath.Join(tmp, "a.nk")), "begins with SO"},
			{append(base, tmp+"/n", "--operator-seed", filepath.Join(tmp, "x.nk")), "no seed"},
			{append(base, tmp+"/n", "--user", "planner=watch"), "every station has"},
			{append(base, tmp+"/n", "--user", "ben=fly"), "no right"},
			{append(base, tmp+"/n", "--user", "ben"), "NAME=RIGHTS"},
			{append(base, tmp+"/n", "--expires", "1m"), "1h at least"},
		} {
			if s := inspan(t, c.args...); s.code != 2 || !strings.Contains(s.err, c.want) || strings.Contains(s.err, seed.Reveal()) || strings.Contains(s.err, account.Reveal()) {
				t.Errorf("inspan %q: exit %d, %s", c.args, s.code, s.err)
			}
		}
		foreign := makeAccounts(t, filepath.Join(tmp, "foreign"), "--operator-seed", filepath.Join(tmp, "o.nk"))
		if foreign.Config != "" || len(foreign.Accounts) != 2 || foreign.Operator == "own" {
			t.Errorf("with an operator of others: %+v", foreign)
		}
		if s := inspan(t, append(base, filepath.Join(tmp, "foreign"))...); s.code != 2 || !strings.Contains(s.err, "--operator-seed") {
			t.Errorf("without the seed again: exit %d, %s", s.code, s.err)
		}
	})
	t.Run("PLUS-17a --push brings the accounts to servers with a resolver of type full, as often as wanted, and says where none takes them", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "nats")
		made := makeAccounts(t, dir)
		var config strings.Builder // a server that knows the system account alone
		for line := range strings.Lines(string(fileOf(t, dir, "resolver.conf"))) {
			if strings.HasPrefix(line, "resolver: ") {
				line = "resolver: {type: full, dir: " + strconv.Quote(t.TempDir()) + "}\n"
			}
			if !strings.Contains(line, made.Accounts[1].Key+": ") && !strings.Contains(line, made.Accounts[2].Key+": ") {
				config.WriteString(line)
			}
		}
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, config.String() })
		setup := jet.Config{URL: s.URL(), Creds: filepath.Join(dir, "creds", "setup.creds")}
		if _, err := jet.Connect(t.Context(), setup); !errors.Is(err, jet.ErrUnauthorized) {
			t.Fatalf("the server knows the accounts already: %v", err)
		}
		system := filepath.Join(dir, "creds", "system.creds")
		for range 2 {
			makeAccounts(t, dir, "--push", system, "--server", s.URL())
		}
		c, err := jet.Connect(t.Context(), setup)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		for creds, url := range map[string]string{system: ownServer(t, dir).URL(), filepath.Join(dir, "creds", "operator.creds"): s.URL()} {
			got := inspan(t, "nats-accounts", "--out", dir, "--station", "s1", "--push", creds, "--server", url)
			if got.code != 1 || !strings.Contains(got.err, "no server takes account claims") {
				t.Errorf("exit %d, %s", got.code, got.err)
			}
		}
	})
	t.Run("PLUS-17ac setup and doctor work with credentials, and doctor says whose rights they have", func(t *testing.T) {
		s := ownServer(t, dir)
		t.Setenv("INSPAN_NATS_MONITOR", s.MonitorURL())
		as := func(user string, args ...string) said {
			return inspan(t, append(args, "--server", s.URL(), "--station", "s1", "--creds", filepath.Join(dir, "creds", user+".creds"))...)
		}
		if got := as("planner", "setup"); got.code != 1 || !strings.Contains(got.err, "credentials are of a user who receives them elsewhere") {
			t.Errorf("setup as planner: exit %d, %s", got.code, got.err)
		}
		if got := as("setup", "setup"); got.code != 0 {
			t.Fatalf("setup: exit %d, %s", got.code, got.err)
		}
		for user, role := range map[string]string{"setup": "setup", "planner": "planner", "operator": "operator"} {
			for what, f := range natsRows(t, as(user, "doctor", "--no-model", "--json", "--role", role)) {
				if !f.OK {
					t.Errorf("as %s: %s: %s; %s", user, what, f.State, f.Hint)
				}
			}
		}
		rows := natsRows(t, as("executor", "doctor", "--no-model", "--json", "--role", "executor"))
		if f := rows["nats rights"]; !f.OK {
			t.Errorf("rights of the executor: %+v", f)
		}
		got := as("tools", "doctor", "--no-model", "--json", "--role", "operator")
		if f := natsRows(t, got)["nats rights"]; f.OK || got.code != 1 || !strings.Contains(f.State, "lacks") || f.Hint == "" {
			t.Errorf("tools as operator: exit %d, %+v", got.code, f)
		}
	})
}

// natsRows are the findings about the server.
func natsRows(t *testing.T, s said) map[string]report.Finding {
	t.Helper()
	rows := map[string]report.Finding{}
	for _, f := range decode[[]report.Finding](t, s.out) {
		if strings.HasPrefix(f.What, "nats") {
			rows[f.What] = f
		}
	}
	if len(rows) == 0 {
		t.Fatalf("nothing about the server: exit %d\n%s%s", s.code, s.out, s.err)
	}
	return rows
}

func TestDoctorServer(t *testing.T) {
	t.Setenv("INSPAN_CONFIG", "none")
	for name, c := range map[string]struct {
		config string
		env    map[string]string
		// bad are the rows that fail, with a word of the hint of each.
		bad map[string]string
	}{
		"no JetStream":      {"accounts { A: { users: [{user: u, password: x}] } }", nil, map[string]string{"nats jetstream": "account"}},
		"one account":       {"accounts { A: { jetstream: enabled, users: [{user: u, password: x}] } }", nil, map[string]string{"nats accounts": "INSPAN_NATS_SHARED_ACCOUNT"}},
		"accepted":          {"accounts { A: { jetstream: enabled, users: [{user: u, password: x}] } }", map[string]string{"INSPAN_NATS_SHARED_ACCOUNT": "true"}, nil},
		"too small":         {"accounts { A: { jetstream: {max_streams: 3, max_consumers: 2, max_store: 10MB, max_ack_pending: 10, disk_max_stream_bytes: 1MB, max_bytes_required: true}, users: [{user: u, password: x}] } }", map[string]string{"INSPAN_NATS_SHARED_ACCOUNT": "true"}, map[string]string{"nats streams": "raised", "nats consumers": "raised", "nats storage": "storage", "nats max_ack_pending": "raised", "nats stream size": "INSPAN_IN_MAX_BYTES", "nats max_bytes": "INSPAN_LOG_MAX_BYTES"}},
		"small messages":    {"max_payload: 64KB\naccounts { A: { jetstream: enabled, users: [{user: u, password: x}] } }", map[string]string{"INSPAN_NATS_SHARED_ACCOUNT": "true"}, map[string]string{"nats max_payload": "max_payload"}},
		"replicas of three": {"accounts { A: { jetstream: enabled, users: [{user: u, password: x}] } }", map[string]string{"INSPAN_NATS_SHARED_ACCOUNT": "true", "INSPAN_REPLICAS": "3"}, map[string]string{"nats replicas": "INSPAN_REPLICAS=1"}},
	} {
		t.Run("PLUS-17c doctor says what a server lacks, and what to do: "+name, func(t *testing.T) {
			s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.MonitorPort, cfg.Accounts = -1, -1, c.config })
			t.Setenv("INSPAN_NATS_USER", "u")
			t.Setenv("INSPAN_NATS_PASSWORD", "x")
			t.Setenv("INSPAN_NATS_MONITOR", s.MonitorURL())
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			got := inspan(t, "doctor", "--no-model", "--json", "--server", s.URL())
			rows := natsRows(t, got)
			for what, f := range rows {
				word, bad := c.bad[what]
				if f.OK == bad {
					t.Errorf("%s: ok is %v: %s; %s", what, f.OK, f.State, f.Hint)
				}
				if bad && (!f.Needed || !strings.Contains(f.Hint, word)) {
					t.Errorf("%s: needed is %v, the hint %q lacks %q", what, f.Needed, f.Hint, word)
				}
			}
			for what := range c.bad {
				if _, ok := rows[what]; !ok {
					t.Errorf("there is no row %s", what)
				}
			}
			if len(c.bad) > 0 && got.code != 1 {
				t.Errorf("exit %d", got.code)
			}
		})
	}
	t.Run("PLUS-17c doctor says why a server does not let these credentials in", func(t *testing.T) {
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.Accounts = -1, "accounts { A: { jetstream: enabled, users: [{user: u, password: x}] } }"
		})
		got := inspan(t, "doctor", "--no-model", "--server", s.URL())
		if got.code != 1 || !strings.Contains(got.out, "does not let this program in") {
			t.Errorf("exit %d, %s", got.code, got.out)
		}
	})
}

// TestConnectLogin has every kind of command connect as the user that the environment names.
func TestConnectLogin(t *testing.T) {
	t.Setenv("INSPAN_CONFIG", "none")
	accounts := topology.Accounts("s1", topology.Buckets{}.ShippedOutsiders("s1"), func(user string) string { return strconv.Quote("pw-" + user) }, topology.Setup("s1"))
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, accounts })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	setup := jettest.Connect(t, s, jet.Config{User: "setup", Password: secret.New("pw-setup")})
	if err := setup.Setup().Apply(ctx, "s1", jet.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	o := jettest.NewOperator(t, "s1", topology.Buckets{}.ShippedOutsiders("s1"), topology.Setup("s1"))
	jwts := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, o.Config() })
	if err := jettest.Connect(t, jwts, jet.Config{Creds: o.Creds("setup")}).Setup().Apply(ctx, "s1", jet.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"runs"}, {"gates"}, {"space"}, {"agents"}, {"dead", "list"}, {"session", "list"}, {"schedule", "list"}, {"work", "list"}, {"cost"}, {"inspect", "none"}, {"pause", "none"},
		{"budget", "list"}, {"harness", "list"}, {"doctor", "--no-model"}, {"export", "none"}}
	for _, args := range commands {
		name := strings.Join(args, " ")
		look := func(t *testing.T, url string, more ...string) said {
			t.Helper()
			return inspan(t, append(append(append([]string{}, args...), "--server", url, "--station", "s1", "--wait", "100ms"), more...)...)
		}
		let := func(s said) bool {
			return !strings.Contains(s.out+s.err, "let this program in") && !strings.Contains(s.out+s.err, "refused the credentials")
		}
		t.Run("PLUS-17a inspan "+name+" connects as INSPAN_NATS_USER, and with --creds, NATS_CREDS and INSPAN_NATS_CREDS", func(t *testing.T) {
			if got := look(t, s.URL()); let(got) {
				t.Fatalf("a user without a name is let in: nothing was tried\n%s%s", got.out, got.err)
			}
			if got := look(t, jwts.URL(), "--creds", o.Creds("operator")); !let(got) {
				t.Errorf("--creds: %s%s", got.out, got.err)
			}
			for _, variable := range []string{"NATS_CREDS", "INSPAN_NATS_CREDS"} {
				t.Run(variable, func(t *testing.T) {
					t.Setenv(variable, o.Creds("operator"))
					if got := look(t, jwts.URL()); !let(got) {
						t.Errorf("%s: %s%s", variable, got.out, got.err)
					}
				})
			}
			for _, prefix := range []string{"INSPAN_", ""} {
				t.Run(prefix+"NATS_USER", func(t *testing.T) {
					t.Setenv(prefix+"NATS_USER", "operator")
					t.Setenv(prefix+"NATS_PASSWORD", "pw-operator")
					if got := look(t, s.URL()); !let(got) {
						t.Errorf("%s%s", got.out, got.err)
					}
				})
			}
		})
	}
}
