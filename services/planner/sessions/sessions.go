// Package sessions is the part of the planner that enters runs into their sessions and takes them out again.
//
// Promises: a run works in a session only while it has its lock, what a run said is behind what was said before it,
// once, and a lock whose run has ended is given back by whoever looks next.
package sessions

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
)

// pausedWith is the reason of runs that are paused because their session is.
const pausedWith = "session paused"

// Config is where the part has the sessions.
type Config struct {
	Log
	// Blobs holds their histories.
	Blobs kernel.Blobs
	// Resolve fixes what a run is made of, and Windows is the context window of a model, as there; nil knows of none.
	Resolve *resolve.Resolver
	Windows func(model string) int
}

// Sessions is the part.
type Sessions struct {
	Config
	runs part.Runs
}

// New checks the configuration.
func New(cfg Config, runs part.Runs) (*Sessions, error) {
	if cfg.Ledger == nil || cfg.Rows == nil || cfg.Blobs == nil || cfg.Resolve == nil {
		return nil, errors.New("planner needs the logs and the rows of sessions, and blobs for their histories")
	}
	return &Sessions{cfg, runs}, nil
}

// Enter takes the lock of the session that a run is to work in, and pins what it finds there.
func (r *Sessions) Enter(ctx context.Context, t events.Task, runID string, c *events.RunCreatedData) error {
	if c.Session == "" {
		return nil
	}
	ask := session.Ask{Session: c.Session, Run: runID, Agent: c.Agent, Mode: modeOf(t, c),
		Limit: time.Duration(c.Options.TimeoutMS) * time.Millisecond}
	others := map[string]*events.RunCreatedData{}
	var made run.State
	e, err := r.change(ctx, c.Session, func(e session.State) (session.State, error) {
		if _, mine := e.Holder(runID); !mine {
			// Another delivery of the task may have made the run meanwhile, and it may have ended: it has had its lock.
			var err error
			if made, err = r.runs.Fresh(ctx, runID); err != nil || made.Sequence > 0 {
				return e, err
			}
		}
		e, standing, err := r.cleared(ctx, e, runID, others)
		if err != nil {
			return e, err
		}
		if e, err = session.Take(e, ask, standing, time.Now().UTC()); err == nil {
			err = resolve.InGit(t, c, runID, e.Session)
		}
		if err == nil {
			err = alone(e.Session, c, runID, others)
		}
		return e, err
	})
	if no, ok := errors.AsType[*session.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint, Run: runID}
	}
	if err != nil {
		return err
	}
	h, mine := e.Holder(runID)
	if !mine && made.Sequence > 0 {
		c.SessionFence = made.Created.SessionFence // which is confirmed before the run starts
		return nil
	}
	c.SessionFence, c.SessionPrompt = h.Fence, e.Prompt
	if c.Address == nil || !c.Address.Fresh {
		c.History = e.History
	}
	if e.Model != "" && t.Model == "" {
		return r.remodel(c, e.Model)
	}
	return nil
}

// Confirm makes sure that a run that was just made still has the lock it was made with, and ends it where another run
// has it now: between the lock and the run its planner may have been held up for longer than a lock is kept for an
// unborn run, or another planner that could not make the run gave its lock back.
func (r *Sessions) Confirm(ctx context.Context, s run.State) error {
	if s.Created.SessionFence == 0 || s.Status.Ended() {
		return nil
	}
	kept := false
	_, err := r.change(ctx, s.Created.Session, func(e session.State) (session.State, error) {
		if _, holds := e.Holder(s.HarnessID); !holds {
			// It may have ended since, and given its lock back itself.
			if now, err := r.runs.Fresh(ctx, s.HarnessID); err != nil || now.Status.Ended() {
				kept = true
				return e, err
			}
		}
		e, kept = session.Keep(e, s.HarnessID, s.Created.Agent, s.Created.SessionFence, s.CreatedAt, time.Now().UTC())
		return e, nil
	})
	if err != nil || kept {
		return err
	}
	_, err = r.runs.Write(ctx, s.HarnessID, lifecycle.Dispossessed)
	return err
}

// remodel gives the agent of a run the model of its session, with that model's window and price.
func (r *Sessions) remodel(c *events.RunCreatedData, model string) (err error) {
	a := c.Agents[c.Agent]
	if r.Windows != nil && a.ContextWindow == r.Windows(a.Model) {
		a.ContextWindow = 0 // that of the model before; what the agent's file says stays
	}
	a.Model = model
	c.Agents[c.Agent] = r.Resolve.Fit(a)
	c.Prices, err = r.Resolve.Prices(c.Agents, c.Options)
	return err
}

// cleared looks at the runs that hold locks: those that ended are settled, those of other sessions have none, and the
// others' standing is told. others, if not nil, gets how those were created that live.
func (r *Sessions) cleared(ctx context.Context, e session.State, but string,
	others map[string]*events.RunCreatedData) (session.State, map[string]session.Standing, error) {
	standing := map[string]session.Standing{}
	for _, h := range e.Holders {
		if h.Run == but {
			continue
		}
		s, err := r.runs.Fresh(ctx, h.Run)
		switch {
		case errors.Is(err, kernel.ErrHeld):
			standing[h.Run] = session.Held
		case err != nil:
			return e, nil, err
		case s.Sequence == 0:
			standing[h.Run] = session.Unborn
		case s.Created.Session != e.ID: // another task of that id was faster, which does not name the session
			e = session.Drop(e, h.Run, time.Now().UTC())
		case s.Status.Ended():
			if e, err = r.ended(ctx, e, s); err != nil {
				return e, nil, err
			}
		default:
			standing[h.Run] = session.Living
			if others != nil {
				others[h.Run] = s.Created
			}
		}
	}
	return e, standing, nil
}

// ended stores what a run said, behind the history of a session as it is, and returns the session with it.
func (r *Sessions) ended(ctx context.Context, e session.State, s run.State) (session.State, error) {
	end, err := r.part(ctx, e, s)
	if err != nil {
		return e, err
	}
	return session.Settle(e, end, time.Now().UTC()), nil
}

func (r *Sessions) part(ctx context.Context, e session.State, s run.State) (session.End, error) {
	end := session.End{Session: s.Created.Session, Run: s.HarnessID, Fence: s.Created.SessionFence,
		InputTokens: s.Tokens.Input, OutputTokens: s.Tokens.Output}
	messages, err := history.Of(s)
	if err != nil {
		return end, err
	}
	p := events.Part{Session: end.Session, Run: end.Run, Fence: end.Fence, Prev: e.History, Messages: messages,
		InputTokens: end.InputTokens, OutputTokens: end.OutputTokens, At: s.UpdatedAt}
	if s.Created.Address != nil && s.Created.Address.Fresh {
		p.Prev = nil // the account of a handoff stands for what was said before
	}
	end.Messages = len(messages)
	end.Part, err = history.Put(ctx, r.Blobs, p)
	return end, err
}

// Settle gives back the lock of a run that has ended, with what it said. It is called whenever the end of a run is
// seen, so that the message that brought it about is acknowledged only when that is stored; whoever wants the lock next
// does it where no one was left to.
func (r *Sessions) Settle(ctx context.Context, s run.State) error {
	if !s.Status.Ended() || s.Created == nil || s.Created.Session == "" ||
		s.Created.SessionFence == 0 {
		return nil
	}
	_, err := r.change(ctx, s.Created.Session, func(e session.State) (session.State, error) {
		if !session.Owed(e, s.HarnessID, s.Created.SessionFence) {
			return e, nil
		}
		return r.ended(ctx, e, s)
	})
	return err
}

// Abandon gives back the lock that a refused task has in its session, unless its run has that lock: the run could not
// be made, or another task of the same id made it, elsewhere. Where no one is left to do it, whoever asks for the
// session next does it.
func (r *Sessions) Abandon(ctx context.Context, id, runID string) error {
	if id == "" {
		return nil
	}
	_, err := r.change(ctx, id, func(e session.State) (session.State, error) {
		h, holds := e.Holder(runID)
		if !holds {
			return e, nil
		}
		s, err := r.runs.Fresh(ctx, runID)
		if err != nil || s.Sequence > 0 && s.Created.Session == id && s.Created.SessionFence == h.Fence {
			return e, err
		}
		return session.Drop(e, runID, time.Now().UTC()), nil
	})
	return err
}

// Input steers a session as a user asks.
func (r *Sessions) Input(ctx context.Context, m kernel.Message, id string) error {
	var c events.SessionControl
	_, err := ce.Read(m.Data(), m.Header, events.SessionType, &c)
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = session.Check(c)
	}
	if err == nil {
		err = history.CheckGiven(c.Messages)
	}
	if err == nil && c.Model != "" && c.Model != "-" {
		err = agentfile.CheckModel(c.Model)
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"unlock"}; inspan session --help shows what there is`, "%v", err)
	}
	w := session.Wish{SessionControl: c, Session: id, Input: m.Seq()}
	if err := r.steerRuns(ctx, w); err != nil {
		return err
	}
	_, err = r.change(ctx, id, func(e session.State) (session.State, error) {
		if e.Took(w.Input) {
			return e, nil
		}
		e, standing, err := r.cleared(ctx, e, "", nil)
		if err != nil {
			return e, err
		}
		next, err := session.Steer(e, w, standing, time.Now().UTC())
		if err != nil || w.Action != session.Import && w.Action != session.Compact {
			return next, err
		}
		// Only what is taken is stored.
		if w.Part, err = history.Put(ctx, r.Blobs, events.Part{Session: id, Messages: c.Messages}); err != nil {
			return e, err
		}
		return session.Steer(e, w, standing, time.Now().UTC())
	})
	if no, ok := errors.AsType[*session.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	return err
}

// steerRuns moves the runs of a session with it: a pause pauses them, a resume lets those go on, and what takes the
// lock stops them where that was asked for.
func (r *Sessions) steerRuns(ctx context.Context, w session.Wish) error {
	wish := lifecycle.Wish{By: part.OrUnknown(w.By), Reason: w.Reason, Input: w.Input}
	var decide runlog.Decide
	switch {
	case w.Action == session.Pause:
		wish.Reason = pausedWith
		decide = func(s run.State, now time.Time) ([]events.Payload, error) { return lifecycle.Pause(s, now, wish) }
	case w.Action == session.Resume:
		decide = func(s run.State, _ time.Time) ([]events.Payload, error) {
			if s.PauseReason != pausedWith {
				return nil, nil
			}
			return lifecycle.Resume(s, wish)
		}
	case w.Stop && (w.Action == session.Finish || w.Action == session.Unlock || w.Action == session.Delete):
		wish.Reason = strings.TrimSpace("session " + w.Action + " " + w.Reason)
		decide = func(s run.State, now time.Time) ([]events.Payload, error) { return lifecycle.Stop(s, now, wish) }
	default:
		return nil
	}
	e, _, err := r.latest(ctx, w.Session)
	if err != nil {
		return err
	}
	if e.Took(w.Input) {
		return nil
	}
	for _, h := range e.Holders {
		s, err := r.runs.Fresh(ctx, h.Run)
		if err == nil && s.Sequence > 0 && s.Created.Session == w.Session && !s.Status.Ended() {
			_, err = r.runs.Change(ctx, h.Run, decide)
		}
		if _, move := errors.AsType[*lifecycle.MoveError](err); move || errors.Is(err, kernel.ErrHeld) {
			continue // it stands where it was wished to, or nothing can be said to it
		}
		if err != nil {
			return err
		}
	}
	return nil
}
