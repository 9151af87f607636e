package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// gaps returns what is wrong between the registered event types and how they are decided again: each names the type.
func gaps(types []events.Type, rules []rule) []string {
	var found []string
	count := map[events.Kind]int{}
	for _, r := range rules {
		if count[r.kind]++; count[r.kind] == 2 {
			found = append(found, fmt.Sprintf("%s has two rules", r.kind))
		}
		if !slices.ContainsFunc(types, func(w events.Type) bool { return w.Kind == r.kind }) {
			found = append(found, fmt.Sprintf("%s has a rule and no row in pkg/events/kind.go", r.kind))
		}
	}
	for _, w := range types {
		switch {
		case w.Origin == events.Decided && count[w.Kind] == 0 && looks[w.Author] == nil:
			found = append(found, fmt.Sprintf("%s is decided by the %s, which has no look at a run: add a rule to internal/replay, or make it events.Recorded", w.Kind, w.Author))
		case w.Origin != events.Decided && count[w.Kind] > 0:
			found = append(found, fmt.Sprintf("%s has a rule, and its row in pkg/events is not events.Decided", w.Kind))
		}
	}
	return found
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := slices.Concat(plannerRules, gatekeeperRules, executorRules, toolrunnerRules)
	t.Run("PLUS-6 EVT-13 each event type that is decided can be decided again", func(t *testing.T) {
		t.Parallel()
		for _, gap := range gaps(events.Registry(), rules) {
			t.Error(gap)
		}
	})
	t.Run("PLUS-6 EVT-13 a decided type without a rule is named, one that a look or no one decides needs none", func(t *testing.T) {
		t.Parallel()
		with := func(by events.Service, from events.Origin) []events.Type {
			return append(slices.Clone(events.Registry()), events.Type{Kind: "note.taken", Author: by, Origin: from})
		}
		a := rule{kind: "note.taken"}
		for want, got := range map[string][]string{
			"note.taken is decided by the toolrunner":   gaps(with(events.Toolrunner, events.Decided), rules),
			"note.taken is decided by the persister":    gaps(with(events.Persister, events.Decided), rules),
			"note.taken has a rule, and its row":        gaps(with(events.Planner, events.Recorded), append(slices.Clone(rules), a)),
			"note.taken has a rule and no row":          gaps(events.Registry(), append(slices.Clone(rules), a)),
			"call.started is decided by the toolrunner": gaps(events.Registry(), rules[:len(rules)-len(toolrunnerRules)]),
		} {
			if len(got) == 0 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		for _, by := range []events.Service{events.Planner, events.Gatekeeper, events.Executor} {
			if got := gaps(with(by, events.Decided), rules); len(got) > 0 {
				t.Errorf("%s: %q", by, got)
			}
		}
	})
}
