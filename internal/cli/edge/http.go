// Package edge is what inspan up has for those who are not its clients: the gateway, the web console, and messages
// that start runs.
package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/gateway"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// Web is the gateway of inspan up. Its listener is open before the station starts, so that a port that is in use is
// reported at once. Its methods may be called where there is none and it is nil.
type Web struct {
	listener net.Listener
	scheme   string
	store    string
	// people is the provider whose people are let in; empty for none.
	people string
	stop   context.CancelFunc
	// ended has what the gateway ended with; nil before it serves.
	ended chan error
}

// Listen listens where the gateway is to answer; nil where it is not wanted.
func Listen(address, store string) (*Web, error) {
	if address == "" {
		return nil, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, app.Usage("--http %q: want host:port, for example 127.0.0.1:8222", address)
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s of --http is in use: name another port, 0 is any that is free", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", address, err)
	}
	return &Web{listener: l, scheme: "http://", store: store}, nil
}

// Address is where it answers.
func (w *Web) Address() string {
	if w == nil {
		return ""
	}
	return w.scheme + w.listener.Addr().String()
}

// Console is where it serves the console.
func (w *Web) Console() string { return w.Address() + "/console/" }

// Closed are the addresses that commands of sandboxes must not reach.
func (w *Web) Closed() []string {
	if w == nil {
		return nil
	}
	return []string{w.listener.Addr().String()}
}

// Serve answers from now on.
func (w *Web) Serve(ctx context.Context, a *app.App, st *station.Station) error {
	if w == nil {
		return nil
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	log, err := a.Logger()
	if err != nil {
		return err
	}
	if cfg.GatewayTLSCert != "" {
		w.scheme = "https://"
	}
	w.people = cfg.GatewayOIDCIssuer
	conn, err := station.Gateway(ctx, st)
	if err != nil {
		return err
	}
	c, err := operator.On(conn, st.Name())
	if err != nil {
		return err
	}
	person := func(ctx context.Context, token string) (*client.Client, error) {
		conn, err := station.Person(ctx, st, token)
		if err != nil {
			return nil, err
		}
		return operator.Over(conn, st.Name())
	}
	g, err := gateway.New(cfg.Gateway,
		gateway.Deps{Client: c, Person: person, Agents: jet.AgentBusOf(conn), Tokens: filepath.Join(w.store, tokens.File),
			Console: consoleOf(st, cfg), SignIn: cfg.SignIn, Log: log, Metrics: service.NewMetrics()})
	if err != nil {
		return err
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.ended = make(chan error, 1) // its only value: no one may be there to take it
	go func() { w.ended <- g.Serve(ctx, w.listener) }()
	return nil
}

// Failed gives what the gateway ended with before it was stopped.
func (w *Web) Failed() <-chan error {
	if w == nil {
		return nil
	}
	return w.ended
}

// Close stops the gateway and waits for its end.
func (w *Web) Close() error {
	if w == nil {
		return nil
	}
	if w.stop == nil {
		return w.listener.Close()
	}
	w.stop()
	return <-w.ended
}

// Row of the banner.
func (w *Web) Row(store string) [2]string {
	list, err := tokens.Load(filepath.Join(store, tokens.File))
	return [2]string{"gateway", w.Address() + "  (" + tokens.LetIn(list, err, w.people) + ")"}
}
