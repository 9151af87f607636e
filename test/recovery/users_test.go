package recovery

import (
	"context"
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// guarded restores an archive to a server whose users have the permissions of the table, and tries it with one user
// for everything.
func guarded(t *testing.T, dir string, least int) {
	t.Helper()
	var users []jet.User
	for _, role := range events.Services() {
		publish, subscribe := topology.Permissions("lab", role)
		if role == events.Planner { // it sets the station up too, as the shipped manifests have it
			p, s := topology.SetupPermissions("lab")
			publish, subscribe = append(publish, p...), append(subscribe, s...)
		}
		users = append(users, jet.User{Name: string(role), Password: "p-" + string(role), Publish: publish, Subscribe: subscribe})
	}
	server := jettest.Server(t, func(c *jet.ServerConfig) { c.Users = users })
	as := func(role events.Service) *jet.Conn {
		return jettest.Connect(t, server, jet.Config{User: string(role), Password: secret.New("p-" + string(role)), InboxPrefix: topology.InboxPrefix("lab", role)})
	}
	src, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, ok, err := src.Manifest("lab", "gated")
	if err != nil || !ok {
		t.Fatalf("%v %v", ok, err)
	}
	own, err := station.Place(t.Context(), "lab", func(_ context.Context, role events.Service) (*jet.Conn, error) { return as(role), nil })
	if err != nil {
		t.Fatal(err)
	}
	one := as(events.Planner)
	alone, err := station.Place(t.Context(), "lab", func(context.Context, events.Service) (*jet.Conn, error) { return one, nil })
	if err != nil {
		t.Fatal(err)
	}
	if b, err := alone.Bring(t.Context(), src, m, archive.How{By: "anna"}); !errors.Is(err, reactor.ErrDenied) {
		t.Errorf("the planner's user brought %d facts of all services: %v", b.Copied, err)
	}
	b, err := own.Bring(t.Context(), src, m, archive.How{By: "anna"})
	if err != nil || b.Facts < uint64(least) || b.Copied == 0 {
		t.Fatalf("%v %+v", err, b)
	}
	st, err := one.Station("lab")
	if err != nil {
		t.Fatal(err)
	}
	facts, _, err := st.Journal().Read(t.Context(), "gated", 0)
	if err != nil || uint64(len(facts)) < b.Facts {
		t.Errorf("%d facts of %d, %v", len(facts), b.Facts, err)
	}
}
