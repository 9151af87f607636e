// Package forward sends the events of a station to a program of others over HTTP, as CloudEvents.
//
// Promises: events come in the order of the log, in batches that are signed, and each at least once, whatever is
// killed: how far it is stands in a file, which moves on only behind an answer of success. A receiver that is away
// holds up what comes later and loses nothing, as long as the log has it. What one event too large for the receiver was
// is named in a dead letter. Nothing is read that is not sent, and no secret is in an error.
package forward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/callback"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
)

// Log is what is read.
type Log interface {
	Name() string
	ReadLog(ctx context.Context, after uint64) (evs []jet.Logged, more bool, err error)
	Log(ctx context.Context) (jet.LogState, error)
}

// Config of a forwarder.
type Config struct {
	Log Log
	// To is who is sent to.
	To callback.Receiver
	// State is the file that keeps how far it is.
	State string
	// FromStart has one that begins send all that the log has, and not only what comes.
	FromStart bool
	// Kinds are patterns of event types such as run.* and gate.opened; empty for all.
	Kinds []string
	// Refuse takes dead letters.
	Refuse kernel.Refusals
	Report zerolog.Logger
	// Waits are those after the first failure, the second and so on, the last one again and again; empty for the usual.
	Waits []time.Duration
}

const (
	// maxBatch and maxBytes bound one call.
	maxBatch = 100
	maxBytes = 512 << 10
	// idle is between two looks at a log that has nothing new.
	idle = time.Second
	// lockWait is how long the file of another process is waited for.
	lockWait = 5 * time.Second
	maxState = 1 << 10
	// mediaType of a batch.
	mediaType = "application/cloudevents-batch+json"
	// Code of dead letters.
	Code = "event_not_forwarded"
)

// State is what the file has.
type State struct {
	Station string `json:"station"`
	// Position in the log of the last event that was taken.
	Position uint64 `json:"position"`
}

// Forwarder sends what a log has.
type Forwarder struct {
	cfg   Config
	lock  *disk.Lock
	state State
	// failed is what went wrong last, so that it is logged once.
	failed string
}

// New opens the state. Run must be called.
func New(ctx context.Context, cfg Config) (*Forwarder, error) {
	for _, k := range cfg.Kinds {
		if _, err := path.Match(k, ""); err != nil || k == "" {
			return nil, fmt.Errorf("event types: %q is no pattern such as run.*", k)
		}
	}
	if len(cfg.Waits) == 0 {
		cfg.Waits = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}
	}
	lock, err := disk.WaitLock(cfg.State+".lock", lockWait)
	if err != nil {
		return nil, fmt.Errorf("state %s: %w", cfg.State, err)
	}
	f := &Forwarder{cfg: cfg, lock: lock}
	if err := f.open(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// open reads the state; where there is none, it begins.
func (f *Forwarder) open(ctx context.Context) error {
	b, err := disk.ReadAtMost(f.cfg.State, maxState)
	if err == nil {
		if err := json.Unmarshal(b, &f.state); err != nil {
			return fmt.Errorf("%s is no state of a forwarder: move it away, and it begins anew", f.cfg.State)
		}
		if f.state.Station != f.cfg.Log.Name() {
			return fmt.Errorf("%s is of station %s, this one is %s: name another file", f.cfg.State, f.state.Station,
				f.cfg.Log.Name())
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	now, err := f.cfg.Log.Log(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	f.state = State{Station: f.cfg.Log.Name(), Position: now.Last}
	if f.cfg.FromStart {
		f.state.Position = 0
	}
	return f.keep(f.state.Position)
}

// keep writes how far it is.
func (f *Forwarder) keep(position uint64) error {
	f.state.Position = position
	b, err := json.Marshal(f.state)
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return disk.Replace(f.cfg.State, b, 0o600)
}

// Run sends until ctx ends, or the receiver wants no more.
func (f *Forwarder) Run(ctx context.Context) error {
	defer func() { _ = f.lock.Close() }() // it ends with this process at the latest
	for ctx.Err() == nil {
		page, more, err := f.cfg.Log.ReadLog(ctx, f.state.Position)
		if err != nil {
			f.note("read the log", err)
		} else if err := f.send(ctx, page); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !more || err != nil {
			_ = kernel.Sleep(ctx, idle) // it ends early only with ctx
		}
	}
	return nil
}

// send sends what a page has of the types that are wanted, and keeps how far it came.
func (f *Forwarder) send(ctx context.Context, page []jet.Logged) error {
	var wanted []jet.Logged
	size, end := 0, f.state.Position
	for _, e := range page {
		if f.wants(e.Subject) {
			if len(wanted) == maxBatch || len(wanted) > 0 && size+len(e.Data) > maxBytes {
				if err := f.batch(ctx, wanted, end); err != nil {
					return err
				}
				wanted, size = nil, 0
			}
			wanted, size = append(wanted, e), size+len(e.Data)
		}
		end = e.Seq
	}
	if len(wanted) > 0 {
		return f.batch(ctx, wanted, end)
	}
	if end > f.state.Position {
		return f.keep(end)
	}
	return nil
}

// wants reports whether the event of a subject is of a type that is wanted.
func (f *Forwarder) wants(subject string) bool {
	_, kind, ok := strings.Cut(subject, ".evt.")
	if !ok {
		return false
	}
	for _, p := range f.cfg.Kinds {
		if match, _ := path.Match(p, kind); match { // it was checked
			return true
		}
	}
	return len(f.cfg.Kinds) == 0
}

// batch sends a batch until the receiver has it, and keeps the position behind it.
func (f *Forwarder) batch(ctx context.Context, evs []jet.Logged, end uint64) error {
	parts := make([][]byte, len(evs))
	for i, e := range evs {
		parts[i] = e.Data
	}
	body := append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
	id := idOf(f.state.Station, evs)
	for try := 0; ; try++ {
		err := f.cfg.To.Post(ctx, id, mediaType, body)
		status, least := callback.Refusal(err)
		switch {
		case err == nil:
			if f.failed != "" {
				f.cfg.Report.Info().Uint64("position", end).Msg("the receiver of forwarded events answers again")
			}
			f.failed = ""
			return f.keep(end)
		case ctx.Err() != nil:
			return ctx.Err()
		case status == http.StatusGone:
			return fmt.Errorf("forward events: %w; start the gateway without INSPAN_FORWARD_URL, or with another one", err)
		case status == http.StatusRequestEntityTooLarge && len(evs) > 1:
			half := len(evs) / 2
			if err := f.batch(ctx, evs[:half], evs[half-1].Seq); err != nil {
				return err
			}
			return f.batch(ctx, evs[half:], end)
		case status == http.StatusRequestEntityTooLarge:
			if err := f.bury(ctx, evs[0]); err != nil {
				return err
			}
			return f.keep(end)
		}
		f.note("send", err)
		if kernel.Sleep(ctx, max(least, f.cfg.Waits[min(try, len(f.cfg.Waits)-1)])) != nil {
			return ctx.Err()
		}
	}
}

// bury writes the dead letter of an event that is too large for the receiver.
func (f *Forwarder) bury(ctx context.Context, e jet.Logged) error {
	err := f.cfg.Refuse.Refuse(ctx, "gateway", kernel.DeadLetter{Subject: e.Subject, Time: time.Now().UTC(), Code: Code,
		Reason: fmt.Sprintf("the event at position %d of the log has %d bytes, which is too much for the receiver", e.Seq,
			len(e.Data)),
		Hint: "raise the limit of the receiver; inspan export has the event", DataBytes: len(e.Data)})
	if err != nil {
		return fmt.Errorf("dead letter of an event that was not forwarded: %w", err)
	}
	return nil
}

// note logs what goes wrong, once.
func (f *Forwarder) note(what string, err error) {
	if f.failed != err.Error() {
		f.failed = err.Error()
		f.cfg.Report.Warn().Err(err).Str("step", what).Uint64("position", f.state.Position).
			Msg("events are not forwarded, will try again")
	}
}

// idOf is the id of a call: that of its events, the same for each attempt.
func idOf(station string, evs []jet.Logged) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "inspan forward 1\n%s\n%d\n%d\n%d", station, evs[0].Seq, evs[len(evs)-1].Seq,
		len(evs)))
	return "fwd_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
}
