package kerneltest

import (
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Registration returns what is wrong between the event types that are registered for an aggregate and its fold rules:
// each gap names the type.
func Registration[S any](a *kernel.Aggregate[S], rules kernel.Rules[S]) []string {
	registered, ok := events.AggregateOf(a.Name)
	if !ok {
		return []string{fmt.Sprintf("aggregate %s has no row in events.Aggregates", a.Name)}
	}
	return RuleGaps(registered.Types, rules, a.Lookup)
}

// RuleGaps is Registration for event types that are given.
func RuleGaps[S any](types []events.Type, rules kernel.Rules[S],
	lookup func(events.Kind) (events.Type, bool)) []string {
	var found []string
	count := map[events.Kind]int{}
	for _, r := range rules {
		if count[r.Kind]++; !slices.ContainsFunc(types, func(w events.Type) bool { return w.Kind == r.Kind }) {
			found = append(found, fmt.Sprintf("%s has a fold rule and no row in pkg/events", r.Kind))
		}
	}
	for _, w := range types {
		if n := count[w.Kind]; n != 1 {
			found = append(found, fmt.Sprintf("%s has %d fold rules: give it one kernel.On(...)", w.Kind, n))
		}
		if got, ok := lookup(w.Kind); !ok || got.Author != w.Author {
			found = append(found, fmt.Sprintf("%s is not found by the aggregate's Lookup", w.Kind))
		}
	}
	return found
}
