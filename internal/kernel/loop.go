package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Role is the part of a service that is its own. Its methods are called concurrently. A nil error means that all
// that follows from what was heard is stored: the message is acknowledged. A *Refusal puts it on the dead-letter
// list, as does ErrTooLarge, which no other try would mend; a *Later asks for it again; any other error asks for it again
// after a growing delay.
type Role interface {
	Service() events.Service
	// Fact hears a stored fact.
	Fact(ctx context.Context, h Heard) error
	// Due hears a timer that this role set, with the state of its run as the leader has it: a timer comes once, so what is
	// decided on it must not be decided on an old state.
	Due(ctx context.Context, runID, family, id string, s run.State) error
	// Input hears an outsider. Nothing in it is to be trusted.
	Input(ctx context.Context, m Message) error
}

// Again is a Role that wants to know how often the firing of a timer was delivered. It is told instead of Due.
type Again interface {
	DueAgain(ctx context.Context, runID, family, id string, s run.State, deliveries uint64) error
}

// Heard is a fact as delivered, with a state of its run that includes it.
type Heard struct {
	Run  string
	Kind events.Kind
	// Sequence of the fact in its run, Seq in the log.
	Sequence, Seq uint64
	// Step and Call it is about, where it is about one.
	Step, Call string
	State      run.State
	Deliveries uint64
	// Stored is the fact as it is stored, to be read only.
	Stored []byte
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

// Later asks for the message again after a delay that the role knows to be right.
type Later struct{ After time.Duration }

func (l *Later) Error() string { return fmt.Sprintf("look again in %s", l.After) }

// LoopConfig holds what a loop needs.
type LoopConfig struct {
	Ledger   *Ledger
	Inbox    Inbox
	Refusals Refusals
	Log      zerolog.Logger
	Workers  int
	// Observe is called after each message with what became of it; may be nil.
	Observe func(kind, result string, took time.Duration)
}

// Loop runs one role.
type Loop struct {
	cfg  LoopConfig
	role Role
}

// NewLoop checks the configuration.
func NewLoop(cfg LoopConfig, role Role) (*Loop, error) {
	if cfg.Ledger == nil || cfg.Inbox == nil || cfg.Refusals == nil || cfg.Workers <= 0 {
		return nil, errors.New("a loop needs a ledger, an inbox, refusals and workers")
	}
	return &Loop{cfg: cfg, role: role}, nil
}

// workingEvery is how often a message that takes long is declared to be worked on: a third of the ack wait.
const workingEvery = 10 * time.Second

// Run hears until ctx ends and the messages under way are done.
func (l *Loop) Run(ctx context.Context) error {
	return l.cfg.Inbox.Listen(ctx, l.role.Service(), l.cfg.Workers, l.hear)
}

// hear handles one message: the duties are in this order so that nothing is acknowledged before it is done.
func (l *Loop) hear(ctx context.Context, m Message) {
	begin := time.Now()
	stop := keepWorking(m)
	kind, err := l.dispatch(ctx, m)
	stop()
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

// keepWorking renews the message's ack wait while it is worked on. The function returned ends that.
func keepWorking(m Message) (stop func()) {
	done := make(chan struct{})
	var t *time.Timer
	t = time.AfterFunc(workingEvery, func() {
		select {
		case <-done:
		default:
			_ = m.Working() // a lost sign of life only leads to another look
			t.Reset(workingEvery)
		}
	})
	return func() { close(done); t.Stop() }
}

// dispatch finds out what the message is and lets the role hear it. kind is for logs and metrics.
func (l *Loop) dispatch(ctx context.Context, m Message) (kind string, err error) {
	if runID, family, id, ok := events.ParseDue(m.Subject()); ok {
		defer l.cfg.Ledger.cfg.Pages.Pin(runID)()
		state, err := l.cfg.Ledger.Fresh(ctx, runID)
		if err != nil {
			return "due." + family, err
		}
		if again, ok := l.role.(Again); ok {
			return "due." + family, again.DueAgain(ctx, runID, family, id, state, m.Deliveries())
		}
		return "due." + family, l.role.Due(ctx, runID, family, id, state)
	}
	sub, ok := events.ParseRunSubject(m.Subject())
	if !ok || sub.Rest[0] != "evt" {
		if ok {
			defer l.cfg.Ledger.cfg.Pages.Pin(sub.Run)()
			// Whoever speaks of a run has seen it as it is: a state kept here that is older must not judge them.
			if _, err := l.cfg.Ledger.Fresh(ctx, sub.Run); err != nil {
				return sub.Rest[0], err
			}
			return sub.Rest[0], l.input(ctx, m)
		}
		return "task", l.input(ctx, m)
	}
	kind = strings.Join(sub.Rest[1:], ".")
	defer l.cfg.Ledger.cfg.Pages.Pin(sub.Run)()
	record := Record{Seq: m.Seq(), Kind: events.Kind(kind), Bytes: m.Data()}
	state, err := l.hearFact(ctx, sub.Run, record, m)
	if err != nil {
		return kind, err
	}
	about, err := events.AboutOf(m.Data())
	if err != nil {
		return kind, fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return kind, l.role.Fact(ctx, Heard{Run: sub.Run, Kind: events.Kind(kind), Sequence: about.Sequence, Seq: m.Seq(),
		Step: about.Step, Call: about.Call, State: state, Deliveries: m.Deliveries(), Stored: m.Data()})
}

// input lets the role judge what an outsider said. A fault of ours that it hits must not bring down one replica after the
// other: the message is put aside, and the fault is told.
func (l *Loop) input(ctx context.Context, m Message) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			l.cfg.Log.Error().Str("subject", m.Subject()).Uint64("seq", m.Seq()).Bytes("stack", debug.Stack()).
				Msg("a message hit a fault of this program: it is on the dead-letter list; report it with the stack")
			err = Refuse("internal_error", "this is a fault of the program and not of the message: report it", "%s could not judge it", l.role.Service())
		}
	}()
	return sized(l.role.Input(ctx, m))
}

// sized refuses an input that no fact has room for: it would be too large the next time too.
func sized(err error) error {
	if !errors.Is(err, ErrTooLarge) {
		return err
	}
	return Refuse("too_large", "put what is long into a file of the workspace and name the file", "%v", err)
}

// hearFact returns a state that includes a delivered fact. One that was copied from elsewhere is looked at only when
// its run is here whole, and with all that came after it: what it asked for was mostly done long ago.
func (l *Loop) hearFact(ctx context.Context, runID string, r Record, m Message) (run.State, error) {
	whole, err := strconv.ParseUint(m.Header(WholeHeader), 10, 64)
	if err != nil || whole == 0 {
		return l.cfg.Ledger.Hear(ctx, runID, r)
	}
	state, _, err := l.cfg.Ledger.Reach(ctx, runID, whole)
	if err == nil && state.Sequence < whole {
		err = &Later{After: backoff(m.Deliveries())}
	}
	return state, err
}

// conclude acknowledges, refuses or asks again, and says which.
func (l *Loop) conclude(ctx context.Context, m Message, kind string, err error) string {
	var refusal *Refusal
	var later *Later
	switch {
	case err == nil:
		return l.ack(ctx, m, "done")
	case errors.As(err, &refusal):
		return l.refuse(ctx, m, refusal)
	case errors.As(err, &later):
		_ = m.Nak(later.After)
		return "later"
	case errors.Is(err, ErrHeld):
		l.cfg.Log.Error().Err(err).Str("subject", m.Subject()).Msg("run is held: inspect it with inspan inspect, compare with the archive")
		return l.refuse(ctx, m, &Refusal{Code: "integrity_hold", Reason: err.Error(), Hint: "the run's log is damaged and nothing more is done for it; restore it from its archive or start the task again"})
	case errors.Is(err, ErrTooLarge): // it would be as large the next time
		l.cfg.Log.Error().Err(err).Str("subject", m.Subject()).Msg("too large to be stored: it is on the dead-letter list, inspan dead list")
		sub, _ := events.ParseRunSubject(m.Subject())
		return l.refuse(ctx, m, &Refusal{Code: "too_large", Run: sub.Run, Reason: err.Error(), Hint: "send less at once: put large things into files of the workspace and name them"})
	case ctx.Err() != nil:
		_ = m.Nak(0)
		return "handed back"
	}
	delay := backoff(m.Deliveries())
	l.cfg.Log.Warn().Err(err).Str("subject", m.Subject()).Uint64("deliveries", m.Deliveries()).Dur("again_in", delay).Msg("will try again")
	_ = m.Nak(delay)
	return "again"
}

func (l *Loop) refuse(ctx context.Context, m Message, r *Refusal) string {
	data := m.Data()
	d := fitted(DeadLetter{Header: readingHeaders(m), Subject: m.Subject(), Seq: m.Seq(), Time: m.Time(), Run: r.Run, Code: r.Code, Reason: r.Reason,
		Hint: r.Hint, Data: clip(string(data), maxDeadData), DataBytes: len(data), Token: m.Header("Inspan-Token")})
	if err := l.cfg.Refusals.Refuse(ctx, l.role.Service(), d); err != nil {
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
		// It will be heard again, and the second look answers nothing.
		l.cfg.Log.Debug().Err(err).Str("subject", m.Subject()).Msg("ack lost")
		return "ack lost"
	}
	return result
}

// backoff grows from 100 ms to 30 s with the number of deliveries.
func backoff(deliveries uint64) time.Duration {
	return min(100*time.Millisecond<<min(deliveries, 9), 30*time.Second)
}
