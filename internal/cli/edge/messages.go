package edge

import (
	"context"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/outside"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// Followed are the messages that start runs of a station; nil where none do.
type Followed struct {
	stop  context.CancelFunc
	ended chan error // its only value: what following ended with
}

// Follow follows what the agents of a station subscribe to.
func Follow(ctx context.Context, a *app.App, st *station.Station) (*Followed, error) {
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
		return nil, sayUnfollowed(ctx, a, c.Agents)
	}
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	m, err := outside.NewMessages(ctx, cfg.Messages, conn, c, log)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	in := &Followed{ended: make(chan error, 1)}
	ctx, in.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { in.ended <- m.Run(ctx) }()
	return in, nil
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

// Close stops following and waits for the messages that are under way.
func (in *Followed) Close() error {
	if in == nil {
		return nil
	}
	in.stop()
	return <-in.ended
}
