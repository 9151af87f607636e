package recovery

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// guarded restores an archive to a server whose users have the permissions of the table, and tries it with one user
// for everything.
func guarded(t *testing.T, dir string, least int) {
	t.Helper()
	still, err := station.Up(t.Context(), station.Config{StoreDir: t.TempDir(), Station: "lab", Still: true, LazySync: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := still.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	src, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, ok, err := src.Manifest(t.Context(), "lab", "gated")
	if err != nil || !ok {
		t.Fatalf("%v %v", ok, err)
	}
	own, err := station.NewRestorer(t.Context(), "lab", still.As)
	if err != nil {
		t.Fatal(err)
	}
	one, err := still.As(t.Context(), events.Planner)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := station.NewRestorer(t.Context(), "lab", func(ctx context.Context, user events.Service) (*jet.Conn, error) {
		if user == topology.SetupUser {
			return still.As(ctx, user)
		}
		return one, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := alone.Bring(t.Context(), src, m, archive.How{By: "anna"}); !errors.Is(err, kernel.ErrDenied) {
		t.Errorf("the planner's user brought %d events of all services: %v", b.Copied, err)
	}
	b, err := own.Bring(t.Context(), src, m, archive.How{By: "anna"})
	if err != nil || b.Events < uint64(least) || b.Copied == 0 {
		t.Fatalf("%v %+v", err, b)
	}
	st, err := one.Station("lab")
	if err != nil {
		t.Fatal(err)
	}
	evs, _, err := st.Journal().Read(t.Context(), "gated", 0)
	if err != nil || uint64(len(evs)) < b.Events {
		t.Errorf("%d events of %d, %v", len(evs), b.Events, err)
	}
}
