package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// rule folds the events of one type.
type rule struct {
	kind events.Kind
	fold foldFunc
}

// foldFunc changes a state by one event and returns what is wrong with the event, or "". The state is a copy whose
// slices and maps are shared with the state before: a rule replaces them and never writes into them.
type foldFunc func(s *State, f events.Event, p events.Payload) string

// on makes a rule of a function; its payload type says of which event type.
func on[P events.Payload](fold func(s *State, f events.Event, d P) string) rule {
	var none P
	return rule{none.Kind(), func(s *State, f events.Event, p events.Payload) string {
		d, ok := p.(P)
		if !ok {
			return fmt.Sprintf("its payload is a %T", p)
		}
		return fold(s, f, d)
	}}
}

// tables of all rules, each beside the functions that it names. A new family of event types adds its own here.
var tables = [][]rule{runRules, planRules, planningRules, stepRules, callRules, innerRules, modelRules, gateRules,
	checkpointRules,
	checkRules, childRules, flowRules, mailRules}

var rules = index(tables...)

func index(tables ...[]rule) map[events.Kind]foldFunc {
	byKind := map[events.Kind]foldFunc{}
	for _, table := range tables {
		for _, r := range table {
			byKind[r.kind] = r.fold
		}
	}
	return byKind
}
