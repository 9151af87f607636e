package kernel

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Rule folds the events of one type of an aggregate.
type Rule[S any] struct {
	Kind events.Kind
	fold func(s S, p events.Payload, at time.Time) (S, error)
}

// On makes a rule of a function, whose payload type says of which event type. The function returns the state after an
// event of that time, and an error for one that cannot follow.
func On[S any, P events.Payload](fold func(s S, d P, at time.Time) (S, error)) Rule[S] {
	var none P
	return Rule[S]{none.Kind(), func(s S, p events.Payload, at time.Time) (S, error) {
		d, ok := p.(P)
		if !ok {
			return s, fmt.Errorf("its payload is a %T", p)
		}
		return fold(s, d, at)
	}}
}

// Rules are the fold rules of an aggregate, one for each of its event types: kerneltest.Registration checks that.
type Rules[S any] []Rule[S]

// Fold returns the state after one more event.
func (r Rules[S]) Fold(s S, p events.Payload, at time.Time) (S, error) {
	for _, rule := range r {
		if rule.Kind == p.Kind() {
			return rule.fold(s, p, at)
		}
	}
	return s, fmt.Errorf("there is no fold rule for %s", p.Kind())
}
