package station_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// otherBuckets fails the test unless an error says that the station has buckets of other names, and which variables to
// set.
func otherBuckets(t *testing.T, who string, err error, settings ...string) {
	t.Helper()
	if _, ok := errors.AsType[*topology.OtherBucketsError](err); !ok {
		t.Errorf("%s: got %v, want an OtherBucketsError", who, err)
		return
	}
	for _, s := range settings {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v does not say %s", who, err, s)
		}
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	t.Run("PERS-16 a station works with buckets of other names, and starts with no others afterwards", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		for name, text := range map[string]string{"agents/coder.prompt": coder, "scripts/coder.yaml": coding} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		base, err := service.FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		base.SandboxReaches = true // a sandbox is not what is tested
		up := func(state, files string) (*station.Station, error) {
			base := base
			base.StateBucket, base.FilesBucket = state, files
			return station.Up(within(t), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"), ScriptsDir: filepath.Join(dir, "scripts"),
				Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
		}
		down := func(st *station.Station) {
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		st, err := up("team-state", "team-files")
		if err != nil {
			t.Fatal(err)
		}
		level := 5
		func() {
			defer down(st)
			c, err := client.Connect(within(t), client.Config{URL: st.URL(), StateBucket: "team-state", FilesBucket: "team-files"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			id, err := c.Sessions().Send(within(t), "calc", events.Task{Agent: "coder", Task: "create the file", ID: "first", Autonomy: &level})
			if err != nil {
				t.Fatal(err)
			}
			for item, err := range c.Watch(within(t), id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if r := item.State.Result; r != nil && !r.Success {
					t.Fatalf("%+v", r)
				}
			}
			if err := c.Sessions().Settled(within(t), "calc", id); err != nil {
				t.Fatal(err)
			}
			until(t, "the row of the run", time.Minute, func() bool {
				rows, err := c.Runs().List(within(t))
				return err == nil && len(rows) == 1 && rows[0].Status == events.Completed
			})
			streams, err := st.Server().Marks()
			if err != nil {
				t.Fatal(err)
			}
			in := func(name string) storecheck.Stream {
				return streams[storecheck.Key(topology.StreamsAccount("default"), name)]
			}
			for _, name := range []string{"KV_team-state", "OBJ_team-files"} {
				if in(name).Messages == 0 {
					t.Errorf("nothing is in %s; there are %v", name, slices.Sorted(maps.Keys(streams)))
				}
			}
			for key := range streams {
				if name := storecheck.NameOf(key); name == topology.KVStream(topology.StateBucket) || name == topology.FilesStream() {
					t.Errorf("the stream %s is there", name)
				}
			}
			_, err = client.Connect(within(t), client.Config{URL: st.URL()})
			otherBuckets(t, "a client with the defaults", err, "INSPAN_STATE_BUCKET=team-state", "INSPAN_FILES_BUCKET=team-files")
		}()
		for _, names := range [][2]string{{"", ""}, {"team-state", "others"}} {
			st, err := up(names[0], names[1])
			if err == nil {
				down(st)
			}
			otherBuckets(t, "a start with "+strings.Join(names[:], ","), err, "INSPAN_FILES_BUCKET=team-files")
		}
		if st, err = up("team-state", "team-files"); err != nil {
			t.Fatal(err)
		}
		defer down(st)
		c, err := client.Connect(within(t), client.Config{URL: st.URL(), StateBucket: "team-state", FilesBucket: "team-files"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if rows, err := c.Runs().List(within(t)); err != nil || len(rows) != 1 || rows[0].HarnessID != "first" {
			t.Errorf("after the starts: %+v, %v", rows, err)
		}
	})
	t.Run("PERS-16 DEPL-7 a service and a setup with other names than the station's end with an error that names the variable", func(t *testing.T) {
		t.Parallel()
		named := topology.Buckets{State: "team-state", Files: "team-files"}
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.MonitorPort = -1, -1
			cfg.Accounts = named.Accounts("s1", nil, func(string) string { return `"x-password"` }, named.Setup("s1"))
		})
		as := func(user string, b topology.Buckets) service.Config {
			return service.Config{Base: service.Base{Station: "s1", Drain: time.Second, NATS: service.NATS{NATSURL: s.URL(), NATSMonitor: s.MonitorURL(), NATSUser: user, NATSPassword: secret.New("x-password")}, Store: service.Store{Replicas: 1, StateBucket: b.State, FilesBucket: b.Files}}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}, Workspaces: service.Workspaces{Workspace: t.TempDir()}}
		}
		if _, err := program.Setup(within(t), as(topology.SetupUser, named), zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		for _, role := range events.Services() {
			conn, err := jet.Connect(within(t), jet.Config{URL: s.URL(), User: string(role), Password: secret.New("x-password"), InboxPrefix: topology.InboxPrefix("s1", role), Buckets: named})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Setup().Check(within(t), "s1", role); err != nil {
				t.Errorf("%s: %v", role, err)
			}
			conn.Close()
			err = serve(t, role, as(string(role), topology.Buckets{}))
			otherBuckets(t, string(role), err, "INSPAN_STATE_BUCKET=team-state", "INSPAN_FILES_BUCKET=team-files")
		}
		_, err := program.Setup(within(t), as(topology.SetupUser, topology.Buckets{State: "team-state", Files: "others"}), zerolog.Nop())
		otherBuckets(t, "inspan setup", err, "INSPAN_FILES_BUCKET=team-files")
	})
	t.Run("PERS-16 SAFE-6 a setup with names that the server's users may not make says so, and leaves the station free for the right ones", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.MonitorPort = -1, -1
			cfg.Accounts = topology.Accounts("s1", nil, func(string) string { return `"x-password"` }, topology.Setup("s1"))
		})
		for _, name := range []string{"team-state", ""} {
			_, err := program.Setup(within(t), service.Config{Base: service.Base{Station: "s1", NATS: service.NATS{NATSURL: s.URL(), NATSMonitor: s.MonitorURL(), NATSUser: topology.SetupUser, NATSPassword: secret.New("x-password")}, Store: service.Store{Replicas: 1, StateBucket: name}}}, zerolog.Nop())
			switch {
			case name == "" && err != nil:
				t.Errorf("with the names of the server's users: %v", err)
			case name != "" && (!errors.Is(err, jet.ErrDenied) || !strings.Contains(err.Error(), "INSPAN_STATE_BUCKET")):
				t.Errorf("with another name: got %v, want ErrDenied with the variable", err)
			}
		}
	})
}
