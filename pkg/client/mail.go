package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Mail are the addresses of the station and what waits for them.
type Mail struct{ c *Client }

// NewMail returns the mail of the station of a client.
func NewMail(c *Client) Mail { return Mail{c} }

// List lists the addresses that are registered.
func (ms Mail) List(ctx context.Context) ([]events.Mailbox, error) {
	all, err := rows[events.Mailbox](ctx, ms.c, topology.SessionBucket, events.MailboxRows)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return all, nil
}

// Get returns an address with its mailbox; ErrNotFound where it is not registered.
func (ms Mail) Get(ctx context.Context, address string) (events.Mailbox, error) {
	m, err := ms.get(ctx, address)
	if err == nil && m.ID == "" {
		err = notFound("address", address)
	}
	return m, err
}

func (ms Mail) get(ctx context.Context, address string) (m events.Mailbox, err error) {
	_, id, err := events.ParseAddress(address)
	if err != nil {
		return m, err
	}
	b, err := ms.c.st.KV(topology.SessionBucket).Get(ctx, events.MailboxRows+id)
	if errors.Is(err, kernel.ErrNotFound) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return m, fmt.Errorf("address %s: %w", address, err)
	}
	return m, nil
}

// Control registers an address, sends to it or changes it, and returns it with that done. It returns a *RefusedError
// with the code unknown_address where it is not registered, and mailbox_full or mail_rate where there is no room for
// the message.
func (ms Mail) Control(ctx context.Context, address string, ctl events.MailControl) (events.Mailbox, error) {
	_, id, err := events.ParseAddress(address)
	if err != nil {
		return events.Mailbox{}, err
	}
	return controlled(ctx, ms.c, "address "+address, events.AgentSubject(ms.c.st.Name(), id), ctl,
		func(ctx context.Context) (events.Mailbox, error) { return ms.get(ctx, address) }, events.Mailbox.Took)
}

// Acknowledged waits until a message has left its mailbox, and says how.
func (ms Mail) Acknowledged(ctx context.Context, address, id string) (events.DoneMail, error) {
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		m, err := ms.Get(ctx, address)
		if err != nil {
			return events.DoneMail{}, err
		}
		if i := slices.IndexFunc(m.Done, func(d events.DoneMail) bool { return d.ID == id }); i >= 0 {
			return m.Done[i], nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return events.DoneMail{}, fmt.Errorf("address %s: message %s waits: %w", address, id, context.Cause(ctx))
		}
	}
}
