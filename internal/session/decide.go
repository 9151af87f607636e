// Package session is the aggregate of sessions: who may work in a session, and what becomes of its lock.
//
// Promises: a session is its log, and the row that others read is a view of it. A decision is a function of a state; it
// returns the state with what it decided noted in Changes, by the same rule that folds the stored event, and every
// prefix of the changes is a legal history. In a sequential session one run holds the lock, and no other gets it before
// that run has ended, whatever the clock says: the time limit of a lock is that of its run. A run that asks again has
// what it has. Each lock that is given has a higher fence than all before it, also where the session was deleted in
// between. What a run said is added to the history once, in the same change that takes its lock away.
package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/pkg/events"
)

// BirthTerm is how long a lock is kept for a run that does not exist: its planner may have died between the two. Who
// gave the task is delivered it again well within that time.
const BirthTerm = time.Minute

// Standing is what the log says about a run that holds a lock.
type Standing int

// The standings. A run whose log is damaged is held: nothing more is done for it, and only a person can take its lock.
const (
	Living Standing = iota
	Unborn
	Held
)

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Ask is a run that wants a lock. Mode is empty to leave the session's; Limit is the run's time limit, 0 for none.
type Ask struct {
	Session, Run, Agent string
	Mode                events.SessionMode
	Limit               time.Duration
}

// Take gives a run the lock of a session, which is made where there is none, or returns a *Refused. Runs among the
// holders that have ended must have been settled before; standing tells of the others.
func Take(e State, a Ask, standing map[string]Standing, now time.Time) (State, error) {
	if _, mine := e.Holder(a.Run); mine {
		return e, nil
	}
	e = opened(e, a.Session, now)
	if e.Status == events.SessionPaused {
		return e, &Refused{"session_paused", fmt.Sprintf("session %q is paused", e.ID),
			"let it go on: inspan session resume " + e.ID}
	}
	mode := cmp.Or(a.Mode, e.Mode)
	for _, h := range e.Holders {
		if lapsed(h, standing, now) {
			e = release(e, h.Run, "its run was never created", now)
		}
	}
	switch {
	case mode != events.Parallel && len(e.Holders) > 0:
		return e, Locked(e.Session, e.Holders[0])
	case len(e.Holders) >= events.MaxHolders:
		return e, &Refused{"session_full", fmt.Sprintf("%d runs work in session %q, which is the limit", len(e.Holders),
			e.ID), "wait until one has ended: inspan session info " + e.ID}
	}
	return e.then(&events.SessionLockedData{Event: "session_locked", Run: a.Run, Agent: a.Agent, Fence: e.Fence + 1,
		Mode:      mode,
		TimeoutMS: max(0, a.Limit.Milliseconds())}, now), nil
}

// there reports whether a session exists.
func there(e State) bool { return e.ID != "" && e.Status != events.SessionDeleted }

// opened makes a session where there is none. What is kept of one of the same name that was deleted is its last fence.
func opened(e State, id string, now time.Time) State {
	if there(e) {
		return e
	}
	return e.then(&events.SessionOpenedData{Event: "session_opened", Session: id}, now)
}

// release takes the lock of a run away.
func release(e State, runID, reason string, now time.Time) State {
	h, ok := e.Holder(runID)
	if !ok {
		return e
	}
	return e.then(&events.SessionReleasedData{Event: "session_released", Run: runID, Fence: h.Fence, Reason: reason}, now)
}

// lapsed reports whether a lock is no one's any more: its run was never born.
func lapsed(h events.Holder, standing map[string]Standing, now time.Time) bool {
	return standing[h.Run] == Unborn && now.Sub(h.Since) >= BirthTerm
}

// Locked is the refusal that names who holds the lock (SESS-3).
func Locked(e events.Session, h events.Holder) *Refused {
	until := "until it ends"
	if !h.Until.IsZero() {
		until = "until it ends, at the latest " + h.Until.UTC().Format(time.RFC3339)
	}
	return &Refused{"session_locked", fmt.Sprintf("session %q is locked by run %s of %s since %s, %s", e.ID, h.Run,
		h.Agent, h.Since.UTC().Format(time.RFC3339), until),
		fmt.Sprintf("wait for it: inspan logs %s --follow; or end it: inspan session unlock %s --stop; or let runs share the session: inspan session set %s --mode parallel", h.Run, e.ID, e.ID)}
}

// Keep confirms the lock of a run that was made with it, and reports whether the run has it. It gets back what was
// taken away while no one knew of the run, as long as no other run was given a lock since.
func Keep(e State, runID, agent string, fence uint64, since, now time.Time) (State, bool) {
	d := &events.SessionConfirmedData{Event: "session_confirmed", Run: runID, Fence: fence}
	h, mine := e.Holder(runID)
	switch {
	case mine && (h.Fence != fence || h.Confirmed):
		return e, h.Fence == fence
	case !mine && (!there(e) || e.Fence != fence):
		return e, false
	case !mine:
		d.Restored = &events.Holder{Run: runID, Agent: agent, Fence: fence, Since: since}
	}
	return e.then(d, now), true
}

// Drop takes the lock away from a run of which nothing was stored.
func Drop(e State, runID string, now time.Time) State {
	return release(e, runID, "no run of the session was created with it", now)
}

// End is what a run that ended leaves to its session.
type End struct {
	Session, Run string
	// Fence of its lock.
	Fence uint64
	// Part that was stored, with the history of the session as it is now before it.
	Part                                events.Ref
	Messages, InputTokens, OutputTokens int
}

// Owed reports whether the end of a run still has to be settled. A session that knows less than the run's own lock is
// one that was lost, or one that was read from a store that is behind: then the change is refused and the session read
// again.
func Owed(e State, runID string, fence uint64) bool {
	_, holds := e.Holder(runID)
	return holds || e.Fence < fence
}

// Settle adds what a run said to the history and takes its lock away. It changes nothing where that is done.
func Settle(e State, end End, now time.Time) State {
	if !Owed(e, end.Run, end.Fence) {
		return e
	}
	return opened(e, end.Session, now).then(&events.SessionSettledData{Event: "session_settled", Run: end.Run,
		Fence: end.Fence, Part: end.Part,
		Messages: end.Messages, InputTokens: end.InputTokens, OutputTokens: end.OutputTokens}, now)
}

// Actions of a session's control subject.
const (
	Start  = "start"
	Set    = "set"
	Pause  = "pause"
	Resume = "resume"
	Finish = "end"
	Unlock = "unlock"
	Clear  = "clear"
	Delete = "delete"
	Import = "import"
	// Compact puts messages in the place of a conversation that they sum up.
	Compact = "compact"
)

// Actions lists them.
func Actions() []string {
	return []string{Start, Set, Pause, Resume, Finish, Unlock, Clear, Delete, Import, Compact}
}

// Wish is a control with where it came from: Input is its position in the input stream.
type Wish struct {
	events.SessionControl
	Session string
	Input   uint64
	// Part is where the messages of an import or a compaction are stored.
	Part events.Ref
}

// Steer carries out a control, or returns a *Refused. Runs among the holders that have ended must have been settled,
// and those that are to be stopped stopped; standing tells of the others.
func Steer(e State, w Wish, standing map[string]Standing, now time.Time) (State, error) {
	if e.Took(w.Input) {
		return e, nil
	}
	if !there(e) && w.Action != Start && w.Action != Import {
		return e, &Refused{"unknown_session", fmt.Sprintf("there is no session %q", w.Session),
			"inspan session list lists those of the station"}
	}
	if w.Action == Import && there(e) && e.History != nil {
		return e, &Refused{"session_has_history", fmt.Sprintf("session %q has a conversation of %d messages", e.ID,
			e.Messages), "name another session, or forget that conversation: inspan session clear " + e.ID}
	}
	if w.Action == Compact && (e.History == nil || e.History.SHA256 != w.Of) {
		return e, &Refused{"session_changed", fmt.Sprintf("the conversation of session %q is not the one that was summed up",
			e.ID), "sum it up again"}
	}
	if w.Action == Finish || w.Action == Unlock || w.Action == Clear || w.Action == Delete || gives(w.Action) {
		if w.Action == Delete && w.Before != nil && e.UsedAt.After(*w.Before) {
			return e, &Refused{"session_used", fmt.Sprintf("session %q was used since %s", e.ID,
				w.Before.UTC().Format(time.RFC3339)), "nothing was deleted; inspan session info " + e.ID}
		}
		free, err := freed(e, w, standing, now)
		if err != nil {
			return e, err
		}
		e = free
	}
	d := &events.SessionSteeredData{Event: "session_steered", Action: w.Action, Input: w.Input, By: w.By, Reason: w.Reason}
	switch w.Action {
	case Start, Import:
		e = opened(e, w.Session, now)
	default: // the session exists
	}
	switch w.Action {
	case Start, Set:
		d.Mode, d.SessionSettings = cmp.Or(w.Mode, e.Mode), settled(e.SessionSettings, w)
	case Import, Compact:
		d.Part, d.Messages = &w.Part, len(w.Messages)
	default: // the action says it all
	}
	return e.then(d, now), nil
}

// gives reports whether messages go with an action.
func gives(action string) bool { return action == Import || action == Compact }

// freed takes the locks away that are no one's. Unlock takes those of runs that may still be born, and of held ones,
// too.
func freed(e State, w Wish, standing map[string]Standing, now time.Time) (State, error) {
	for _, h := range e.Holders {
		takes := lapsed(h, standing, now) || standing[h.Run] != Living && (w.Action == Unlock || w.Stop)
		if !takes {
			r := Locked(e.Session, h)
			if w.Action != Clear && !gives(w.Action) {
				r.Hint = fmt.Sprintf("wait for it: inspan logs %s --follow; or stop the run too: inspan session %s %s --stop",
					h.Run, w.Action, e.ID)
			}
			return e, r
		}
		e = release(e, h.Run, "taken away by the control "+w.Action, now)
	}
	return e, nil
}

// settled are the settings after a control.
func settled(s events.SessionSettings, w Wish) events.SessionSettings {
	for _, f := range []struct {
		dst *string
		v   string
	}{{&s.Branch, w.Branch}, {&s.Model, w.Model}, {&s.Prompt, w.Prompt}} {
		if f.v == "-" {
			*f.dst = ""
		} else if f.v != "" {
			*f.dst = f.v
		}
	}
	return s
}

// Check returns what is wrong with a control, in words for who sent it.
func Check(c events.SessionControl) error {
	switch {
	case !slices.Contains(Actions(), c.Action):
		return fmt.Errorf("unknown action %.80q: the actions are %s", c.Action, strings.Join(Actions(), ", "))
	case c.Action != Start && c.Action != Set && (c.Mode != "" || c.SessionSettings != events.SessionSettings{}):
		return fmt.Errorf("settings go with %s and %s, not with %s", Start, Set, c.Action)
	case gives(c.Action) != (len(c.Messages) > 0):
		return fmt.Errorf("messages go with %s and %s, and they need some", Import, Compact)
	case (c.Action == Compact) != (c.Of != ""):
		return fmt.Errorf("the digest of what is replaced goes with %s, and it needs it", Compact)
	case len(c.Prompt) > events.MaxSessionPrompt:
		return fmt.Errorf("the system prompt has %d bytes, the limit is %d", len(c.Prompt), events.MaxSessionPrompt)
	case strings.ContainsRune(c.Prompt, 0):
		return fmt.Errorf("the system prompt contains a NUL character")
	case !branch(c.Branch):
		return fmt.Errorf("branch %.80q is no name of a branch", c.Branch)
	}
	return CheckMode(c.Mode)
}

// CheckMode returns what is wrong with a mode; empty is right.
func CheckMode(m events.SessionMode) error {
	if m != "" && m != events.Sequential && m != events.Parallel {
		return fmt.Errorf("mode %.80q: want %s or %s", m, events.Sequential, events.Parallel)
	}
	return nil
}

// maxBranch is the longest name of a branch, in bytes.
const maxBranch = 200

// branch reports whether a name can be one of a branch; git itself is stricter.
func branch(name string) bool {
	if name == "" || name == "-" {
		return true
	}
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`~^:?*[\`, r)
	})
	return !bad && len(name) <= maxBranch && !strings.HasPrefix(name, "-") && !strings.Contains(name, "..") &&
		!strings.HasSuffix(name, "/") && !strings.HasPrefix(name, "/")
}
