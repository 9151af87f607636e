package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/pkg/events"
)

// Role is the part of a service that is its own, for the aggregates of one name. Its methods are called concurrently. A
// nil error means that all that follows from what was received is stored: the message is acknowledged. A *Refusal puts
// it on the dead-letter list, as does ErrTooLarge, which no other try would fix; a *Later asks for it again; any other
// error asks for it again after a growing delay.
type Role[S any] interface {
	Service() events.Service
	// Event receives a stored event.
	Event(ctx context.Context, r Received[S]) error
	// Due receives a timer that this role set, with the state of its aggregate as the leader has it: a timer comes
	// once, so what is decided on it must not be decided on an old state.
	Due(ctx context.Context, d Due[S]) error
	// Input receives what an outsider published. Nothing in it is to be trusted.
	Input(ctx context.Context, m Message) error
}

// Undoer is a Role that takes back what a delivery of a message may have left behind that another delivery of it was
// refused by: an append that was under way meanwhile, or an instance that stood still. It is called when the message
// comes again.
type Undoer interface {
	Undo(ctx context.Context, m Message) error
}

// Received is an event as delivered, with a state of its aggregate that includes it.
type Received[S any] struct {
	ID   string
	Kind events.Kind
	// Seq of the event in the log.
	Seq        uint64
	State      S
	Deliveries uint64
	// Stored is the event as it is stored, to be read only.
	Stored []byte
}

// Due is the firing of a timer.
type Due[S any] struct {
	// ID of the aggregate that it was set for.
	ID string
	// Family and Name of the timer.
	Family, Name string
	State        S
	Deliveries   uint64
}

// Refusal is input that is judged and refused. It is recorded with the hint and never tried again.
type Refusal struct {
	// Code is stable for programs: bad_input, unknown_agent, unknown_run, gate_closed, ...
	Code, Reason, Hint string
	Run                string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s (%s)", r.Code, r.Reason, r.Hint) }

// Refuse makes a *Refusal.
func Refuse(code, hint, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Hint: hint, Reason: fmt.Sprintf(format, args...)}
}

// RetryAfter asks for the message again after a delay that the role knows to be right.
type RetryAfter struct{ After time.Duration }

func (l *RetryAfter) Error() string { return fmt.Sprintf("look again in %s", l.After) }

// How soon work is received again that another worker has.
const (
	busyFirst = 5 * time.Millisecond
	busyMost  = 250 * time.Millisecond
)

// Busy leaves work to another worker that has it: it is received again after 5 ms, and the more often it was delivered
// the later, up to 250 ms.
func Busy(deliveries uint64) *RetryAfter {
	return &RetryAfter{After: min(busyFirst<<min(max(deliveries, 1)-1, 10), busyMost)}
}

// LoopConfig holds what a loop needs.
type LoopConfig struct {
	// Handlers take what is received, each for the aggregates of one name. What is of no aggregate goes to the first.
	Handlers []Handler
	Inbox    Inbox
	Refusals Refusals
	Log      zerolog.Logger
	Workers  int
	// Observe is called after each message with what became of it; may be nil.
	Observe func(kind, result string, took time.Duration)
}

// Loop runs the handlers of one service.
type Loop struct {
	cfg LoopConfig
	by  events.Service
	// began is when the loop was made: an instance before it may have judged what is older.
	began time.Time
}

// NewLoop checks the configuration.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	if len(cfg.Handlers) == 0 || cfg.Inbox == nil || cfg.Refusals == nil || cfg.Workers <= 0 {
		return nil, errors.New("a loop needs handlers, an inbox, refusals and workers")
	}
	by := cfg.Handlers[0].service()
	for i, h := range cfg.Handlers {
		if h.service() != by || slices.ContainsFunc(cfg.Handlers[:i], func(o Handler) bool {
			return o.aggregate() == h.aggregate()
		}) {
			return nil, fmt.Errorf("a loop of %s cannot have a handler of %s for %s, too", by, h.service(), h.aggregate())
		}
	}
	return &Loop{cfg: cfg, by: by, began: time.Now()}, nil
}

// workingEvery is how often a message that takes long is declared to be worked on: a third of the ack wait. lapses is
// how long after the last such word another instance may soon receive it.
const (
	workingEvery = 10 * time.Second
	lapses       = 25 * time.Second
)

// Run receives until ctx ends and the messages under way are done.
func (l *Loop) Run(ctx context.Context) error {
	return l.cfg.Inbox.Listen(ctx, l.by, l.cfg.Workers, l.receive)
}

// receive handles one message: the duties are in this order so that nothing is acknowledged before it is done.
func (l *Loop) receive(ctx context.Context, m Message) {
	begin := time.Now()
	h := hold(m)
	kind, err := l.dispatch(ctx, h)
	h.end()
	if no := m.Header(ReplayHeader); no != "" && err == nil {
		err = l.replayed(ctx, m, no)
	}
	result := l.conclude(ctx, m, kind, err)
	if l.cfg.Observe != nil {
		l.cfg.Observe(kind, result, time.Since(begin))
	}
	l.cfg.Log.Debug().Str("subject", m.Subject()).Uint64("seq", m.Seq()).Str("result", result).
		Dur("took", time.Since(begin)).Msg("hop")
}

// held is a message that is worked on. Its ack wait is renewed until end is called.
type held struct {
	Message
	since time.Time
	// word is when it was last declared to be worked on, after since, in time; ended that it no longer is.
	word  atomic.Int64
	ended atomic.Bool
	timer *time.Timer
}

func hold(m Message) *held {
	h := &held{Message: m, since: time.Now()}
	h.timer = time.AfterFunc(workingEvery, h.renew)
	return h
}

func (h *held) renew() {
	if h.ended.Load() {
		return
	}
	at := time.Since(h.since)
	// A lost sign of life only leads to another look. One that comes too late takes nothing back from another instance.
	if err := h.Working(); err == nil && h.left(at) > 0 {
		h.word.Store(int64(at))
	}
	h.timer.Reset(workingEvery)
}

// left is how long no other instance can have the message, at a time after since.
func (h *held) left(at time.Duration) time.Duration {
	return lapses - at + time.Duration(h.word.Load())
}

func (h *held) end() {
	h.ended.Store(true)
	h.timer.Stop()
}

// mine is a context that ends with errLapsed when another instance may have the message: this process stood still, or
// could not say that it works on it. stop releases it.
func (h *held) mine(ctx context.Context) (mine context.Context, stop func()) {
	mine, end := context.WithCancelCause(ctx)
	left := h.left(time.Since(h.since))
	if left <= 0 {
		end(errLapsed)
		return mine, func() {}
	}
	var t *time.Timer
	t = time.AfterFunc(lapses, func() { // reset below, so that t is set when it fires
		if left := h.left(time.Since(h.since)); left > 0 {
			t.Reset(left)
			return
		}
		end(errLapsed)
	})
	t.Reset(left)
	return mine, func() { t.Stop(); end(nil) }
}

// dispatch finds out what the message is and gives it to its handler. kind is for logs and metrics.
func (l *Loop) dispatch(ctx context.Context, m *held) (kind string, err error) {
	if id, family, name, ok := events.ParseDue(m.Subject()); ok {
		for _, h := range l.cfg.Handlers {
			if own, ok := ownFamily(h.aggregate(), family); ok {
				return "due." + family, h.due(ctx, m, id, own, name)
			}
		}
		return "due." + family, l.unhandled(m)
	}
	sub, ok := events.ParseAggregateSubject(m.Subject())
	if !ok {
		return "task", l.input(ctx, m, l.cfg.Handlers[0])
	}
	kind = strings.Join(sub.Rest, ".")
	if sub.Rest[0] != "evt" {
		kind = sub.Rest[0]
	}
	kind = strings.TrimPrefix(kind, "evt.")
	for _, h := range l.cfg.Handlers {
		if h.aggregate() != sub.Aggregate {
			continue
		}
		if sub.Rest[0] == "evt" {
			return kind, h.event(ctx, m, sub.ID, events.Kind(kind))
		}
		// Whoever speaks of an aggregate has seen it as it is: a state kept here that is older must not judge them.
		unpin, err := h.look(ctx, sub.ID)
		if err != nil {
			return kind, err
		}
		defer unpin()
		return kind, l.input(ctx, m, h)
	}
	if sub.Rest[0] == "evt" {
		return kind, l.unhandled(m)
	}
	return "task", l.input(ctx, m, l.cfg.Handlers[0])
}

// unhandled refuses what is delivered to a service that has no handler for it.
func (l *Loop) unhandled(m Message) error {
	return Refuse("no_handler", "an instance of another version takes it: replay the letter with that one",
		"%s has no handler for %s", l.by, m.Subject())
}

// input lets a handler judge what an outsider said, as long as no other instance may judge it, too: one of them could
// refuse what the other takes. A fault of ours that it hits must not bring down one replica after the other: the
// message is put aside, and the fault is logged.
func (l *Loop) input(ctx context.Context, m *held, h Handler) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			l.cfg.Log.Error().Str("subject", m.Subject()).Uint64("seq", m.Seq()).Bytes("stack", debug.Stack()).
				Msg("a message hit a fault of this program: it is on the dead-letter list; report it with the stack")
			err = Refuse("internal_error", "this is a fault of the program and not of the message: report it",
				"%s could not judge it", l.by)
		}
	}()
	refused, err := l.refused(ctx, m)
	if err != nil {
		return err
	}
	mine, stop := m.mine(ctx)
	defer stop()
	if refused {
		return cmp.Or(h.undo(mine, m.Message), errRefused)
	}
	if err = h.input(mine, m.Message); errors.Is(context.Cause(mine), errLapsed) {
		return errLapsed
	}
	return sized(err)
}

// errLapsed means that another instance may have the message by now.
var errLapsed = errors.New("it was worked on for too long without a sign of life")

// errRefused means that a message was refused before, and its acknowledgement lost.
var errRefused = errors.New("refused before")

// refused reports whether a message that may come again has its dead letter. It is not judged again: what was refused
// might be taken by now, and its sender was given the refusal.
func (l *Loop) refused(ctx context.Context, m Message) (bool, error) {
	if m.Deliveries() <= 1 && !m.Time().Before(l.began) {
		return false, nil
	}
	refused, err := l.cfg.Refusals.Refused(ctx, l.by, m)
	if err != nil {
		return false, fmt.Errorf("look for a dead letter: %w", err)
	}
	return refused, nil
}

// sized refuses an input that no event has room for: it would be too large the next time too.
func sized(err error) error {
	if !errors.Is(err, ErrTooLarge) {
		return err
	}
	return Refuse("too_large", "put what is long into a file of the workspace and name the file", "%v", err)
}

// conclude acknowledges, refuses or asks again, and says which.
func (l *Loop) conclude(ctx context.Context, m Message, kind string, err error) string {
	var refusal *Refusal
	var later *RetryAfter
	switch {
	case err == nil:
		return l.ack(ctx, m, "done")
	case errors.Is(err, errRefused):
		return l.ack(ctx, m, "refused")
	case errors.Is(err, errLapsed): // it comes again by itself; to ask for it would take it from who has it now
		l.cfg.Log.Warn().Str("subject", m.Subject()).Uint64("deliveries", m.Deliveries()).
			Msg("a message was held for too long without a sign of life: nothing was done, another instance may have it")
		return "lapsed"
	case errors.As(err, &refusal):
		return l.refuse(ctx, m, refusal)
	case errors.As(err, &later):
		_ = m.Nak(later.After)
		return "later"
	case errors.Is(err, ErrHeld):
		l.cfg.Log.Error().Err(err).Str("subject",
			m.Subject()).Msg("held, the log is damaged: inspect it with inspan inspect, compare with the archive")
		return l.refuse(ctx, m, &Refusal{Code: "integrity_hold", Reason: err.Error(),
			Hint: "the log is damaged and nothing more is done for it; restore it from its archive or start the task again"})
	case errors.Is(err, ErrTooLarge): // it would be as large the next time
		l.cfg.Log.Error().Err(err).Str("subject",
			m.Subject()).Msg("too large to be stored: it is on the dead-letter list, inspan dead list")
		sub, _ := events.ParseRunSubject(m.Subject())
		return l.refuse(ctx, m, &Refusal{Code: "too_large", Run: sub.Run, Reason: err.Error(),
			Hint: "send less at once: put large things into files of the workspace and name them"})
	case ctx.Err() != nil:
		_ = m.Nak(0)
		return "handed back"
	}
	delay := backoff(m.Deliveries())
	l.cfg.Log.Warn().Err(err).Str("subject", m.Subject()).Uint64("deliveries", m.Deliveries()).Dur("again_in",
		delay).Msg("will try again")
	_ = m.Nak(delay)
	return "again"
}

func (l *Loop) refuse(ctx context.Context, m Message, r *Refusal) string {
	data := m.Data()
	d := fitted(DeadLetter{Header: readingHeaders(m), Subject: m.Subject(), Seq: m.Seq(), Time: m.Time(), Run: r.Run,
		Code: r.Code, Reason: r.Reason,
		Hint: r.Hint, Data: clip(string(data), maxDeadData), DataBytes: len(data), Token: m.Header("Inspan-Token")})
	if err := l.cfg.Refusals.Refuse(ctx, l.by, d); err != nil {
		l.cfg.Log.Warn().Err(err).Str("subject", m.Subject()).Msg("dead letter not stored, will try again")
		_ = m.Nak(backoff(m.Deliveries()))
		return "again"
	}
	l.cfg.Log.Info().Str("subject", m.Subject()).Str("code", r.Code).Msg("refused")
	return l.ack(ctx, m, "refused")
}

// Limits of a dead letter, in bytes: how much of a refused message is kept, of the reason and the hint, which quote it,
// and of the sender's token.
const (
	maxDeadData  = 8 << 10
	maxDeadWords = 2 << 10
	maxDeadToken = 256
)

// fitted cuts a dead letter to what the list takes. Characters that JSON writes as six make it longer than it looks.
func fitted(d DeadLetter) DeadLetter {
	d.Reason, d.Hint, d.Token = clip(d.Reason, maxDeadWords), clip(d.Hint, maxDeadWords), clip(d.Token, maxDeadToken)
	for d.Data != "" {
		if b, err := json.Marshal(d); err == nil && len(b) <= events.MaxDeadLetter {
			break
		}
		d.Data = clip(d.Data, len(d.Data)/2)
	}
	return d
}

// clip cuts a text to at most limit bytes of UTF-8.
func clip(s string, limit int) string {
	if s = strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD"); len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

func (l *Loop) ack(ctx context.Context, m Message, result string) string {
	if err := m.Ack(ctx); err != nil {
		// It will be received again, and the second look answers nothing.
		l.cfg.Log.Debug().Err(err).Str("subject", m.Subject()).Msg("ack lost")
		return "ack lost"
	}
	return result
}

// backoff grows from 100 ms to 30 s with the number of deliveries.
func backoff(deliveries uint64) time.Duration {
	return min(100*time.Millisecond<<min(deliveries, 9), 30*time.Second)
}
