package harness

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// PersistentState is a state with its steps. It is safe for concurrent use. The state is kept encoded, so whoever gets
// it has a copy of their own.
type PersistentState[S, I, O any] struct {
	mu sync.RWMutex
	// value and steps are guarded by mu. Elements of steps are never changed.
	value      json.RawMessage
	steps      []Step[I, O]
	maxContext int
}

// NewPersistentState makes a state from its first value. It returns an error for one that JSON would not keep.
func NewPersistentState[S, I, O any](cfg HarnessConfig[S]) (*PersistentState[S, I, O], error) {
	if err := kept(reflect.TypeFor[S]()); err != nil {
		return nil, err
	}
	value, err := encodeState(cfg.InitialState)
	if err != nil {
		return nil, err
	}
	p := &PersistentState[S, I, O]{value: value, maxContext: cfg.MaxContextSteps}
	if p.maxContext < 0 {
		return nil, fmt.Errorf("MaxContextSteps is %d, want at least 1, or 0 for %d", p.maxContext, DefaultContextSteps)
	}
	if p.maxContext == 0 {
		p.maxContext = DefaultContextSteps
	}
	return p, nil
}

// kept returns an error for a struct with fields that encoding/json leaves out.
func kept(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() && !f.Anonymous {
			return fmt.Errorf("the field %s of the state %s is not exported, so it would not be kept: export it, or keep it in the harness", f.Name, t)
		}
	}
	return nil
}

func encodeState[S any](s S) (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the state: %w", err)
	}
	if len(b) > events.MaxHarnessState {
		return nil, fmt.Errorf("the state has %d bytes, the limit is %d: keep large things elsewhere and their names here",
			len(b), events.MaxHarnessState)
	}
	// what cannot be read again would be found out after a restart only
	var back S
	if err := json.Unmarshal(b, &back); err != nil {
		return nil, fmt.Errorf("decode the state: %w", err)
	}
	return b, nil
}

// State returns a copy of the state.
func (p *PersistentState[S, I, O]) State() S {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.decoded()
}

// decoded is the state; the caller holds mu.
func (p *PersistentState[S, I, O]) decoded() S {
	var s S
	if err := json.Unmarshal(p.value, &s); err != nil {
		panic("harness: a state that was decoded before cannot be decoded: " + err.Error())
	}
	return s
}

// Update replaces the state by what a function makes of it. The function gets a copy: earlier values stay as they are.
// Where the new state cannot be kept, nothing changes.
func (p *PersistentState[S, I, O]) Update(change func(S) S) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	value, err := encodeState(change(p.decoded()))
	if err != nil {
		return err
	}
	p.value = value
	return nil
}

// Record adds a step.
func (p *PersistentState[S, I, O]) Record(number int, at time.Time, input I, output O, delta StateDelta) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, Step[I, O]{number, at, input, output, delta})
}

// StepHistory returns all steps, the oldest first.
func (p *PersistentState[S, I, O]) StepHistory() []Step[I, O] {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.steps)
}

// RecentSteps returns the last n steps, the oldest first.
func (p *PersistentState[S, I, O]) RecentSteps(n int) []Step[I, O] {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.steps[max(0, len(p.steps)-max(0, n)):])
}

// LoadContext returns the state and the most recent steps, at most MaxContextSteps.
func (p *PersistentState[S, I, O]) LoadContext() LoadedContext[S, I, O] {
	return LoadedContext[S, I, O]{State: p.State(), RecentSteps: p.RecentSteps(p.maxContext)}
}

func (p *PersistentState[S, I, O]) len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.steps)
}

func (p *PersistentState[S, I, O]) encoded() json.RawMessage {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.value
}

// set replaces the encoded state by one that was recorded.
func (p *PersistentState[S, I, O]) set(value json.RawMessage) error {
	value, err := canonical[S](value)
	if err != nil {
		return fmt.Errorf("decode the recorded state: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.value = value
	return nil
}

// canonical is an encoded value as this program encodes it.
func canonical[T any](value json.RawMessage) (json.RawMessage, error) {
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
