package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/breaker"
)

const (
	// maxList is how many models a list may name.
	maxList = 8
	// triesEach is how many tries of a turn a model of a list gets before the next one does.
	triesEach = 2
	// outFor is how long a model of a list that refuses its key, or that does not exist, is passed over.
	outFor = 5 * time.Minute
	// patience is the longest wait that a provider can ask for while another model of the list could answer.
	patience = 30 * time.Second
)

// list is several models of which a later one answers where those before it cannot. Each Ask is one request to one of
// them: the executor's tries move along the list, and a model that rests behind its breaker is passed over.
type list struct {
	refs   []string
	names  []string
	models []llm.Model

	mu  sync.Mutex
	out map[int]time.Time
}

// list makes the models of refs, separated by commas.
func (s *Set) list(refs string) (llm.Model, string, error) {
	l := &list{refs: strings.Split(refs, ","), out: map[int]time.Time{}}
	if len(l.refs) > maxList {
		return nil, "", s.invalid(fmt.Errorf("a list of %d models is longer than %d", len(l.refs), maxList))
	}
	for _, ref := range l.refs {
		m, name, err := s.Model(ref)
		if err != nil {
			return nil, "", err
		}
		l.models, l.names = append(l.models, m), append(l.names, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.lists[refs]; known != nil { // it knows which of its models are out
		return known, known.names[0], nil
	}
	if len(s.lists) < maxLists {
		s.lists[refs] = l
	}
	return l, l.names[0], nil
}

// Ask asks the model whose turn it is.
func (l *list) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	i := l.choose(max(req.Meta.Attempt, 1))
	req.Model = l.names[i]
	a, err := l.models[i].Ask(ctx, req, sink)
	if e, ok := final(err); ok && l.passOver(i) {
		told := *e
		told.Class, told.Hint = llm.Transient, "the next model of the list is used; "+e.Hint
		return a, &told
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e.RetryAfter > patience && l.another(i) {
		told := *e
		told.RetryAfter = 0 // the model rests behind its breaker, so the next try passes it over
		return a, &told
	}
	return a, err
}

// another reports whether a model behind i can be asked now.
func (l *list) another(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for j := i + 1; j < len(l.models); j++ {
		if l.free(j, now) {
			return true
		}
	}
	return false
}

// free reports whether a model is neither out nor resting; mu is held.
func (l *list) free(i int, now time.Time) bool {
	b, _ := l.models[i].(*breaker.Model)
	return !now.Before(l.out[i]) && (b == nil || !b.Resting(l.names[i]))
}

// final is the error of a model that no other request would be answered by either.
func final(err error) (*llm.Error, bool) {
	e, ok := errors.AsType[*llm.Error](err)
	return e, ok && (e.Class == llm.Auth || e.Class == llm.Invalid && e.Status == 404)
}

// choose is the first model that can be asked, from the one whose turn the attempt is; that one where none can.
func (l *list) choose(attempt int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	from := min((attempt-1)/triesEach, len(l.models)-1)
	for i := from; i < len(l.models); i++ {
		if l.free(i, now) {
			return i
		}
	}
	return from
}

// passOver leaves model i out for a while. It reports whether another one is in.
func (l *list) passOver(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.out[i] = now.Add(outFor)
	for j := i + 1; j < len(l.models); j++ {
		if !now.Before(l.out[j]) {
			return true
		}
	}
	return false
}
