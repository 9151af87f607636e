package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// ErrDamagedState marks bytes that are not a whole, sound state. Nothing of them is used (EVT-8).
var ErrDamagedState = errors.New("damaged state")

// VersionError is returned for a state of a schema version that is neither ours nor can be upgraded to it (EVT-7).
type VersionError struct{ Found, Supported int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("state has schema version %d, this program supports version %d: upgrade the program or take the state from the log again", e.Found, e.Supported)
}

// Migration lifts a state document from one version to the next.
type Migration func(doc map[string]json.RawMessage) (map[string]json.RawMessage, error)

// Migrations by the version they start from. Codec holds them as a value, so that tests bring their own.
type Codec struct{ Migrations map[int]Migration }

// Encode writes a state as JSON.
func (Codec) Encode(s State) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode state of %s: %w", s.HarnessID, err)
	}
	return b, nil
}

// Decode reads a state of this or, through the migrations, an earlier version. It returns a *VersionError or
// ErrDamagedState (wrapped), and then the zero State.
func (c Codec) Decode(b []byte) (State, error) {
	var head struct {
		SchemaVersion *int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrDamagedState, err)
	}
	if head.SchemaVersion == nil {
		return State{}, fmt.Errorf("%w: no schemaVersion", ErrDamagedState)
	}
	b, err := c.upgrade(b, *head.SchemaVersion)
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrDamagedState, err)
	}
	if fault := s.fault(); fault != "" {
		return State{}, fmt.Errorf("%w: %s", ErrDamagedState, fault)
	}
	return s, nil
}

func (c Codec) upgrade(b []byte, from int) ([]byte, error) {
	if from == SchemaVersion {
		return b, nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamagedState, err)
	}
	for v := from; v != SchemaVersion; v++ {
		lift, ok := c.Migrations[v]
		if !ok || v > SchemaVersion {
			return nil, &VersionError{Found: from, Supported: SchemaVersion}
		}
		next, err := lift(doc)
		if err != nil {
			return nil, fmt.Errorf("%w: upgrade from version %d: %w", ErrDamagedState, v, err)
		}
		next["schemaVersion"] = json.RawMessage(fmt.Sprint(v + 1))
		doc = next
	}
	return json.Marshal(doc)
}

func (s *State) fault() string {
	switch {
	case s.HarnessID == "":
		return "no harnessId"
	case s.AgentName == "":
		return "no agentName"
	case s.CreatedAt.IsZero():
		return "no createdAt"
	case s.CreatedAt.Location() != time.UTC:
		return "createdAt is not in UTC"
	}
	switch s.Status {
	case events.Created, events.Running, events.Paused, events.Completed, events.Failed:
		return s.partFault()
	}
	return fmt.Sprintf("status %q", s.Status)
}

// partFault looks for parts that would break whoever walks over them.
func (s *State) partFault() string {
	for id, c := range s.Open {
		if c == nil {
			return fmt.Sprintf("open call %q is null", id)
		}
	}
	for i, g := range s.Gates {
		if g == nil {
			return fmt.Sprintf("gate %d is null", i)
		}
	}
	total := 0
	if s.Plan != nil {
		total = len(s.Plan.Steps)
		for i, st := range s.Plan.Steps {
			if st == nil {
				return fmt.Sprintf("step %d is null", i)
			}
			switch st.Status {
			case events.StepIsPending, events.StepIsReady, events.StepIsRunning, events.StepIsCompleted, events.StepIsFailed,
				events.StepIsBlocked, events.StepIsSkipped:
			default:
				return fmt.Sprintf("step %q has status %q", st.ID, st.Status)
			}
		}
	}
	if s.CurrentStepIndex < 0 || s.CurrentStepIndex > total {
		return fmt.Sprintf("currentStepIndex %d of %d steps", s.CurrentStepIndex, total)
	}
	return ""
}
