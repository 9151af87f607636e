package station_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// plain is a client without a password that speaks the protocol by hand.
func plain(t *testing.T, url string) (let func(verb, subject string) bool) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(within(t), "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	fmt.Fprint(conn, `CONNECT {"verbose":false}`+"\r\n")
	return func(verb, subject string) bool {
		t.Helper()
		if verb == "hear" {
			fmt.Fprintf(conn, "SUB %s 1\r\nUNSUB 1\r\nPING\r\n", subject)
		} else {
			fmt.Fprintf(conn, "PUB %s 2\r\n{}\r\nPING\r\n", subject)
		}
		refused := false
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "-ERR"):
				refused = true
			case line == "PONG":
				return !refused
			}
		}
		t.Fatalf("the server went away: %v", lines.Err())
		return false
	}
}

func TestUp(t *testing.T) {
	t.Parallel()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	st, err := station.Up(within(t), station.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base,
		AgentsDir: "../../examples/agents", ScriptsDir: "../../examples/scripts"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	let := plain(t, st.URL())
	t.Run("SAFE-6 DEPL-6 a plain client of inspan up dispatches, watches, steers and answers", func(t *testing.T) {
		for subject, verb := range map[string]string{"station.default.task": "say", "station.default.run.r1.control": "say", "station.default.session.s1.control": "say", "station.default.session.s1.sweep": "say", "station.default.run.r1.gate.g": "say",
			"$SRV.PING": "say", "station.default.run.*.stream": "hear", "station.default.run.*.live": "hear", "station.default.dead.*": "hear",
			"station.*.run.*.stream": "hear", "station.*.run.r1.live": "hear"} {
			if !let(verb, subject) {
				t.Errorf("it may not %s %s", verb, subject)
			}
		}
	})
	t.Run("SAFE-6 SAFE-5 and it says no event, sets no timer, changes and erases nothing", func(t *testing.T) {
		var all []string
		for _, w := range events.Registry() {
			all = append(all, events.RunEventSubject("default", "r1", w.Kind))
		}
		all = append(all, "station.default.timer.r1.run.x", "station.default.due.r1.run.x", "station.default.dead.planner", "station.default.run.r1.stream",
			"station.default.run.r1.gate.g.anna", "$KV.harness-config.default.agent.x", "$KV.harness-state.default.run.x", "$KV.harness-lease.default.x", "$KV.harness-sessions.default.session.x", "$O.harness-files.C.x", "$O.harness-artifacts.C.x",
			"$JS.API.DIRECT.GET.KV_harness-config.$KV.harness-config.default.key.idempotency", "$SYS.REQ.SERVER.PING")
		for _, s := range topology.Streams("default", topology.Limits{}) {
			for _, verb := range []string{"PURGE", "DELETE", "UPDATE", "CREATE", "MSG.DELETE", "SNAPSHOT"} {
				all = append(all, "$JS.API.STREAM."+verb+"."+s.Name)
			}
			all = append(all, "$JS.API.CONSUMER.CREATE."+s.Name+".spy", "$JS.API.CONSUMER.MSG.NEXT."+s.Name+".planner", "$JS.API.CONSUMER.DELETE."+s.Name+".planner")
		}
		for _, subject := range all {
			if let("say", subject) {
				t.Errorf("it may publish on %s", subject)
			}
		}
		for _, subject := range []string{">", "$JS.>", "$KV.>", "station.default.run.*.evt.>", "_INBOX_default_planner.>"} {
			if let("hear", subject) {
				t.Errorf("it may hear %s", subject)
			}
		}
	})
	t.Run("OBS-1 OBS-2 what the README tells a plain client to watch is heard", func(t *testing.T) { asTheReadmeSays(t, st.URL()) })
	t.Run("SAFE-12 an empty message is a dead letter with a reason, on every subject, and what comes behind it is judged", func(t *testing.T) {
		mine, err := st.Conn().Station("default")
		if err != nil {
			t.Fatal(err)
		}
		letters := make(chan kernel.DeadLetter, 64) // more than are refused
		stop, err := mine.WatchSubject(events.DeadSubject("default", "*"), func(_ string, data []byte) {
			var d kernel.DeadLetter
			if err := json.Unmarshal(data, &d); err != nil {
				t.Errorf("dead letter: %v", err)
			}
			letters <- d
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, subject := range []string{"station.default.task", "station.default.task.p", "station.default.run.r9.control", "station.default.run.r9.gate.g", "station.default.session.s9.control", "station.default.session.s9.sweep"} {
			for _, body := range [][]byte{nil, []byte("?")} {
				if err := mine.Publish(within(t), subject, body, nil); err != nil {
					t.Fatal(err)
				}
			}
			for mine := 0; mine < 2; {
				select {
				case d := <-letters:
					if d.Subject != subject {
						continue // of what was published before
					}
					if mine++; d.Code == "" || d.Reason == "" || d.Hint == "" {
						t.Errorf("refused on %s: got %+v", subject, d)
					}
				case <-within(t).Done():
					t.Fatalf("%s: no dead letter came", subject)
				}
			}
		}
	})
	t.Run("DEPL-6 a task that it refuses is told to who sent it, and services answer who asks", func(t *testing.T) {
		mine, err := st.Conn().Station("default")
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(events.Task{ID: "t1", Agent: "nobody", Task: "x"})
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan struct{}, 8) // more than are refused
		stop, err := mine.WatchSubject(events.DeadSubject("default", "*"), func(string, []byte) { received <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := mine.Publish(within(t), events.TaskSubject("default"), b, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-received:
		case <-within(t).Done():
			t.Error("no refusal came")
		}
	})
}

// asTheReadmeSays watches with the words of the README, dispatches one good and one bad task, and wants to hear of
// both.
func asTheReadmeSays(t *testing.T, url string) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	patterns := regexp.MustCompile(`(?m)^nats sub '([^']+)'`).FindAllStringSubmatch(string(readme), -1)
	if len(patterns) < 2 {
		t.Fatalf("the README has %d lines with nats sub", len(patterns))
	}
	conn, err := jet.Connect(within(t), jet.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	mine, err := conn.Station("default")
	if err != nil {
		t.Fatal(err)
	}
	received := map[string]chan []byte{}
	for _, p := range patterns {
		c := make(chan []byte, 64) // more than are heard
		stop, err := mine.WatchSubject(p[1], func(_ string, data []byte) { c <- data })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		received[p[1]] = c
	}
	for _, task := range []string{`{"agent":"writer","task":"a note"}`, `{"agent":"nobody","task":"x"}`} {
		if err := mine.Publish(within(t), events.TaskSubject("default"), []byte(task), nil); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, c := range received {
		select {
		case data := <-c:
			if len(data) == 0 {
				t.Errorf("%s: heard nothing", pattern)
			}
		case <-within(t).Done():
			t.Errorf("%s: not heard", pattern)
		}
	}
}

func TestAdministrators(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	if err := os.WriteFile(filepath.Join(store, "users.env"), []byte("NATS_SETUP_PASSWORD=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.HookPassword = secret.New("the password of hooks")
	st, err := station.Up(within(t), station.Config{Listen: "127.0.0.1:0", StoreDir: store, Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	as := func(user string, password secret.Value) error {
		conn, err := jet.Connect(within(t), jet.Config{URL: st.URL(), User: user, Password: password})
		if err == nil {
			conn.Close()
		}
		return err
	}
	t.Run("SAFE-11 the store holds no password of a user, also not that of an earlier program", func(t *testing.T) {
		passwords := station.Passwords(st)
		if len(passwords) < len(events.Services()) {
			t.Fatalf("the station has %d passwords", len(passwords))
		}
		err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			for user, password := range passwords {
				if strings.Contains(string(b), password.Reveal()) {
					t.Errorf("%s holds the password of %s", path, user)
				}
			}
			if filepath.Base(path) == "users.env" {
				t.Errorf("%s is still there", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Run("SAFE-5 while the roles run the server knows no user who may change a stream", func(t *testing.T) {
		earlier := station.Passwords(st)
		for _, user := range []string{topology.SetupUser, topology.UpgradeUser, topology.ReviverUser} {
			if _, ok := earlier[user]; ok {
				t.Errorf("the station still has the password of %s", user)
			}
		}
		var seen secret.Value
		err := st.Administer(within(t), func(c *jet.Conn) error {
			seen = station.Passwords(st)[topology.UpgradeUser]
			if err := as(topology.UpgradeUser, seen); err != nil {
				t.Errorf("while somebody administers: %v", err)
			}
			return c.Setup().Apply(within(t), "default", jet.ApplyOptions{Limits: topology.Limits{InBytes: 64 << 20}})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := as(topology.UpgradeUser, seen); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("afterwards: got %v, want ErrUnauthorized", err)
		}
		if err := as("hook", base.HookPassword); err != nil {
			t.Errorf("the others: %v", err)
		}
	})
}

func TestServe(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 DEPL-7 a role that finds no station says who must set it up; after setup it finds all it needs", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.MonitorPort = -1, -1
			cfg.Accounts = topology.Accounts("s1", nil, func(string) string { return `"x-password"` }, topology.Setup("s1"))
		})
		cfg := service.Config{Base: service.Base{Station: "s1", Drain: time.Second, NATS: service.NATS{NATSURL: s.URL(), NATSMonitor: s.MonitorURL(), NATSPassword: secret.New("x-password")}, Store: service.Store{Replicas: 1}}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}, Workspaces: service.Workspaces{Workspace: t.TempDir()}}
		as := func(user string) service.Config { c := cfg; c.NATSUser = user; return c }
		err := serve(t, events.Gatekeeper, as("gatekeeper"))
		if !errors.Is(err, jet.ErrNotSetUp) || !strings.Contains(err.Error(), "inspan setup") {
			t.Fatalf("before setup: %v", err)
		}
		for range 2 { // the second time changes nothing
			if _, err := program.Setup(within(t), as(topology.SetupUser), zerolog.Nop()); err != nil {
				t.Fatalf("setup: %v", err)
			}
		}
		for _, role := range events.Services() {
			conn, err := jet.Connect(within(t), jet.Config{URL: s.URL(), User: string(role), Password: cfg.NATSPassword, InboxPrefix: topology.InboxPrefix("s1", role)})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Setup().Check(within(t), "s1", role); err != nil {
				t.Errorf("%s: %v", role, err)
			}
			if err := conn.Setup().Apply(within(t), "s1", jet.ApplyOptions{Limits: topology.Limits{LogBytes: 1 << 20}}); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("%s changes the station: %v", role, err)
			}
			conn.Close()
		}
	})
}

// serve runs a role as a program of its own.
func serve(t *testing.T, role events.Service, cfg service.Config) error {
	t.Helper()
	return program.Serve(within(t), all.Program(role, &cfg), zerolog.Nop())
}
