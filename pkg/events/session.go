package events

import (
	"encoding/json"
	"slices"
	"time"
)

// SessionMode says how many runs may work in a session at a time.
type SessionMode string

// The modes. A session is sequential unless it was asked to be parallel.
const (
	Sequential SessionMode = "sequential"
	Parallel   SessionMode = "parallel"
)

// SessionStatus says whether a session takes inputs.
type SessionStatus string

// A paused session refuses inputs until it is resumed. An ended one is let go of and kept: the next input opens it
// again. Of a deleted one nothing is left but its name and its last fence.
const (
	SessionOpen    SessionStatus = "open"
	SessionPaused  SessionStatus = "paused"
	SessionEnded   SessionStatus = "ended"
	SessionDeleted SessionStatus = "deleted"
)

// StaleAfter is how long a session may lie unused before people are warned that what it knows may be out of date.
const StaleAfter = 7 * 24 * time.Hour

// Limits of sessions.
const (
	// MaxHolders is the most runs at a time in a parallel session.
	MaxHolders = 64
	// MaxSessionInputs bounds Session.Inputs: a message is delivered again within minutes.
	MaxSessionInputs = 32
	// MaxGiven is the most messages that a task may bring as its history.
	MaxGiven = 256
	// MaxSessionPrompt is the most bytes of a session's own instructions.
	MaxSessionPrompt = 16 << 10
)

// Session is all that a station knows of a session but its messages and its files (SESS-1, SESS-2). It is the fold of
// the session's log; the row in the bucket of sessions is a view of it.
type Session struct {
	ID     string        `json:"session_id"`
	Mode   SessionMode   `json:"mode"`
	Status SessionStatus `json:"status"`
	// Settings of the runs to come.
	SessionSettings
	// Fence counts the locks that were ever given, also those before the session was deleted and made again; Born is
	// the fence that the first lock of this session had or will have.
	Fence uint64 `json:"fence"`
	Born  uint64 `json:"born"`
	// Holders are the runs that hold its lock, at most one in a sequential session.
	Holders []Holder `json:"holders,omitempty"`
	// History is the newest Part of the conversation; nil where there is none. Messages and the tokens are those of all
	// parts.
	History      *Ref `json:"history,omitempty"`
	Parts        int  `json:"parts"`
	Messages     int  `json:"messages"`
	InputTokens  int  `json:"input_tokens"`
	OutputTokens int  `json:"output_tokens"`
	// Runs counts the runs that ever took its lock.
	Runs      int       `json:"total_runs"`
	CreatedAt time.Time `json:"created_at"`
	// UsedAt is when a run last began or ended in it, UpdatedAt when its history last changed.
	UsedAt    time.Time `json:"last_used_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Grants are those that were given and have not expired, the revoked ones too; none was given before GrantsFrom.
	Grants     []SessionGrant `json:"grants,omitempty"`
	GrantsFrom time.Time      `json:"grants_from,omitzero"`
	// Log is the last event of the session's log that a row includes; nil in a row of a version that had no such log.
	Log *LogHead `json:"log,omitempty"`
}

// LogHead is how far a view of a log goes.
type LogHead struct {
	// Sequence and Hash of the last event, and its position in the log of the station.
	Sequence uint64 `json:"sequence"`
	Hash     string `json:"hash"`
	Position uint64 `json:"position"`
	// Migrated is the revision of the row of an older version that a log of a workspace began with.
	Migrated uint64 `json:"migrated,omitempty"`
}

// SessionSettings are what the runs of a session have in common (SESS-6).
type SessionSettings struct {
	// Branch is the working branch.
	Branch string `json:"branch,omitempty"`
	// Model replaces that of the agent of a run, "provider/name"; the task's own comes first.
	Model string `json:"model,omitempty"`
	// Prompt stands behind the agents' own system prompts.
	Prompt string `json:"system_prompt,omitempty"`
}

// Holder is a run that holds the lock of a session.
type Holder struct {
	Run   string `json:"run"`
	Agent string `json:"agent"`
	// Fence of the lock: a lock that was given later has a higher one.
	Fence uint64    `json:"fence"`
	Since time.Time `json:"since"`
	// Until is when the run's time is up and the lock with it; zero where the run has no time limit.
	Until time.Time `json:"until,omitzero"`
	// Confirmed is true once the run is known to exist with this lock.
	Confirmed bool `json:"confirmed,omitempty"`
}

// Holder returns the lock of a run; ok is false where it has none.
func (s Session) Holder(runID string) (h Holder, ok bool) {
	i := slices.IndexFunc(s.Holders, func(h Holder) bool { return h.Run == runID })
	if i < 0 {
		return Holder{}, false
	}
	return s.Holders[i], true
}

// Took reports whether the control at that position was carried out.
func (s Session) Took(input uint64) bool { return slices.Contains(s.Inputs, input) }

// Stale reports whether a session was not used for StaleAfter.
func (s Session) Stale(now time.Time) bool {
	return !s.UsedAt.IsZero() && len(s.Holders) == 0 && now.Sub(s.UsedAt) >= StaleAfter
}

// Message is one entry of a conversation as it is stored (SESS-9).
type Message struct {
	// Role is user, assistant or tool.
	Role string `json:"role"`
	// Content of a user or assistant message; where it is too large for one place, ContentRef has the whole of it.
	Content    string `json:"content,omitempty"`
	ContentRef *Ref   `json:"content_ref,omitempty"`
	// Calls that an assistant message asks for, Results those of a tool message, in the order of the calls.
	Calls   []MessageCall   `json:"tool_calls,omitempty"`
	Results []MessageResult `json:"tool_results,omitempty"`
	// Metadata tells where it comes from.
	Metadata MessageMeta `json:"metadata,omitzero"`
	At       time.Time   `json:"timestamp,omitzero"`
	// Raw is the provider's own form of an assistant message; RawRef where it is large. It is sent back to that
	// provider only.
	Raw      json.RawMessage `json:"raw,omitempty"`
	RawRef   *Ref            `json:"raw_ref,omitempty"`
	Provider string          `json:"provider,omitempty"`
}

// The roles of a message.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// MessageCall is a tool call in a message.
type MessageCall struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input,omitempty"`
	InputRef *Ref            `json:"input_ref,omitempty"`
}

// MessageResult answers a call of the message before.
type MessageResult struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Output string `json:"output"`
	Failed bool   `json:"failed,omitempty"`
}

// MessageMeta tells where a message comes from.
type MessageMeta struct {
	Run   string `json:"run,omitempty"`
	Agent string `json:"agent,omitempty"`
	Step  string `json:"step,omitempty"`
	// Turn of the run, from 1; 0 for a message that is no turn.
	Turn  int    `json:"turn,omitempty"`
	Model string `json:"model,omitempty"`
	// Note marks a message that no one said: it stands where an input ended without an answer.
	Note bool `json:"note,omitempty"`
}

// Part is what one run adds to a history: an object by content that names the part before it, so one reference stands
// for a whole history for ever.
type Part struct {
	Session string `json:"session_id,omitempty"`
	// Run that it is of, and the fence of its lock, which orders the parts; both are empty in a history that a task
	// brought.
	Run   string `json:"run,omitempty"`
	Fence uint64 `json:"fence,omitempty"`
	// Prev is the part before; nil in the first one.
	Prev         *Ref      `json:"prev,omitempty"`
	Messages     []Message `json:"messages"`
	InputTokens  int       `json:"input_tokens,omitempty"`
	OutputTokens int       `json:"output_tokens,omitempty"`
	At           time.Time `json:"at,omitzero"`
}

// SessionControl is what a user publishes on a session's control subject.
type SessionControl struct {
	// Action is start, set, pause, resume, end, unlock, clear, delete, import or compact.
	Action string `json:"action"`
	// Mode and Settings of start and set; an empty one stays as it is, "-" takes a setting away.
	Mode SessionMode `json:"mode,omitempty"`
	SessionSettings
	// Stop stops the runs that hold the lock, for end, unlock and delete; without it those are refused while a run
	// lives.
	Stop bool `json:"stop,omitempty"`
	// Before lets delete do its work only where the session was not used since; nil for always.
	Before *time.Time `json:"before,omitempty"`
	// Messages of import become the history of a session that has none, as a task's history would; at most MaxGiven.
	// Those of compact take the place of the history whose newest part has the digest Of, and of no other.
	Messages []Message `json:"messages,omitempty"`
	Of       string    `json:"of,omitempty"`
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}
