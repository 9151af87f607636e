package station_test

import (
	"context"
	"net"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
)

func TestConsoleListener(t *testing.T) {
	t.Parallel()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	st, err := station.Up(within(t), station.Config{StoreDir: t.TempDir(), LazySync: true, Console: true, Log: zerolog.Nop(),
		Sandbox: "host", Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	address := station.Consoles(st).Address()
	if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
		t.Fatalf("PLUS-9 it listens at %q, %v", address, err)
	}
	user, password := station.Consoles(st).Login(topology.MayWatch, topology.MayApprove)
	t.Run("PLUS-9 a console is a user with the rights of its token", func(t *testing.T) {
		if user != "console-approve" || password == "" {
			t.Errorf("got user %q", user)
		}
		if user, password := station.Consoles(st).Login(topology.MayDispatch); user != "" || password != "" {
			t.Errorf("a console that may not watch is user %q", user)
		}
	})
	t.Run("PLUS-9 users that change leave the listener and the consoles as they are", func(t *testing.T) {
		if err := st.Administer(within(t), func(*jet.Conn) error { return nil }); err != nil {
			t.Fatal(err)
		}
		again, same := station.Consoles(st).Login(topology.MayApprove, topology.MayWatch)
		if station.Consoles(st).Address() != address || again != user || same != password {
			t.Errorf("now at %s as %s", station.Consoles(st).Address(), again)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	})
	t.Run("PLUS-9 a server that is started again listens at the same address", func(t *testing.T) {
		st.Server().Shutdown()
		if err := st.Server().Restart(); err != nil {
			t.Fatal(err)
		}
		if station.Consoles(st).Address() != address {
			t.Errorf("now at %s, want %s", station.Consoles(st).Address(), address)
		}
	})
}
