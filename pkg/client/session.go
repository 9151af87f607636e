package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const sessionPrefix = "session."

// Conversation is what was said in a session or a run, oldest first (SESS-9).
type Conversation struct {
	Session  string           `json:"session_id,omitempty"`
	Messages []events.Message `json:"messages"`
	// TotalTokens that its models took in and gave out.
	TotalTokens int       `json:"total_tokens"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
}

// Outcome is the result of a run with the whole conversation that led to it, also what it began with (LOOP-12).
type Outcome struct {
	events.Result
	Conversation Conversation `json:"conversation"`
}

// Sessions lists the sessions of the station, those used last first (SESS-13).
func (c *Client) Sessions(ctx context.Context) ([]events.Session, error) {
	all, err := rows[events.Session](ctx, c.st.KV(topology.SessionBucket), sessionPrefix)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	all = slices.DeleteFunc(all, func(e events.Session) bool { return e.Status == events.SessionDeleted })
	slices.SortStableFunc(all, func(a, b events.Session) int { return b.UsedAt.Compare(a.UsedAt) })
	return all, nil
}

// Session returns a session; ErrNotFound where there is none.
func (c *Client) Session(ctx context.Context, id string) (events.Session, error) {
	e, err := c.session(ctx, id)
	if err == nil && (e.ID == "" || e.Status == events.SessionDeleted) {
		err = notFound("session", id)
	}
	return e, err
}

// session returns what is known of a session, also of a deleted one; the zero Session where nothing is.
func (c *Client) session(ctx context.Context, id string) (e events.Session, err error) {
	if err := events.CheckID("session", id); err != nil {
		return e, err
	}
	b, err := c.st.KV(topology.SessionBucket).Get(ctx, sessionPrefix+id)
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

// Steer does something to a session and returns it with that done: start makes it or opens it again, set changes its
// settings, pause and resume hold and let go on its runs too, end lets go of it, unlock takes the lock from whoever has
// it, clear forgets its history and delete all of it. It returns a *RefusedError with the code session_locked where a run
// works in it and the control does not say Stop, and with unknown_session where there is none.
func (c *Client) Steer(ctx context.Context, id string, ctl events.SessionControl) (events.Session, error) {
	if err := events.CheckID("session", id); err != nil {
		return events.Session{}, err
	}
	input, letters, err := c.send(ctx, events.SessionSubject(c.st.Name(), id), ctl)
	if err != nil {
		return events.Session{}, err
	}
	defer letters.stop()
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		e, err := c.session(ctx, id)
		if err == nil && e.Took(input) {
			return e, nil
		}
		if err != nil && ctx.Err() == nil {
			return e, err
		}
		select {
		case d := <-letters.come:
			return e, refused(d)
		case <-time.After(wait):
			if d, ok := letters.look(ctx); ok {
				return e, refused(d)
			}
		case <-ctx.Done():
			return e, fmt.Errorf("session %s: stored, but station %s has not answered yet: it will when its services run, inspan doctor says which do: %w", id, c.st.Name(), context.Cause(ctx))
		}
	}
}

// firstLook is how soon a session is looked at after something was said to it.
const firstLook = 10 * time.Millisecond

// StartSession makes a session, or opens one again that was paused or ended, and returns it (SESS-6). Settings that are
// empty stay as they are.
func (c *Client) StartSession(ctx context.Context, id string, mode events.SessionMode, settings events.SessionSettings) (events.Session, error) {
	return c.Steer(ctx, id, events.SessionControl{Action: "start", Mode: mode, SessionSettings: settings})
}

// Send gives a session its next input and returns the id of the run that works on it, once that exists (SESS-7). Watch and
// Live show the run; the next input may be sent as soon as it has ended. It returns a *RefusedError with the code
// session_locked, which names the run that is in the way, while another run works in a sequential session.
func (c *Client) Send(ctx context.Context, session string, t events.Task) (runID string, err error) {
	if err := events.CheckID("session", session); err != nil {
		return "", err
	}
	t.Session = session
	return c.Start(ctx, t)
}

// History returns all that was said in a session. What a run that has not ended says is not in it yet.
func (c *Client) History(ctx context.Context, id string) (Conversation, error) {
	e, err := c.Session(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	parts, err := c.parts(ctx, e.History)
	return Conversation{Session: id, Messages: history.Messages(parts), TotalTokens: e.InputTokens + e.OutputTokens, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}, err
}

func (c *Client) parts(ctx context.Context, newest *events.Ref) ([]events.Part, error) {
	parts, _, err := history.Load(ctx, c.st.Blobs(), newest, nil)
	return parts, err
}

// Conversation returns all that was said in a run, behind what it began with; ErrNotFound where there is no such run.
func (c *Client) Conversation(ctx context.Context, runID string) (Conversation, error) {
	s, err := c.State(ctx, runID)
	if err != nil {
		return Conversation{}, err
	}
	return c.conversation(ctx, s)
}

func (c *Client) conversation(ctx context.Context, s run.State) (Conversation, error) {
	before, err := c.parts(ctx, s.Created.History)
	if err != nil {
		return Conversation{}, err
	}
	own, err := history.Of(s)
	if err != nil {
		return Conversation{}, err
	}
	all := Conversation{Session: s.Created.Session, Messages: append(history.Messages(before), own...), TotalTokens: s.Tokens.Total(), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
	for _, p := range before {
		all.TotalTokens += p.InputTokens + p.OutputTokens
	}
	return all, nil
}

// Outcome returns the result of a run that ended with its whole conversation; ErrOpen where it has not ended.
func (c *Client) Outcome(ctx context.Context, runID string) (Outcome, error) {
	s, err := c.State(ctx, runID)
	if err != nil {
		return Outcome{}, err
	}
	if s.Result == nil {
		return Outcome{}, fmt.Errorf("run %s: %w: it is %s", runID, ErrOpen, s.Status)
	}
	talk, err := c.conversation(ctx, s)
	return Outcome{Result: *s.Result, Conversation: talk}, err
}

// Sweep lets the files of a deleted session go where a toolrunner has them. It returns once that is asked for. Files that
// no one sweeps go when the name is used again.
func (c *Client) Sweep(ctx context.Context, id string) error {
	if err := events.CheckID("session", id); err != nil {
		return err
	}
	_, err := c.publish(ctx, events.SweepSubject(c.st.Name(), id), []byte("{}"), rand.Text())
	return err
}

// Settled waits until a run that has ended has given back the lock of its session, which it does right after: then its
// conversation is in the history. It returns the cause where ctx ends first.
func (c *Client) Settled(ctx context.Context, session, runID string) error {
	for wait := firstLook; ; wait = min(2*wait, quietFirst) {
		e, err := c.session(ctx, session)
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
