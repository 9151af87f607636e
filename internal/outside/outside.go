// Package outside connects a station with programs of others: messages and
// assignments that start runs, and callbacks.
package outside

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/callback"
	"github.com/inspan/inspan/internal/forward"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
)

// Config of what a gateway has beside its answers to requests.
type Config struct {
	service.Gateway
	service.Messages
	service.Forwarding
	// State is the file in which callbacks are kept.
	State string
}

// Sides are what a gateway has beside its answers to requests.
type Sides struct {
	parts []func(context.Context) error
	// other is the connection to the server of the messages, nil where that is the station's own.
	other *jet.Conn
	log   zerolog.Logger
}

// New makes what the settings ask for. own is the connection of the gateway, c its client. Run must be called.
func New(ctx context.Context, cfg Config, own *jet.Conn, c *client.Client, log zerolog.Logger) (*Sides, error) {
	st, err := own.Station(c.Station())
	if err != nil {
		return nil, err
	}
	s := &Sides{log: log}
	if cfg.GatewayCallbacks != "" {
		if err := s.callbacks(ctx, cfg, c, st.Refusals()); err != nil {
			return nil, fmt.Errorf("callbacks: %w", err)
		}
	}
	if len(cfg.MessagesSubjects) > 0 || cfg.MessagesWork != "" {
		if err := s.messages(ctx, cfg.Messages, own, c, st.Refusals()); err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
	}
	if cfg.ForwardURL != "" {
		if err := s.forward(ctx, cfg.Forwarding, st); err != nil {
			if s.other != nil {
				s.other.Close()
			}
			return nil, fmt.Errorf("forward events: %w", err)
		}
	}
	return s, nil
}

// forward sends the events of the station to a program of others.
func (s *Sides) forward(ctx context.Context, cfg service.Forwarding, st *jet.Station) error {
	if cfg.ForwardState == "" {
		return errors.New("INSPAN_FORWARD_STATE names no file: how far it is must outlive this program")
	}
	to, err := callback.NewReceiver(cfg.ForwardURL, cfg.ForwardSecret.Reveal(), cfg.ForwardPrivate)
	if err != nil {
		return fmt.Errorf("INSPAN_FORWARD_URL: %w", err)
	}
	f, err := forward.New(ctx, forward.Config{Log: st, To: to, State: cfg.ForwardState, Kinds: cfg.ForwardKinds,
		FromStart: cfg.ForwardFrom == "start", Refuse: st.Refusals(), Report: s.log})
	if err == nil {
		s.parts = append(s.parts, f.Run)
	}
	return err
}

// callbacks calls receivers of others.
func (s *Sides) callbacks(ctx context.Context, cfg Config, c *client.Client, letters kernel.Refusals) error {
	targets, err := callback.Load(cfg.GatewayCallbacks, cfg.GatewaySecrets)
	if err != nil {
		return err
	}
	if cfg.State == "" {
		return errors.New("INSPAN_GATEWAY_CALLBACKS_STATE names no file: what is still to be called must outlive this program")
	}
	caller, err := callback.New(ctx, callback.Config{Client: c, Targets: targets, State: cfg.State, Refuse: letters,
		Log: s.log})
	if err == nil {
		s.parts = append(s.parts, caller.Run)
	}
	return err
}

// messages has messages start runs.
func (s *Sides) messages(ctx context.Context, cfg service.Messages, own *jet.Conn, c *client.Client,
	letters kernel.Refusals) (err error) {
	source := own
	if cfg.MessagesURL != "" {
		if s.other, err = jet.Connect(ctx, jet.Config{URL: cfg.MessagesURL, Creds: cfg.MessagesCreds, User: cfg.MessagesUser,
			Password: cfg.MessagesPassword, Name: "inspan-messages", Log: s.log}); err != nil {
			return err
		}
		source = s.other
	}
	if cfg.MessagesWork != "" {
		s.parts = append(s.parts, assignments{cfg: cfg, c: c, source: jet.MessagesOf(source), letters: letters,
			failed: func(err error) { s.log.Warn().Err(err).Msg("assignments not followed, will try again") }}.run)
	}
	in, err := newIntake(cfg, c, jet.MessagesOf(source), letters, s.log)
	if err == nil {
		s.parts = append(s.parts, in.Run)
	} else if s.other != nil {
		s.other.Close()
	}
	return err
}

// Run works until ctx ends, and closes the connection that New made. A part that fails is logged; the others go on.
func (s *Sides) Run(ctx context.Context) error {
	errs := make([]error, len(s.parts))
	var running sync.WaitGroup
	for i, part := range s.parts {
		running.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				s.log.Error().Err(errs[i]).Msg("stopped: start the gateway again once the cause is gone")
			}
		})
	}
	running.Wait()
	if s.other != nil {
		s.other.Close()
	}
	return errors.Join(errs...)
}
