package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Option changes how Run runs a harness.
type Option func(*settings)

// settings are what options set, with the dependencies that tests replace.
type settings struct {
	id, name, holder string
	store            Store
	clock            Clock
	agents           Agents
	publisher        Publisher
	knowledge        func(ctx context.Context, state json.RawMessage) ([]string, error)
	takeOver         time.Duration
	patience         time.Duration
	standby, afresh  bool
}

// Defaults of options.
const (
	// DefaultTakeOver is how long after the last record of another holder a harness is free.
	DefaultTakeOver = 10 * time.Second
	// DefaultPatience is how long a record is tried again where the store does not answer.
	DefaultPatience = time.Minute
	// defaultID is the id of a harness in a store that no one else has.
	defaultID = "harness"
)

// WithID names the harness in its store. Two programs with one id are the same harness.
func WithID(id string) Option { return func(s *settings) { s.id = id } }

// WithName names the kind of harness; the default is the name of its Go type. A harness goes on under its name only.
func WithName(name string) Option { return func(s *settings) { s.name = name } }

// WithStore keeps the records in a store; the default is a MemoryStore of this Run.
func WithStore(store Store) Option { return func(s *settings) { s.store = store } }

// WithClock replaces the clock of the machine.
func WithClock(c Clock) Option { return func(s *settings) { s.clock = c } }

// WithAgents is who carries out what Dispatch asks for.
func WithAgents(a Agents) Option { return func(s *settings) { s.agents = a } }

// WithPublisher has each step published once it is recorded.
func WithPublisher(p Publisher) Option { return func(s *settings) { s.publisher = p } }

// WithKnowledge is where LoadContext finds what is relevant for a state.
func WithKnowledge[S any](find func(ctx context.Context, state S) ([]string, error)) Option {
	return func(s *settings) {
		s.knowledge = func(ctx context.Context, encoded json.RawMessage) ([]string, error) {
			var state S
			if err := json.Unmarshal(encoded, &state); err != nil {
				return nil, fmt.Errorf("knowledge is asked for by a %T: %w", state, err)
			}
			return find(ctx, state)
		}
	}
}

// WithHolder names this instance of the program; the default is the name of the machine. An instance takes over at
// once what an instance of the same name had, and that of another one when it has recorded nothing for the time given;
// 0 is DefaultTakeOver. Until then Run ends with ErrBusy.
func WithHolder(holder string, takeOver time.Duration) Option {
	return func(s *settings) { s.holder, s.takeOver = holder, takeOver }
}

// WithStandby waits, in place of ErrBusy, until the harness is free.
func WithStandby() Option { return func(s *settings) { s.standby = true } }

// WithPatience is how long a record is tried again where the store does not answer; then Run ends with the error, and
// the next Run goes on.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// WithoutReplay has Execute begin with the recorded state and CurrentStep, not with its first step. It is for an
// Execute that finds all it needs in the state: a restart costs the same after any number of steps, and the program may
// change.
func WithoutReplay() Option { return func(s *settings) { s.afresh = true } }

func (s *settings) fill(kind string) error {
	if s.name == "" {
		s.name = kind
	}
	if s.store == nil {
		s.store = &MemoryStore{Clock: s.clock}
	}
	if s.id == "" {
		s.id = defaultID
	}
	if s.holder == "" {
		s.holder, _ = os.Hostname() // a machine without a name has the default below
	}
	if s.holder == "" {
		s.holder = "program"
	}
	s.clock = clockOr(s.clock)
	if s.takeOver == 0 {
		s.takeOver = DefaultTakeOver
	}
	if s.patience == 0 {
		s.patience = DefaultPatience
	}
	if len(s.name) > events.MaxHarnessText || len(s.holder) > events.MaxHarnessText {
		return fmt.Errorf("the name or the holder is longer than %d bytes", events.MaxHarnessText)
	}
	return events.CheckID("harness", s.id)
}

// Published is a step that was recorded.
type Published struct {
	// Harness is its id, Name the kind.
	Harness, Name string
	Step          events.HarnessStep
}

// Publisher learns of each step once it is recorded: never of one that is not, and of one recorded just before the
// program was lost perhaps not at all. It must not wait.
type Publisher interface{ Publish(Published) }

// PublisherFunc is a function as a Publisher.
type PublisherFunc func(Published)

// Publish implements Publisher.
func (f PublisherFunc) Publish(p Published) { f(p) }

// Publishers publish to several.
func Publishers(all ...Publisher) Publisher {
	return PublisherFunc(func(p Published) {
		for _, to := range all {
			to.Publish(p)
		}
	})
}
