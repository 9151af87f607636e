package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/deputy"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Deputies are those who answer gates in the place of people who are away.
type Deputies struct{ c *Client }

// NewDeputies returns the deputies of the station of a client.
func NewDeputies(c *Client) Deputies { return Deputies{c} }

// Get returns the deputies of the station, also those whose time is over and that no later one has replaced.
func (ds Deputies) Get(ctx context.Context) (events.Deputies, error) {
	l, err := deputy.NewLedger(deputy.LedgerConfig{Station: ds.c.st.Name(), By: events.Gatekeeper,
		Journal: ds.c.st.JournalFor(events.DeputyAggregate), Entropy: rand.Reader})
	if err != nil {
		return events.Deputies{}, fmt.Errorf("deputies: %w", err)
	}
	s, err := l.Fresh(ctx, events.DeputyID)
	if err != nil {
		return events.Deputies{}, fmt.Errorf("deputies: %w", err)
	}
	return s.Deputies, nil
}

// Read is Get for who sends notices: it waits while there is no connection, and tries a read that failed again for half
// a minute. An error means that the log cannot be read.
func (ds Deputies) Read(ctx context.Context) (events.Deputies, error) {
	for left := readAgain; ; {
		all, err := ds.Get(ctx)
		if err == nil || errors.Is(err, ErrDenied) || errors.Is(err, kernel.ErrHeld) || left == 0 {
			return all, err
		}
		if ds.c.Connected() {
			left--
		}
		if kernel.Sleep(ctx, time.Second) != nil {
			return all, err
		}
	}
}

// readAgain is how often Read tries again while there is a connection.
const readAgain = 30

// Control names the deputy of somebody, or ends that, and returns once it is recorded. Only the user of that name may.
// It returns a *RefusedError with the code bad_input, not_away, too_many_deputies or
// overtaken.
func (ds Deputies) Control(ctx context.Context, name string, ctl events.DeputyControl) (events.Deputies, error) {
	if err := ctl.Check(); err != nil {
		return events.Deputies{}, err
	}
	if err := events.CheckID("name", name); err != nil {
		return events.Deputies{}, err
	}
	return controlled(ctx, ds.c, ctl.Action, events.DeputySubject(ds.c.st.Name(), name), ctl, ds.Get,
		events.Deputies.Took)
}
