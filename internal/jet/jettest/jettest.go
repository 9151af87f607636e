// Package jettest starts NATS servers for tests, in the process of the test.
//
// Promises: a server keeps its files in t.TempDir, speaks to 127.0.0.1 only or to no one, writes to disk before it
// acknowledges as a real one does, and is gone when the test is over.
package jettest

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
)

// patience is how long a server or a station may take to get ready.
const patience = 5 * time.Minute

// Server starts a server that does not listen. change may alter its configuration.
func Server(t testing.TB, change ...func(*natsserver.Config)) *natsserver.Server {
	t.Helper()
	cfg := natsserver.Config{Name: "test", StoreDir: t.TempDir()}
	for _, f := range change {
		f(&cfg)
	}
	s, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatalf("start a nats server: %v", err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// Connect connects to a server; the connection is closed when the test is over.
func Connect(t testing.TB, s *natsserver.Server, cfg jet.Config) *jet.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	c, err := s.Connect(ctx, cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Station sets a station up on a connection.
func Station(t testing.TB, c *jet.Conn, name string, o jet.ApplyOptions) *jet.Station {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Setup().Apply(ctx, name, o); err != nil {
		t.Fatalf("set up station %s: %v", name, err)
	}
	s, err := c.Station(name)
	if err != nil {
		t.Fatalf("station %s: %v", name, err)
	}
	return s
}

// Group is a cluster of servers in the process of the test.
type Group struct {
	t       testing.TB
	configs []natsserver.Config
	servers []*natsserver.Server
}

// Cluster starts a cluster of n servers on free ports of 127.0.0.1, ready for streams with n replicas. change may alter
// the configuration of each.
func Cluster(t testing.TB, n int, change ...func(*natsserver.Config)) *Group {
	t.Helper()
	g := &Group{t: t, servers: make([]*natsserver.Server, n)}
	var routes []string
	for range n {
		routes = append(routes, freePort(t))
	}
	for i := range n {
		_, port, _ := net.SplitHostPort(routes[i])
		number, err := net.LookupPort("tcp", port)
		if err != nil {
			t.Fatalf("port %s: %v", port, err)
		}
		g.configs = append(g.configs, natsserver.Config{Name: fmt.Sprintf("n%d", i+1), StoreDir: t.TempDir(), Port: -1,
			Cluster: natsserver.Cluster{Name: "test", Port: number, Routes: routes}})
		for _, f := range change {
			f(&g.configs[i])
		}
	}
	t.Cleanup(func() {
		for i := range n {
			g.Stop(i)
		}
	})
	started := make(chan error, n) // one place per server
	for i := range n {
		go func() { started <- g.start(i) }()
	}
	for range n {
		if err := <-started; err != nil {
			t.Fatalf("start a cluster: %v", err)
		}
	}
	return g
}

// Server returns the server of that number, from 0; nil while it is stopped.
func (g *Group) Server(i int) *natsserver.Server { return g.servers[i] }

// Stop ends a server, as an orderly restart does.
func (g *Group) Stop(i int) {
	if g.servers[i] != nil {
		g.servers[i].Shutdown()
		g.servers[i] = nil
	}
}

// Restart starts a stopped server again with its files.
func (g *Group) Restart(i int) {
	g.t.Helper()
	if err := g.start(i); err != nil {
		g.t.Fatalf("restart server %d: %v", i, err)
	}
}

func (g *Group) start(i int) (err error) {
	g.servers[i], err = natsserver.Start(g.configs[i])
	return err
}

// freePort returns an address that no one listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
