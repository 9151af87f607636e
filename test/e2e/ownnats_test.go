package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	natsclaims "github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// foreignNATS is a station on a NATS server that somebody else runs: five programs, each with its own connection.
type foreignNATS struct {
	t   *testing.T
	cfg service.Config
	// login puts the credentials of a user into a configuration.
	login func(cfg *service.Config, user string)
	log   *lines
}

// on is the same for a subtest.
func (f *foreignNATS) on(t *testing.T) *foreignNATS {
	sub := *f
	sub.t = t
	return &sub
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newForeignNATS(t *testing.T, s *natsserver.Server, login func(cfg *service.Config, user string)) *foreignNATS {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"agents/a.prompt": "---\nname: a\nmodel: scripted/a\ntools: [bash]\nsandbox:\n  mode: host\n---\nGo.\n",
		"scripts/a.yaml": "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: echo}}\n  - when: {turn: 2}\n    text: done\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &foreignNATS{t: t, login: login, log: &lines{}, cfg: service.Config{
		Base:       service.Base{Station: "s1", Drain: time.Second, NATS: service.NATS{NATSURL: s.URL(), AcceptLazy: true}, Store: service.Store{Replicas: 1}},
		Sandboxes:  service.Sandboxes{Sandbox: "host", SandboxReaches: true},
		Workspaces: service.Workspaces{Workspace: filepath.Join(dir, "work")},
		Models:     service.Models{Scripts: filepath.Join(dir, "scripts")}, Planning: service.Planning{Agents: filepath.Join(dir, "agents")}}}
}

// setup sets the station up as the setup user.
func (f *foreignNATS) setup() error {
	cfg := f.cfg
	f.login(&cfg, topology.SetupUser)
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	_, err := program.Setup(ctx, cfg, zerolog.Nop())
	return err
}

// serve runs one service until ctx ends.
func (f *foreignNATS) serve(ctx context.Context, role events.Service) error {
	cfg := f.cfg
	cfg.Agents = ""
	f.login(&cfg, string(role))
	return program.Serve(ctx, all.Program(role, &cfg), zerolog.New(f.log))
}

// start runs all services until the end of the test.
func (f *foreignNATS) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, role := range events.Services() {
		done.Go(func() {
			if err := f.serve(ctx, role); err != nil && !errors.Is(err, context.Canceled) {
				f.t.Errorf("%s: %v", role, err)
			}
		})
	}
	f.t.Cleanup(func() { cancel(); done.Wait() })
}

// gated starts a run, has a person answer the gate before its step, and returns how the gate was answered.
func (f *foreignNATS) gated(operator, person *client.Client, id string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	one := 1
	if _, err := operator.Start(ctx, events.Task{ID: id, Agent: "a", Task: "go", Autonomy: &one}); err != nil {
		f.t.Fatal(err)
	}
	answered := map[string]bool{}
	for item, err := range operator.Watch(ctx, id, 0) {
		if err != nil {
			f.t.Fatalf("run %s: %v\n%s", id, err, f.log.String())
		}
		for _, g := range item.State.Gates {
			if !answered[g.ID] {
				answered[g.ID] = true
				if _, err := person.Gates().Approve(ctx, client.Decision{Run: id, Gate: g.ID, By: "anna"}); err != nil {
					f.t.Fatalf("answer gate %s: %v", g.ID, err)
				}
			}
		}
		if item.State.Status.Ended() {
			if item.State.Status != events.Completed || len(answered) == 0 {
				f.t.Errorf("the run is %s, after %d gates", item.State.Status, len(answered))
			}
			return
		}
	}
	f.t.Fatal("the run did not end")
}

// connect is a client with credentials.
func connectWith(t *testing.T, url, creds string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URL: url, Creds: creds, Station: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOperatorMode(t *testing.T) {
	t.Parallel()
	anna := topology.Outsider("s1", "anna", "anna", topology.MayWatch, topology.MayApprove)
	users := append(topology.Buckets{}.ShippedOutsiders("s1"), anna)
	o := jettest.NewOperator(t, "s1", users, topology.Setup("s1"))
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, o.Config() })
	creds := t.TempDir() // what services read: the files of the operator are copied here
	place := func(user string) {
		b, err := os.ReadFile(o.Creds(user))
		if err == nil {
			err = os.WriteFile(filepath.Join(creds, user+".creds"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range o.Made.Users {
		place(u.Name)
	}
	f := newForeignNATS(t, s, func(cfg *service.Config, user string) { cfg.NATSCreds = filepath.Join(creds, user+".creds") })
	if err := f.setup(); err != nil {
		t.Fatal(err)
	}
	f.start()
	operator, person := connectWith(t, s.URL(), o.Creds("operator")), connectWith(t, s.URL(), o.Creds("anna"))
	t.Run("PLUS-17a five services with credentials of their own carry out a run, and a person answers its gate by credentials", func(t *testing.T) {
		f := f.on(t)
		f.gated(operator, person, "run-one")
		evs := readAll(t, operator, "run-one")
		if !strings.Contains(evs, `"assurance":"subject"`) || !strings.Contains(evs, `"by":"anna"`) {
			t.Errorf("the gate was not answered in the name that the credentials prove:\n%s", evs)
		}
	})
	t.Run("PLUS-17a a service whose credentials are revoked says so, and goes on once new ones are in the same file", func(t *testing.T) {
		f := f.on(t)
		old := o.Key("planner")
		o.Make(func(c *natsclaims.Config) { c.Revoked[old] = time.Now().Add(time.Second) })
		if err := s.SetAccounts(o.Config(), ""); err != nil {
			t.Fatal(err)
		}
		until(t, "the planner to say that its credentials are refused", func() bool {
			return strings.Contains(f.log.String(), "nats refuses the credentials") && strings.Contains(f.log.String(), old)
		})
		place("planner")
		f.gated(operator, person, "run-two")
	})
	t.Run("PLUS-17a the accounts are signed again, and no one is disconnected", func(t *testing.T) {
		before := strings.Count(f.log.String(), "connected to nats again")
		o.Make()
		if err := s.SetAccounts(o.Config(), ""); err != nil {
			t.Fatal(err)
		}
		f := f.on(t)
		f.gated(operator, person, "run-three")
		if after := strings.Count(f.log.String(), "connected to nats again"); after != before {
			t.Errorf("%d connections were made again", after-before)
		}
	})
}

// readAll are the events of a run that has ended.
func readAll(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all strings.Builder
	for item, err := range c.Watch(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all.Write(item.Bytes)
		all.WriteByte('\n')
	}
	return all.String()
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestSharedAccount(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-17b one user for everything in one account is refused, and carries out a run once that is accepted", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.Users = -1, []natsserver.User{{Name: "all", Password: "x"}}
		})
		f := newForeignNATS(t, s, func(cfg *service.Config, _ string) { cfg.NATSUser, cfg.NATSPassword = "all", secret.New("x") })
		f.refused(f.setup())
		f.refused(f.serve(t.Context(), events.Planner))
		f.cfg.NATSShared = true
		f.whole(s)
	})
	t.Run("PLUS-17b users with the rights of their roles in one account are refused as services, and carry out a run once that is accepted", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Users = -1, oneAccount("s1") })
		f := newForeignNATS(t, s, func(cfg *service.Config, user string) { cfg.NATSUser, cfg.NATSPassword = user, secret.New("x") })
		if err := f.setup(); err != nil { // its rights are the same in an account of the streams
			t.Fatal(err)
		}
		f.refused(f.serve(t.Context(), events.Executor))
		f.cfg.NATSShared = true
		f.whole(s)
	})
	t.Run("PLUS-17b a server that asks no one for a name is left to those who use it", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port = -1 })
		newForeignNATS(t, s, func(*service.Config, string) {}).whole(s)
	})
}

// oneAccount are the users of a station in the account that has its streams.
func oneAccount(station string) []natsserver.User {
	var all []natsserver.User
	add := func(u topology.User) {
		all = append(all, natsserver.User{Name: u.Name, Password: "x", Publish: u.Publish, Subscribe: u.Subscribe})
	}
	for _, name := range topology.AllUsers() {
		if u, ok := topology.Needs(topology.Buckets{}, station, name, false); ok {
			add(u)
		}
	}
	add(topology.Outsider(station, "anna", "anna", topology.MayWatch, topology.MayApprove))
	return all
}

// refused wants the reason why a shared account is not taken, and how to take it.
func (f *foreignNATS) refused(err error) {
	f.t.Helper()
	if !errors.Is(err, program.ErrSharedAccount) || !strings.Contains(err.Error(), "INSPAN_NATS_SHARED_ACCOUNT=true") {
		f.t.Fatalf("got %v, want ErrSharedAccount", err)
	}
}

// whole sets the station up and carries out a run.
func (f *foreignNATS) whole(s *natsserver.Server) {
	f.t.Helper()
	if err := f.setup(); err != nil {
		f.t.Fatal(err)
	}
	f.start()
	as := func(user string) *client.Client {
		cfg := f.cfg
		f.login(&cfg, user)
		conn, err := jet.Connect(f.t.Context(), jet.Config{URL: s.URL(), User: cfg.NATSUser, Password: cfg.NATSPassword})
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(conn.Close)
		c, err := operator.On(conn, "s1")
		if err != nil {
			f.t.Fatal(err)
		}
		return c
	}
	f.gated(as("operator"), as("anna"), "run-shared")
}
