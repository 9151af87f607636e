package edge

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/outside"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// Sides are messages that start runs of a station, and callbacks; nil where there are none.
type Sides struct {
	stop  context.CancelFunc
	ended chan error // its only value: what they ended with
}

// StateFile is the file of a store that keeps what is still to be called.
const StateFile = "callbacks.json"

// ForwardFile is the file of a store that keeps how far the events of its station were forwarded.
const ForwardFile = "forward.json"

// Follow follows what the agents of a station subscribe to, and calls the receivers of callbacks.
func Follow(ctx context.Context, a *app.App, st *station.Station, store string) (*Sides, error) {
	cfg, err := a.Config()
	if err != nil || a.Local || st.Damage().Damaged() {
		return nil, err
	}
	conn, err := station.Gateway(ctx, st)
	if err != nil {
		return nil, err
	}
	c, err := operator.On(conn, st.Name())
	if err != nil {
		return nil, err
	}
	if len(cfg.MessagesSubjects) == 0 {
		if err := sayUnfollowed(ctx, a, c.Agents); err != nil {
			return nil, err
		}
	}
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	cfg.ForwardState = filepath.Join(store, ForwardFile)
	sides, err := outside.New(ctx, outside.Config{Gateway: cfg.Gateway, Messages: cfg.Messages, Forwarding: cfg.Forwarding,
		State: filepath.Join(store, StateFile)}, conn, c, log)
	if err != nil {
		return nil, err
	}
	s := &Sides{ended: make(chan error, 1)}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { s.ended <- sides.Run(ctx) }()
	return s, nil
}

// sayUnfollowed says which agents subscribe to messages that no one follows.
func sayUnfollowed(ctx context.Context, a *app.App, agents func(context.Context) ([]events.Agent, error)) error {
	all, err := agents(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, one := range all {
		if len(one.Subscribe) > 0 {
			names = append(names, one.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(a.Err, "Messages: %s subscribe to messages, and none are followed: set INSPAN_MESSAGES_SUBJECTS.\n",
			strings.Join(names, ", "))
	}
	return nil
}

// Close stops them and waits for what is under way.
func (s *Sides) Close() error {
	if s == nil {
		return nil
	}
	s.stop()
	return <-s.ended
}
