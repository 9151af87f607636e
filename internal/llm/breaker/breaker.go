// Package breaker keeps a provider that is down, or that asked to be left alone, from being asked by every run.
//
// Promises: nothing is repeated here; the executor has the one retry layer, and this tells it how long to wait. A model
// that failed Limit times in a row is not asked for a while, which doubles up to MaxRest; then one request tries it,
// and the first piece of its answer lets all others through again. A wait that the provider asked for holds for all
// requests to that model. Each wait that is handed out is spread, so that the runs do not come back in one instant. A
// request that was refused here says so, and why. Models do not share a state, nor do processes.
package breaker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/llm"
)

const (
	// Limit is how many failures in a row stop the asking.
	Limit = 5
	// BaseRest is the first rest, MaxRest the longest.
	BaseRest = 5 * time.Second
	MaxRest  = 2 * time.Minute
	// probeWait is the wait for those who come while one request tries the model.
	probeWait = 5 * time.Second
	// spread is the part of a wait by which it is lengthened at most.
	spread = 0.25
	// maxModels bounds the states that are kept.
	maxModels = 256
)

// ErrResting is a request that was not sent because its model is left alone.
var ErrResting = errors.New("requests to the model are suspended")

// Model is a model behind a breaker. It is safe for concurrent use.
type Model struct {
	next llm.Model
	name string

	mu     sync.Mutex
	states map[string]*state
}

var _ llm.Model = (*Model)(nil)

// state of one model of the provider.
type state struct {
	failures int
	// until is when it may be asked again; class, status and cause say why not before.
	until  time.Time
	class  llm.Class
	status int
	cause  error
	// probing is whether the one request that tries it is under way.
	probing bool
}

// New puts next, an adapter called name, behind a breaker.
func New(name string, next llm.Model) *Model {
	return &Model{next: next, name: name, states: map[string]*state{}}
}

// Ask asks the model, or refuses at once with ErrResting in an *llm.Error that says how long to wait.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	probe, err := m.admit(req.Model, time.Now())
	if err != nil {
		return llm.Answer{}, err
	}
	var once sync.Once
	a, err := m.next.Ask(ctx, req, func(d llm.Delta) {
		once.Do(func() { m.answered(req.Model) })
		if sink != nil {
			sink(d)
		}
	})
	return a, m.settle(ctx, req.Model, probe, err)
}

// admit lets a request through, or says why not. probe is whether it is the one that tries the model.
func (m *Model) admit(model string, now time.Time) (probe bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[model]
	switch {
	case s == nil:
		return false, nil
	case now.Before(s.until):
		return false, m.resting(model, s, s.until.Sub(now))
	case s.failures < Limit:
		return false, nil
	case s.probing:
		return false, m.resting(model, s, probeWait)
	}
	s.probing = true
	return true, nil
}

// Resting reports whether a request to model would be refused now.
func (m *Model) Resting(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[model]
	return s != nil && (time.Now().Before(s.until) || s.probing)
}

func (m *Model) resting(model string, s *state, wait time.Duration) error {
	return &llm.Error{Class: s.class, Provider: m.name, Status: s.status, RetryAfter: spreadOut(wait),
		Err:  fmt.Errorf("%s/%s: %w: %d failures in a row, the last: %w", m.name, model, ErrResting, s.failures, s.cause),
		Hint: "requests resume automatically; check the status page of the provider, or choose another model"}
}

// answered is told when a model speaks.
func (m *Model) answered(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, model)
}

// settle takes what came of a request, and gives it back with its wait spread.
func (m *Model) settle(ctx context.Context, model string, probe bool, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	_, again := llm.Retryable(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[model]
	if probe && s != nil {
		s.probing = false
	}
	if ctx.Err() != nil {
		return err // nothing was learnt of the model
	}
	if !ok {
		delete(m.states, model)
		return err
	}
	told := *e
	told.Provider = m.name
	if !again { // a refusal of the request: the provider works
		delete(m.states, model)
		return &told
	}
	if s == nil {
		if len(m.states) >= maxModels {
			clear(m.states) // whoever names so many models is not slowed down by forgetting
		}
		s = &state{}
		m.states[model] = s
	}
	s.class, s.status, s.cause = e.Class, e.Status, e.Err
	rest := e.RetryAfter
	if s.failures < Limit || probe { // of many that were under way when it broke, one counts
		s.failures++
		if s.failures >= Limit {
			rest = max(rest, min(BaseRest<<min(s.failures-Limit, 10), MaxRest))
		}
	}
	now := time.Now()
	if until := now.Add(rest); rest > 0 && until.After(s.until) {
		s.until = until
	}
	told.RetryAfter = spreadOut(max(rest, s.until.Sub(now)))
	return &told
}

// spreadOut lengthens a wait by chance.
func spreadOut(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*spread*float64(d))
}
