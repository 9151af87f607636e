package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

const sessionPrefix = "session."

// Sessions are the sessions of the station.
type Sessions struct{ c *Client }

// Sessions returns the sessions of the station.
func (c *Client) Sessions() Sessions { return Sessions{c} }

// List lists the sessions of the station, those used last first (SESS-13).
func (ss Sessions) List(ctx context.Context) ([]events.Session, error) {
	all, err := rows[events.Session](ctx, ss.c, topology.SessionBucket, sessionPrefix)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	all = slices.DeleteFunc(all, func(e events.Session) bool { return e.Status == events.SessionDeleted })
	sort.SliceStable(all, func(i, j int) bool { return all[j].UsedAt.Before(all[i].UsedAt) })
	return all, nil
}

// Get returns a session; ErrNotFound where there is none.
func (ss Sessions) Get(ctx context.Context, id string) (events.Session, error) {
	e, err := ss.get(ctx, id)
	if err == nil && (e.ID == "" || e.Status == events.SessionDeleted) {
		err = notFound("session", id)
	}
	return e, err
}

// get returns what is known of a session, also of a deleted one; the zero Session where nothing is.
func (ss Sessions) get(ctx context.Context, id string) (e events.Session, err error) {
	if err := events.CheckID("session", id); err != nil {
		return e, err
	}
	b, err := ss.c.st.KV(topology.SessionBucket).Get(ctx, sessionPrefix+id)
	if errors.Is(err, kernel.ErrNotFound) {
		return e, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		return e, fmt.Errorf("session %s: %w", id, err)
	}
	return e, nil
}

// Control does something to a session and returns it with that done: start makes it or opens it again, set changes its
// settings, pause and resume hold and let go on its runs too, end lets go of it, unlock takes the lock from whoever has
// it, clear forgets its history and delete all of it. It returns a *RefusedError with the code session_locked where a
// run works in it and the control does not say Stop, and with unknown_session where there is none.
func (ss Sessions) Control(ctx context.Context, id string, ctl events.SessionControl) (events.Session, error) {
	if err := events.CheckID("session", id); err != nil {
		return events.Session{}, err
	}
	return controlled(ctx, ss.c, "session "+id, events.SessionSubject(ss.c.st.Name(), id), ctl,
		func(ctx context.Context) (events.Session, error) { return ss.get(ctx, id) }, events.Session.Took)
}

// firstLook is how soon it is looked whether a control was carried out.
const firstLook = 10 * time.Millisecond

// Start makes a session, or opens one again that was paused or ended, and returns it (SESS-6). Settings that are
// empty stay as they are.
func (ss Sessions) Start(ctx context.Context, id string, mode events.SessionMode,
	settings events.SessionSettings) (events.Session, error) {
	return ss.Control(ctx, id, events.SessionControl{Action: "start", Mode: mode, SessionSettings: settings})
}

// Send gives a session its next input and returns the id of the run that works on it, once that exists (SESS-7). Watch
// and Live show the run; the next input may be sent as soon as it has ended. It returns a *RefusedError with the code
// session_locked, which names the run that is in the way, while another run works in a sequential session.
func (ss Sessions) Send(ctx context.Context, session string, t events.Task) (runID string, err error) {
	if err := events.CheckID("session", session); err != nil {
		return "", err
	}
	t.Session = session
	return ss.c.Start(ctx, t)
}

// History returns all that was said in a session. What a run that has not ended says is not in it yet.
func (ss Sessions) History(ctx context.Context, id string) (Conversation, error) {
	e, err := ss.Get(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	stored, err := parts(ctx, ss.c.st.Blobs(), e.History)
	return Conversation{Session: id, Messages: history.Messages(stored), TotalTokens: e.InputTokens + e.OutputTokens,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}, err
}

// Sweep lets the files of a deleted session go where a toolrunner has them. It returns once that is asked for. Files
// that no one sweeps go when the name is used again.
func (ss Sessions) Sweep(ctx context.Context, id string) error {
	if err := events.CheckID("session", id); err != nil {
		return err
	}
	_, err := publisher{ss.c}.publish(ctx, events.SweepSubject(ss.c.st.Name(), id), []byte("{}"), rand.Text())
	return err
}

// Settled waits until a run that has ended has given back the lock of its session, which it does right after: then its
// conversation is in the history. It returns the cause where ctx ends first.
func (ss Sessions) Settled(ctx context.Context, session, runID string) error {
	for wait := firstLook; ; wait = min(2*wait, quietFirst) {
		e, err := ss.get(ctx, session)
		if _, held := e.Holder(runID); err != nil || !held {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
