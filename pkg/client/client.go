// Package client talks to a station as its users do: it dispatches tasks, watches runs, answers gates and steers.
//
// Promises: it uses the station's public subjects and nothing else. A task without an id gets one, so that trying
// again never starts a second run. Watch never skips a fact and never repeats one. What the station refuses comes back
// as a *RefusedError with what to do next.
package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Config of a connection.
type Config struct {
	// URL of the NATS server, for example nats://127.0.0.1:4222.
	URL string
	// Creds is the path of a credentials file; empty for none.
	Creds string
	// Station defaults to "default".
	Station string
}

// Client of one station. It is safe for concurrent use.
type Client struct {
	conn *jet.Conn
	st   *jet.Station
	own  bool
}

// ErrNotFound means that there is no such run or gate.
var ErrNotFound = errors.New("not found")

// RefusedError is what the station answered to input that it refused.
type RefusedError struct{ Code, Reason, Hint string }

func (e *RefusedError) Error() string { return fmt.Sprintf("refused: %s (%s)", e.Reason, e.Hint) }

// Connect connects to a station. Close must be called.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Station == "" {
		cfg.Station = "default"
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.URL, Creds: cfg.Creds, Name: "inspan client"})
	if err != nil {
		return nil, err
	}
	c, err := On(conn, cfg.Station)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.own = true
	return c, nil
}

// On is a client on a connection that somebody else closes, for programs of this module.
func On(conn *jet.Conn, station string) (*Client, error) {
	st, err := conn.Station(station)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, st: st}, nil
}

// Close ends the connection.
func (c *Client) Close() {
	if c.own {
		c.conn.Close()
	}
}

// Station is the station's name.
func (c *Client) Station() string { return c.st.Name() }

// NewID makes an id for a task.
func NewID() string { return "run-" + strings.ToLower(rand.Text()[:16]) }

// Dispatch publishes a task and returns its run's id once the task is stored. The run itself may still be refused:
// Started tells.
func (c *Client) Dispatch(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	if err := events.CheckID("task", t.ID); err != nil {
		return "", err
	}
	body, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode the task: %w", err)
	}
	return t.ID, c.st.Publish(ctx, events.TaskSubject(c.st.Name()), body, map[string]string{tokenHeader: t.ID})
}

// Start is Dispatch that waits until the run exists, or returns a *RefusedError.
func (c *Client) Start(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	letters, stop, err := c.refusals(t.ID)
	if err != nil {
		return "", err
	}
	defer stop()
	if _, err := c.Dispatch(ctx, t); err != nil {
		return "", err
	}
	err = c.await(ctx, t.ID, letters, func(s run.State) bool { return s.Sequence > 0 })
	return t.ID, err
}

const tokenHeader = "Inspan-Token"

// refusals gives the dead letter of the message with a token, should one come.
func (c *Client) refusals(token string) (<-chan reactor.DeadLetter, func(), error) {
	out := make(chan reactor.DeadLetter, 1) // one message has one dead letter; a second is its repetition
	stop, err := c.st.WatchSubject(events.DeadSubject(c.st.Name(), "*"), func(_ string, data []byte) {
		var d reactor.DeadLetter
		if json.Unmarshal(data, &d) == nil && d.Token == token {
			select {
			case out <- d:
			default:
			}
		}
	})
	return out, stop, err
}

// await looks at a run until want holds, the message was refused, or ctx ends.
func (c *Client) await(ctx context.Context, runID string, letters <-chan reactor.DeadLetter, want func(run.State) bool) error {
	news, stop, err := c.news(ctx, runID)
	if err != nil {
		return err
	}
	defer stop()
	for {
		s, err := c.state(ctx, runID)
		if err != nil {
			return err
		}
		if want(s) {
			return nil
		}
		select {
		case d := <-letters:
			return &RefusedError{Code: d.Code, Reason: d.Reason, Hint: d.Hint}
		case <-news:
		case <-time.After(time.Second): // a hint may be lost
		case <-ctx.Done():
			return fmt.Errorf("no answer from station %s yet; is it up? %w", c.st.Name(), context.Cause(ctx))
		}
	}
}

// news hints that something was said about a run.
func (c *Client) news(ctx context.Context, runID string) (<-chan struct{}, func(), error) {
	out := make(chan struct{}, 1) // one hint is as good as many
	stop, err := c.st.Watch(ctx, runID, false, func(jet.Seen) {
		select {
		case out <- struct{}{}:
		default:
		}
	})
	return out, stop, err
}

// Item is a fact of a run, with its stored bytes and the state after it.
type Item struct {
	Fact    events.Fact
	Payload events.Payload
	Bytes   []byte
	State   run.State
}

// Watch yields the facts of a run from its first one, then those that come, until the run has ended, the loop is
// left or ctx ends. An error is the last thing it yields.
func (c *Client) Watch(ctx context.Context, runID string) iter.Seq2[Item, error] {
	return c.follow(ctx, runID, true)
}

// Facts yields the facts that a run has now.
func (c *Client) Facts(ctx context.Context, runID string) iter.Seq2[Item, error] {
	return c.follow(ctx, runID, false)
}

func (c *Client) follow(ctx context.Context, runID string, wait bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := events.CheckID("run", runID); err != nil {
			yield(Item{}, err)
			return
		}
		news, stop, err := c.news(ctx, runID)
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer stop()
		var last Item
		head := uint64(0)
		for {
			facts, more, err := c.st.Journal().Read(ctx, runID, head)
			if err != nil {
				yield(Item{}, fmt.Errorf("read run %s: %w", runID, err))
				return
			}
			for _, r := range facts {
				if last, err = next(last.State, r.Bytes); err != nil {
					yield(Item{}, err)
					return
				}
				head = r.Seq
				if !yield(last, nil) {
					return
				}
			}
			if more {
				continue
			}
			if !wait || last.State.Status.Ended() {
				return
			}
			select {
			case <-news:
			case <-time.After(time.Second): // a hint may be lost
			case <-ctx.Done():
				yield(Item{}, context.Cause(ctx))
				return
			}
		}
	}
}

func next(s run.State, stored []byte) (Item, error) {
	f, p, err := events.Read(stored)
	if err != nil {
		return Item{}, err
	}
	after, err := s.ApplyFact(f, p, run.HashOf(stored))
	return Item{Fact: f, Payload: p, Bytes: stored, State: after}, err
}

func (c *Client) state(ctx context.Context, runID string) (run.State, error) {
	var s run.State
	for item, err := range c.Facts(ctx, runID) {
		if err != nil {
			return run.State{}, err
		}
		s = item.State
	}
	return s, nil
}

// State folds a run from its log; it returns ErrNotFound for a run that does not exist (LIFE-9, LIFE-15).
func (c *Client) State(ctx context.Context, runID string) (run.State, error) {
	s, err := c.state(ctx, runID)
	if err == nil && s.Sequence == 0 {
		return s, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return s, err
}

// Runs lists the runs of the station, the newest first (LIFE-8).
func (c *Client) Runs(ctx context.Context) ([]run.Info, error) {
	shelf := c.st.Shelf(topology.StateBucket)
	keys, err := shelf.Keys(ctx, "run.")
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	infos := make([]run.Info, 0, len(keys))
	for _, k := range keys {
		b, err := shelf.Get(ctx, k)
		if errors.Is(err, reactor.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		var i run.Info
		if err := json.Unmarshal(b, &i); err != nil {
			return nil, fmt.Errorf("row %s of the index: %w", k, err)
		}
		infos = append(infos, i)
	}
	slices.SortFunc(infos, func(a, b run.Info) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return infos, nil
}

// Waiting is a gate that waits, with its run.
type Waiting struct {
	Run  run.Info
	Gate *run.Gate
}

// Gates lists the gates that wait for an answer, the oldest first (GATE-14).
func (c *Client) Gates(ctx context.Context) ([]Waiting, error) {
	infos, err := c.Runs(ctx)
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, i := range infos {
		for _, g := range i.Gates {
			out = append(out, Waiting{Run: i, Gate: g})
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int { return a.Gate.CreatedAt.Compare(b.Gate.CreatedAt) })
	return out, nil
}

// Agents lists the registered agents.
func (c *Client) Agents(ctx context.Context) ([]events.Agent, error) {
	shelf := c.st.Shelf(topology.ConfigBucket)
	keys, err := shelf.Keys(ctx, "agent.")
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var out []events.Agent
	for _, k := range keys {
		b, err := shelf.Get(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("list agents: %w", err)
		}
		var a events.Agent
		if err := json.Unmarshal(b, &a); err != nil {
			return nil, fmt.Errorf("agent %s: %w", k, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// Object fetches what a fact refers to.
func (c *Client) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	return c.st.Blobs().Get(ctx, ref)
}
