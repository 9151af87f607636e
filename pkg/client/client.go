// Package client talks to a station as its users do: it dispatches tasks, watches runs, answers gates and steers.
//
// The Client itself starts, watches and steers one run. What a station has more of is grouped by what it is: Runs finds
// runs and reads what came of them, Gates answers, Sessions, Artifacts, Branches and DeadLetters do what their names
// say.
//
// Promises: it uses the station's public subjects and nothing else. A task without an id gets one, so that trying
// again never starts a second run. Watch yields every event of a run once and in order, whatever the connection does.
// What the station refuses comes back as a *RefusedError with what to do next; Approve, Reject and Control return only
// when the log says what came of this very message.
package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Config of a connection.
type Config struct {
	// URL of the NATS server, for example nats://127.0.0.1:4222; several are separated by commas.
	URL string
	// Creds is the path of a credentials file; empty for none.
	Creds string
	// NKey is the path of a seed file; empty for none. TLS may be nil.
	NKey string
	TLS  *tls.Config
	// TokenFile is the path of a token of the station's identity provider, which is read again for each connection; empty
	// for none.
	TokenFile string
	// Station defaults to "default".
	Station string
	// StateBucket and FilesBucket are the names that the station was set up with, as INSPAN_STATE_BUCKET and
	// INSPAN_FILES_BUCKET; they default to "harness-state" and "harness-files".
	StateBucket, FilesBucket string
}

// DefaultStation is the station where none is named.
const DefaultStation = "default"

// Client of one station. It is safe for concurrent use.
type Client struct {
	// conn is nil for a local store.
	conn connection
	st   origin
	// end lets go of what is the client's own; may be nil.
	end func()
}

// origin is what a client needs of a station, over NATS or in a local store.
type origin interface {
	Name() string
	Journal() kernel.Journal
	JournalFor(aggregate string) kernel.Journal
	Blobs() kernel.Blobs
	// Artifacts is nil where there is no store of them.
	Artifacts() kernel.Artifacts
	KV(bucket string) kernel.KV
	PublishAt(ctx context.Context, subject string, data []byte, header map[string]string) (seq uint64, err error)
	Watch(ctx context.Context, run string, withLive bool, see func(jet.Seen)) (stop func(), err error)
	SoFar(ctx context.Context, run string, receive func(data []byte)) (ask func() error, stop func(), err error)
	Replay(ctx context.Context, run string, after uint64) (said [][]byte, last uint64, err error)
	WatchSubject(subject string, receive func(subject string, data []byte)) (stop func(), err error)
	Dead(ctx context.Context, after uint64) (letters []jet.Refused, more bool, err error)
	Log(ctx context.Context) (jet.LogState, error)
	ReadKind(ctx context.Context, k events.Kind, after uint64) (evs []jet.Logged, more bool, err error)
	Logged(ctx context.Context) (runs []string, err error)
}

// connection is one to NATS servers.
type connection interface {
	Connected() bool
	Servers() jet.Servers
	Services() jet.Services
	Consumers() jet.Consumers
}

// ErrOpen means that a run has not ended.
var ErrOpen = errors.New("the run is open")

// ErrNotFound means that there is no such run, gate, letter or object.
var ErrNotFound = errors.New("not found")

// RefusedError is what the station answered to input that it refused. Nothing came of that input.
type RefusedError struct {
	// Code is stable for programs: bad_input, unknown_agent, unknown_run, gate_closed, bad_move, ...
	Code string
	// Reason and Hint are for people.
	Reason, Hint string
}

func (e *RefusedError) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("refused (%s): %s", e.Code, e.Reason)
	}
	return fmt.Sprintf("refused (%s): %s; %s", e.Code, e.Reason, e.Hint)
}

// ErrDenied means that the server does not let this user do something.
var ErrDenied = jet.ErrDenied

// ErrForeign means that the user of this client may not read the station that it names: mostly it is one of another
// station. It comes with ErrDenied.
var ErrForeign = errors.New("these credentials cannot see that station")

// ErrUnauthorized means that the server refuses the credentials.
var ErrUnauthorized = jet.ErrUnauthorized

// ErrCredentials means that a credentials file is missing, not whole or expired. Where the error is not also
// ErrUnauthorized no server was asked.
var ErrCredentials = jet.ErrCredentials

// ErrInputFull means that the station takes no more input until its services have worked off what waits. The message
// was not stored; it may be sent again.
var ErrInputFull = jet.ErrInputFull

// SilentError is returned where a message is stored but what came of it could not be learned: the station has not
// answered in time, or this user may not watch it (ErrDenied). The message is not lost: the station takes it up when
// its services run.
type SilentError struct {
	Station, Run string
	Err          error
}

func (e *SilentError) Error() string {
	if errors.Is(e.Err, ErrDenied) {
		return fmt.Sprintf("run %s: stored at station %s, but this user may not see what comes of it: %v", e.Run, e.Station,
			e.Err)
	}
	return fmt.Sprintf("run %s: stored, but station %s has not answered yet: it will when its services run, inspan doctor says which do: %v", e.Run, e.Station, e.Err)
}

// Unwrap returns the cause, for example context.DeadlineExceeded.
func (e *SilentError) Unwrap() error { return e.Err }

// Connect connects to a station, and keeps trying until ctx ends. Close must be called. It does not look whether the
// station is set up: Health does. Where the station has buckets of other names, the error says which variable to set.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Station == "" {
		cfg.Station = DefaultStation
	}
	buckets := topology.Buckets{State: cfg.StateBucket, Files: cfg.FilesBucket}
	if err := buckets.Check(); err != nil {
		return nil, err
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.URL, Creds: cfg.Creds, NKey: cfg.NKey, TLS: cfg.TLS,
		TokenFile: cfg.TokenFile, Name: "inspan client", Buckets: buckets})
	if err != nil {
		return nil, err
	}
	st, err := conn.Station(cfg.Station)
	if err == nil {
		err = conn.Setup().CheckBuckets(ctx, cfg.Station)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return Over(st, conn, conn.Close), nil
}

// Over is a client of a station that a program of this module holds itself; conn is nil where that is not over NATS.
// Close calls end, which may be nil. Everyone else has Connect, and the Client of a pkg/station.
func Over(st origin, conn connection, end func()) *Client {
	return &Client{conn: conn, st: st, end: end}
}

// Inside is what Over was given, for programs of this module.
func (c *Client) Inside() any { return c.st }

// Close ends the connection.
func (c *Client) Close() {
	if c.end != nil {
		c.end()
	}
}

// Connected reports whether there is a connection at the moment. One that is lost comes back by itself where it can;
// meanwhile everything waits until its context ends. A local store is always there.
func (c *Client) Connected() bool { return c.conn == nil || c.conn.Connected() }

// Station is the station's name.
func (c *Client) Station() string { return c.st.Name() }

// NewID makes an id for a task, which becomes the run's.
func NewID() string { return "run-" + strings.ToLower(rand.Text()[:10]) }

// notFound names what is missing.
// NotFoundError says what there is none of; it is an ErrNotFound.
type NotFoundError struct {
	// What is "run", "artifact", "session" and the like; ID is what it was asked for by.
	What, ID string
}

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("%s %q: %v", e.What, e.ID, ErrNotFound) }

// Unwrap is ErrNotFound.
func (*NotFoundError) Unwrap() error { return ErrNotFound }

func notFound(what, id string) error { return &NotFoundError{What: what, ID: id} }

// checkRun returns an *events.IDError for a run that cannot exist.
func checkRun(runID string) error { return events.CheckID("run", runID) }
