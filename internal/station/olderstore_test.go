package station_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// earlier makes a store as programs did before streams had an account of their own, with one run in it.
func earlier(t *testing.T, store string, name string) *runtest.Builder {
	t.Helper()
	server, err := natsserver.Start(natsserver.Config{Name: "earlier", StoreDir: filepath.Join(store, "nats"), LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := server.Connect(within(t), jet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Setup().Apply(within(t), name, jet.ApplyOptions{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	st, err := conn.Station(name)
	if err != nil {
		t.Fatal(err)
	}
	b := runtest.New(name, "old")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
	kerneltest.Seed(t, st.Journal(), b.Events()...)
	return b
}

func TestEarlier(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "lab"} {
		t.Run("DEPL-8 a store of before the two accounts is refused with what to do, and left as it is: station "+name, func(t *testing.T) {
			t.Parallel()
			store := t.TempDir()
			b := earlier(t, store, name)
			cfg := station.Config{Listen: "127.0.0.1:0", StoreDir: store, Still: true, LazySync: true, Log: zerolog.Nop()}
			st, err := station.Up(within(t), cfg)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it started, and shows no runs"), st.Close(context.Background())))
			}
			for _, w := range []string{"station " + name, "inspan export RUN --bundle", "inspan import", "another --store"} {
				if !errors.Is(err, station.ErrEarlier) || !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
			server, err := natsserver.Start(natsserver.Config{StoreDir: filepath.Join(store, "nats"), LazySync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Shutdown()
			conn, err := server.Connect(within(t), jet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			c, err := operator.On(conn, name)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]byte
			for item, err := range c.Events(within(t), "old", 0) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, item.Bytes)
			}
			if !bytes.Equal(runtest.Lines(got), runtest.Lines(b.Events())) {
				t.Errorf("%d events are left, want %d, the same", len(got), len(b.Events()))
			}
			cfg.StoreDir = t.TempDir()
			if st, err = station.Up(within(t), cfg); err != nil {
				t.Fatal(err)
			}
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if st, err = station.Up(within(t), cfg); err != nil {
				t.Fatalf("a store of today is taken for an earlier one: %v", err)
			}
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
