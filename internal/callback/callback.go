// Package callback calls receivers of others when runs end or wait for a person: signed webhooks, messages for Slack,
// and mail.
//
// Promises: what is to be called is on disk before the log is read on, so a restart leaves nothing out. A call has an
// id that is the same for each attempt: it is made once, and again only where its answer was lost or was a failure.
// Calls that fail come again with growing delays; after the last one they are a dead letter. No call follows a
// redirect, and none reaches a private address unless its file says so. Secrets are in no body, no letter and no log.
package callback

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Config of a caller. Client, State and Refuse are needed.
type Config struct {
	Client  *client.Client
	Targets []Target
	// State is the file of what is still to be called; only one caller at a time has it.
	State  string
	Refuse kernel.Refusals
	// Delays between attempts; nil is Delays.
	Delays []time.Duration
	Log    zerolog.Logger
}

// CodeFailed is the code of dead letters of callbacks.
const CodeFailed = "callback_failed"

// lockWait is how long the caller before may take to end.
const lockWait = 5 * time.Second

// Caller calls back for one station.
type Caller struct {
	cfg  Config
	lock *disk.Lock
	q    *queue
}

// New reads the state and takes it for this process. Run must be called.
func New(ctx context.Context, cfg Config) (*Caller, error) {
	if cfg.Delays == nil {
		cfg.Delays = Delays()
	}
	lock, err := disk.WaitLock(cfg.State+".lock", lockWait)
	if err != nil {
		return nil, fmt.Errorf("state of callbacks %s: %w", cfg.State, err)
	}
	c := &Caller{cfg: cfg, lock: lock}
	now, err := cfg.Client.Runs().Now(ctx, notify.Kinds()...)
	if err == nil {
		c.q, err = openQueue(cfg.State, cfg.Client.Station(), now, cfg.Targets, cfg.Delays)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return c, nil
}

// Run calls until ctx ends and no call is under way.
func (c *Caller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, d := range c.q.orphans() {
		c.bury(ctx, d, errors.New("the file of the callback is gone"))
	}
	for _, t := range c.cfg.Targets {
		running.Go(func() {
			if err := c.deliver(ctx, t); err != nil {
				cancel(err)
			}
		})
	}
	err := c.read(ctx)
	cancel(err)
	running.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return errors.Join(err, c.lock.Close())
}

// read reads the log and queues what is to be called.
func (c *Caller) read(ctx context.Context) error {
	for p, err := range c.cfg.Client.Runs().Follow(ctx, c.q.position()) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("callbacks: %w", err)
		}
		s, err := c.state(ctx, p.Run)
		if ctx.Err() != nil {
			return nil
		}
		var some []Delivery
		if err == nil { // a log that does not fold is for inspan audit
			if some = c.deliveries(ctx, s, p); ctx.Err() != nil {
				return nil
			}
		}
		tooMany, err := c.q.add(p.Next, some)
		if err != nil {
			return err
		}
		for _, d := range tooMany {
			c.bury(ctx, d, fmt.Errorf("%d calls wait already", maxPending))
		}
	}
	return nil
}

// state is that of a run; while there is no connection it is waited for.
func (c *Caller) state(ctx context.Context, id string) (run.State, error) {
	for {
		s, err := c.cfg.Client.State(ctx, id)
		if err == nil || c.cfg.Client.Connected() || kernel.Sleep(ctx, time.Second) != nil {
			return s, err
		}
	}
}

// deliveries are the calls that an event asks for.
func (c *Caller) deliveries(ctx context.Context, s run.State, p client.Passing) (some []Delivery) {
	n, ok := notify.Of(s, p.Event, p.Payload)
	if !ok {
		return nil
	}
	if n.AtGate() {
		n = n.WithDeputies(c.deputies(ctx), time.Now())
	}
	n.Command = command(n)
	for _, t := range c.cfg.Targets {
		if !t.wants(n, s) {
			continue
		}
		d := Delivery{ID: idOf(n.Station, n.Run, fmt.Sprint(p.Event.Sequence), t.Name), Target: t.Name, Notice: n,
			Next: time.Now().UTC()}
		if t.File.Kind == Webhook {
			d.Body = body(n, p, t.File.Output)
		}
		some = append(some, d)
	}
	return some
}

// deputies are those of the station. Where their log cannot be read whoever is away is called alone, which is logged: a
// deputy could not answer either.
func (c *Caller) deputies(ctx context.Context) events.Deputies {
	all, err := client.NewDeputies(c.cfg.Client).Read(ctx)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn().Err(err).Msg("deputies are not called: their log cannot be read")
	}
	return all
}

// wants reports whether a target is called for a notice: for runs that another one started only at gates, and people
// only where the end does not come to them anyway.
func (t Target) wants(n notify.Notice, s run.State) bool {
	f := t.File
	return slices.Contains(f.On, n.Kind) && (len(f.Agents) == 0 || slices.Contains(f.Agents, n.Agent)) &&
		(len(f.Projects) == 0 || slices.Contains(f.Projects, n.Project)) &&
		(n.To == "" || len(f.Groups) == 0 || slices.ContainsFunc(f.Groups, n.Calls)) &&
		(len(f.People) == 0 || slices.ContainsFunc(f.People, n.Reaches)) &&
		(n.Kind != notify.Reminder || n.To != "" || len(f.Groups) == 0) &&
		(n.AtGate() || s.Created == nil || s.Created.Parent == "") && (f.Kind == Webhook || n.Wanted())
}

// command is what a person types next.
func command(n notify.Notice) string {
	if n.AtGate() {
		return "inspan gates --run " + n.Run
	}
	return "inspan inspect " + n.Run
}

// Call is the body of a webhook.
type Call struct {
	// Type is that of the event: run.completed, run.failed, run.paused, gate.opened or gate.reminded.
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Data CallData  `json:"data"`
}

// CallData says what a call is about.
type CallData struct {
	notify.Notice
	Sequence     uint64        `json:"sequence"`
	Status       events.Status `json:"status,omitempty"`
	FinishReason string        `json:"finish_reason,omitempty"`
	DurationMS   int64         `json:"duration_ms,omitempty"`
	Tokens       int           `json:"total_tokens,omitempty"`
	Output       string        `json:"output,omitempty"`
}

func body(n notify.Notice, p client.Passing, output bool) json.RawMessage {
	d := CallData{Notice: n, Sequence: p.Event.Sequence}
	var r *events.Result
	switch e := p.Payload.(type) {
	case *events.RunCompletedData:
		r = &e.Result
	case *events.RunFailedData:
		r = &e.Result
	}
	if r != nil {
		d.Status, d.FinishReason, d.DurationMS, d.Tokens = r.Status, r.FinishReason, r.DurationMS, r.TotalTokens
		if output {
			d.Output = r.Output
		}
	}
	of := "run." + string(n.Kind)
	if n.Kind == notify.Reminder {
		of = "gate.reminded"
	}
	if n.Kind == notify.Gate {
		of = "gate.opened"
	}
	b, err := json.Marshal(Call{Type: of, Time: n.Time, Data: d})
	if err != nil {
		return json.RawMessage(`{}`) // it is plain data
	}
	return b
}

// deliver makes the calls of a target, one at a time.
func (c *Caller) deliver(ctx context.Context, t Target) error {
	for ctx.Err() == nil {
		d, ok := c.q.next(t.Name)
		wait := time.Hour
		if ok {
			wait = time.Until(d.Next)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.q.changed[t.Name]:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		if err := c.attempt(ctx, t, d); err != nil {
			return err
		}
	}
	return nil
}

// attempt makes a call once. A call that is cut off by the end of this process is made again by the next one.
func (c *Caller) attempt(ctx context.Context, t Target, d Delivery) error {
	within, cancel := context.WithTimeout(ctx, attemptWait)
	err := t.send(within, d)
	cancel()
	if err == nil {
		return c.q.done(d.ID)
	}
	if ctx.Err() != nil {
		return nil
	}
	var gone *goneError
	var wait *waitError
	least := time.Duration(0)
	if errors.As(err, &wait) {
		least = wait.least
	}
	last := errors.As(err, &gone)
	if !last {
		var failed error
		if last, failed = c.q.failed(d, err, time.Now(), least); failed != nil {
			return failed
		}
	}
	if last {
		c.bury(ctx, d, err)
		return nil
	}
	c.cfg.Log.Warn().Err(err).Str("callback", t.Name).Str("run", d.Notice.Run).Int("attempts", d.Attempts+1).
		Msg("callback failed, will try again")
	return nil
}

// bury takes a delivery off once its dead letter is written.
func (c *Caller) bury(ctx context.Context, d Delivery, why error) {
	err := c.letter(ctx, d, why)
	if err == nil {
		err = c.q.done(d.ID)
	} else if ctx.Err() == nil {
		err = errors.Join(err, c.q.later(d, time.Now()))
	}
	if err != nil {
		c.cfg.Log.Error().Err(err).Str("callback", d.Target).Msg("dead letter of a callback not written, will try again")
	}
}

// letter writes the dead letter of a delivery.
func (c *Caller) letter(ctx context.Context, d Delivery, why error) error {
	b, err := json.Marshal(d.Notice)
	if err != nil {
		return fmt.Errorf("encode a notice: %w", err)
	}
	c.cfg.Log.Error().Err(why).Str("callback", d.Target).Str("run", d.Notice.Run).Msg("callback given up")
	return c.cfg.Refuse.Refuse(ctx, events.Service(events.Gateway), kernel.DeadLetter{Subject: "callback." + d.Target,
		Time: time.Now().UTC(), Run: d.Notice.Run, Code: CodeFailed,
		Reason: fmt.Sprintf("%s was not called for %s of run %s, after %d attempts: %v", d.Target, d.Notice.Kind,
			d.Notice.Run, d.Attempts+1, why),
		Hint: "what the call was about stands in the log: inspan inspect " + d.Notice.Run, Data: string(b),
		DataBytes: len(b)})
}

// lowerText is base32 in small letters, which ids may have.
var lowerText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idOf makes the id of a call. The lengths of texts are hashed with them, so no two lists are the same.
func idOf(texts ...string) string {
	m := sha256.New()
	fmt.Fprint(m, "inspan callback 1")
	for _, t := range texts {
		fmt.Fprintf(m, "%d:%s", len(t), t)
	}
	return "call_" + lowerText.EncodeToString(m.Sum(nil))[:26]
}
