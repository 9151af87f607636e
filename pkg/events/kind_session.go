package events

import (
	"fmt"
	"strings"
)

// SessionAggregate is the name of the aggregates that are sessions, as it stands in subjects.
const SessionAggregate = "session"

// The kinds of the events of a session.
const (
	SessionMigrated  Kind = "session.migrated"
	SessionOpened    Kind = "session.opened"
	SessionLocked    Kind = "session.locked"
	SessionConfirmed Kind = "session.confirmed"
	SessionReleased  Kind = "session.released"
	SessionSettled   Kind = "session.settled"
	SessionSteered   Kind = "session.steered"
	SessionGranted   Kind = "session.granted"
	SessionRevoked   Kind = "session.revoked"
	SessionPruned    Kind = "session.pruned"
)

// SessionRegistry returns the event types of sessions, in the order of a session's life.
func SessionRegistry() []Type { return sessionTypes[:] }

var sessionTypes = [...]Type{
	{SessionMigrated, Planner, "session_migrated", Recorded, InLog, line((*SessionMigratedData).line),
		"The row that an older version kept of the session was taken over: the log begins with it.",
		func() Payload { return new(SessionMigratedData) }},
	{SessionOpened, Planner, "session_opened", Decided, InLog, line((*SessionOpenedData).line),
		"The session was made, or made again after it was deleted.",
		func() Payload { return new(SessionOpenedData) }},
	{SessionLocked, Planner, "session_locked", Decided, InLog, line((*SessionLockedData).line),
		"A run was given the lock of the session, before the run exists.",
		func() Payload { return new(SessionLockedData) }},
	{SessionConfirmed, Planner, "session_confirmed", Decided, InLog, line((*SessionConfirmedData).line),
		"The run that the lock was given to exists and has it; the run starts after this.",
		func() Payload { return new(SessionConfirmedData) }},
	{SessionReleased, Planner, "session_released", Decided, InLog, line((*SessionReleasedData).line),
		"The lock of a run was taken away, and nothing of the run is added to the history.",
		func() Payload { return new(SessionReleasedData) }},
	{SessionSettled, Planner, "session_settled", Decided, InLog, line((*SessionSettledData).line),
		"A run ended: its messages are the newest part of the history, and its lock is free.",
		func() Payload { return new(SessionSettledData) }},
	{SessionSteered, Planner, "session_steered", Recorded, InLog, line((*SessionSteeredData).line),
		"A control of a user was carried out.",
		func() Payload { return new(SessionSteeredData) }},
	{SessionGranted, Gatekeeper, "session_granted", Decided, InLog, line((*SessionGrantedData).line),
		"A person approved a call and all later ones of the session that are like it, until a time.",
		func() Payload { return new(SessionGrantedData) }},
	{SessionRevoked, Gatekeeper, "session_revoked", Decided, InLog, line((*SessionRevokedData).line),
		"A standing grant of the session was taken back: no call is permitted on it from now on.",
		func() Payload { return new(SessionRevokedData) }},
	{SessionPruned, Planner, "session_pruned", Recorded, InLog, line((*SessionPrunedData).line),
		"The content of the session was deleted on request: this event stands for all events before it.",
		func() Payload { return new(SessionPrunedData) }},
}

// LookupSession is Lookup for the event types of sessions.
func LookupSession(k Kind) (Type, bool) {
	return lookup(sessionTypes[:], k)
}

// SessionMigratedData is the payload of session.migrated.
type SessionMigratedData struct {
	Event string `json:"event"`
	// Row is what the station knew of the session, Revision that of the row in its bucket.
	Row      Session `json:"row"`
	Revision uint64  `json:"revision"`
}

// SessionOpenedData is the payload of session.opened.
type SessionOpenedData struct {
	Event   string `json:"event"`
	Session string `json:"session_id"`
}

// SessionLockedData is the payload of session.locked. The lock is held since the time of the event.
type SessionLockedData struct {
	Event string `json:"event"`
	Run   string `json:"run"`
	Agent string `json:"agent"`
	Fence uint64 `json:"fence"`
	// Mode of the session from now on.
	Mode SessionMode `json:"mode"`
	// TimeoutMS is the time limit of the run in milliseconds, 0 for none.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// SessionConfirmedData is the payload of session.confirmed.
type SessionConfirmedData struct {
	Event string `json:"event"`
	Run   string `json:"run"`
	Fence uint64 `json:"fence"`
	// Restored is the lock as it was given, where it had been taken away before the run was known to exist.
	Restored *Holder `json:"restored,omitempty"`
}

// SessionReleasedData is the payload of session.released.
type SessionReleasedData struct {
	Event string `json:"event"`
	Run   string `json:"run"`
	Fence uint64 `json:"fence"`
	// Reason says why, in words for people.
	Reason string `json:"reason"`
}

// SessionSettledData is the payload of session.settled.
type SessionSettledData struct {
	Event string `json:"event"`
	Run   string `json:"run"`
	Fence uint64 `json:"fence"`
	// Part is what the run adds to the history; it names the part before it.
	Part         Ref `json:"part"`
	Messages     int `json:"messages"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// SessionSteeredData is the payload of session.steered.
type SessionSteeredData struct {
	Event string `json:"event"`
	// Action of the control: start, set, pause, resume, end, unlock, clear, delete, import or compact.
	Action string `json:"action"`
	// Input is the position of the control in the input stream.
	Input uint64 `json:"input"`
	// Mode and settings that the session has from now on, after start and set.
	Mode SessionMode `json:"mode,omitempty"`
	SessionSettings
	// Part and Messages of the conversation that was imported, or that stands for the one before.
	Part     *Ref   `json:"part,omitempty"`
	Messages int    `json:"messages,omitempty"`
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Kind implements Payload.
func (*SessionMigratedData) Kind() Kind { return SessionMigrated }

// Kind implements Payload.
func (*SessionOpenedData) Kind() Kind { return SessionOpened }

// Kind implements Payload.
func (*SessionLockedData) Kind() Kind { return SessionLocked }

// Kind implements Payload.
func (*SessionConfirmedData) Kind() Kind { return SessionConfirmed }

// Kind implements Payload.
func (*SessionReleasedData) Kind() Kind { return SessionReleased }

// Kind implements Payload.
func (*SessionSettledData) Kind() Kind { return SessionSettled }

// Kind implements Payload.
func (*SessionSteeredData) Kind() Kind { return SessionSteered }

func (d *SessionMigratedData) line() string {
	return fmt.Sprintf("session %s taken over from revision %d of its row", d.Row.ID, d.Revision)
}

func (d *SessionOpenedData) line() string {
	return fmt.Sprintf("session %s opened", d.Session)
}

func (d *SessionLockedData) line() string {
	return fmt.Sprintf("locked by run %s of %s, %s, fence %d", d.Run, d.Agent, d.Mode, d.Fence)
}

func (d *SessionConfirmedData) line() string {
	return fmt.Sprintf("run %s exists with fence %d", d.Run, d.Fence)
}

func (d *SessionReleasedData) line() string {
	return fmt.Sprintf("lock of run %s released: %s", d.Run, d.Reason)
}

func (d *SessionSettledData) line() string {
	return fmt.Sprintf("run %s added %d messages", d.Run, d.Messages)
}

func (d *SessionSteeredData) line() string {
	return strings.TrimSpace("control " + d.Action + " " + d.Reason)
}
