package events

import (
	"encoding/json"
	"time"
)

// Limits of harnesses, the programs that others write with pkg/harness.
const (
	// MaxHarnessState is the most bytes of the encoded state of a harness.
	MaxHarnessState = 64 << 10
	// MaxHarnessRecord is the most bytes of one encoded HarnessControl: a step with its input, its output and the results
	// of its effects.
	MaxHarnessRecord = 192 << 10
	// MaxHarnessEffects is the most effects of one step, MaxHarnessSteps the most steps of a harness.
	MaxHarnessEffects = 256
	MaxHarnessSteps   = 1_000_000
	// MaxHarnessText is the most bytes of a name, a holder, a summary or a reason.
	MaxHarnessText = 1 << 10
)

// HarnessStatus says whether a harness goes on.
type HarnessStatus string

// A harness is open until its Execute ends or it is complete; then nothing more is recorded.
const (
	HarnessIsOpen      HarnessStatus = "open"
	HarnessIsCompleted HarnessStatus = "completed"
)

// Harness is what a station knows of a harness without its steps. It is the fold of the harness's log; the row in the
// bucket of sessions is a view of it.
type Harness struct {
	ID     string        `json:"harness"`
	Status HarnessStatus `json:"status"`
	// Name is that of the kind of harness: a program of another name is refused.
	Name string `json:"name"`
	// Epoch counts the programs that were attached, Holder and Token name the last one: only it may record.
	Epoch  int    `json:"epoch"`
	Holder string `json:"holder,omitempty"`
	Token  string `json:"token,omitempty"`
	// Steps is how many steps are recorded.
	Steps int `json:"steps"`
	// Begun are the effects of the step after those that were begun before it was recorded.
	Begun []HarnessBegun `json:"begun,omitempty"`
	// Reason says why it ended.
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// HarnessBegun is an effect that was begun in the step under way.
type HarnessBegun struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Class   string `json:"class"`
	Settled bool   `json:"settled,omitempty"`
}

// HarnessEffect is an effect of a step and what came of it.
type HarnessEffect struct {
	// Number counts the effects of a step from 1, in the order in which Execute asked for them.
	Number int    `json:"number"`
	Name   string `json:"name"`
	// Class is read, idempotent, reconcilable or once.
	Class string `json:"class"`
	// Result is what it returned. Error is set in its place where it returned an error, and Unknown where the program was
	// lost between its beginning and its end, and no one can say whether it happened.
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Unknown bool            `json:"unknown,omitempty"`
}

// HarnessStep is one step: a pair that Execute yielded, and what it changed.
type HarnessStep struct {
	Number int `json:"stepNumber"`
	// Timestamp is of the program's clock.
	Timestamp time.Time       `json:"timestamp"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	// StateDelta names what changed; Changed are the fields of the state with their new values, and Removed those that are
	// gone. A state that is no JSON object changes as a whole, as the field "".
	StateDelta HarnessDelta               `json:"stateDelta"`
	Changed    map[string]json.RawMessage `json:"changed,omitempty"`
	Removed    []string                   `json:"removed,omitempty"`
	// Effects are those that no harness.begun or harness.settled has.
	Effects []HarnessEffect `json:"effects,omitempty"`
}

// HarnessDelta says in words what a step changed in the state.
type HarnessDelta struct {
	Modified []string `json:"modified,omitempty"`
	Summary  string   `json:"summary,omitempty"`
}

// Actions of a HarnessControl.
const (
	HarnessAttach = "attach"
	HarnessBegin  = "begin"
	HarnessSettle = "settle"
	HarnessRecord = "step"
	HarnessEnd    = "end"
)

// HarnessControl is what a program asks the station to record of its harness. The same one twice is recorded once.
type HarnessControl struct {
	Action string `json:"action"`
	// Epoch is that of the program, of attach the one that it saw.
	Epoch int `json:"epoch"`
	// Name, Holder, Token, State and TakeOver go with attach: the kind of harness, which instance of the program it is, a
	// random text of this attachment, the state of a new harness, and how long after the last record of another holder
	// the harness is free, such as "10s".
	Name     string          `json:"name,omitempty"`
	Holder   string          `json:"holder,omitempty"`
	Token    string          `json:"token,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	TakeOver string          `json:"take_over,omitempty"`
	// Step goes with step; StepNumber with begin and settle: the step under way.
	Step       *HarnessStep `json:"step,omitempty"`
	StepNumber int          `json:"stepNumber,omitempty"`
	// Effect goes with begin and settle. Before goes with begin: the results of the effects of the step before it that
	// nothing has recorded yet.
	Effect *HarnessEffect  `json:"effect,omitempty"`
	Before []HarnessEffect `json:"before,omitempty"`
	// Reason and Steps go with end.
	Reason string `json:"reason,omitempty"`
	Steps  int    `json:"steps,omitempty"`
}
