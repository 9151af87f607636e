package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// gaps returns what is wrong between the registered event types and the fold rules: each names the type.
func gaps(types []events.Type, tables ...[]rule) []string {
	var found []string
	count := map[events.Kind]int{}
	for _, table := range tables {
		for _, r := range table {
			count[r.kind]++
			if !slices.ContainsFunc(types, func(w events.Type) bool { return w.Kind == r.kind }) {
				found = append(found, fmt.Sprintf("%s has a fold rule and no row in pkg/events/kind.go", r.kind))
			}
		}
	}
	for _, w := range types {
		switch n := count[w.Kind]; {
		case n == 0:
			found = append(found, fmt.Sprintf("%s has no fold rule: add on(...) to a table of pkg/run (rules.go lists them)", w.Kind))
		case n > 1:
			found = append(found, fmt.Sprintf("%s has %d fold rules", w.Kind, n))
		}
	}
	return found
}

// noted is an event type that this program does not have.
type noted struct{ Text string }

func (*noted) Kind() events.Kind { return "note.taken" }

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-13 each event type has one fold rule", func(t *testing.T) {
		t.Parallel()
		for _, gap := range gaps(events.Registry(), tables...) {
			t.Error(gap)
		}
	})
	more := append(slices.Clone(events.Registry()), events.Type{Kind: "note.taken"})
	folds := on(func(s *State, _ events.Event, d *noted) string {
		s.PauseReason = d.Text
		return ""
	})
	withoutCalls := slices.DeleteFunc(slices.Clone(tables), func(table []rule) bool { return table[0].kind == events.CallAllowed })
	t.Run("EVT-13 a type without a rule, a rule without a type and a rule that is there twice are named", func(t *testing.T) {
		t.Parallel()
		for want, got := range map[string][]string{
			"note.taken has no fold rule":                                       gaps(more, tables...),
			"note.taken has a fold rule and no row":                             gaps(events.Registry(), append(slices.Clone(tables), []rule{folds})...),
			"note.taken has 2 fold rules":                                       gaps(more, append(slices.Clone(tables), []rule{folds, folds})...),
			"call.allowed has no fold rule: add on(...) to a table of pkg/run ": gaps(events.Registry(), withoutCalls...),
		} {
			if len(got) == 0 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("EVT-13 a rule folds the payload of its own type and refuses another", func(t *testing.T) {
		t.Parallel()
		if found := gaps(more, append(slices.Clone(tables), []rule{folds})...); len(found) > 0 {
			t.Fatal(found)
		}
		fold := index(append(slices.Clone(tables), []rule{folds})...)["note.taken"]
		var s State
		if fault := fold(&s, events.Event{}, &noted{Text: "tea"}); fault != "" || s.PauseReason != "tea" {
			t.Errorf("got %q, state %q", fault, s.PauseReason)
		}
		if fault := fold(&s, events.Event{}, new(events.RunPausedData)); !strings.Contains(fault, "RunPausedData") {
			t.Errorf("got %q", fault)
		}
	})
}
