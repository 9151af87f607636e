package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// lineGaps returns what is wrong between the registered event types and their lines: each names the type.
func lineGaps(types []events.Type, rows []lineRow) []string {
	found, count := counted("line", types, rows)
	for _, w := range types {
		switch {
		case w.Line == nil && count[w.Kind] == 0:
			found = append(found, fmt.Sprintf("%s has no line of text: give its row in pkg/events a Line, or add a row to lineRows of internal/core/view", w.Kind))
		case w.Line != nil && count[w.Kind] > 0:
			found = append(found, fmt.Sprintf("%s has a line in pkg/events and another in lineRows", w.Kind))
		}
	}
	return found
}

// nodeGaps is lineGaps for what events do to the tree.
func nodeGaps(types []events.Type, rows []nodeRow) []string {
	found, count := counted("tree", types, rows)
	for _, w := range types {
		shown := w.Shown&events.InTree != 0
		switch {
		case shown && count[w.Kind] == 0:
			found = append(found, fmt.Sprintf("%s changes the tree (events.InTree) and has no row in nodeRows of internal/core/view", w.Kind))
		case !shown && count[w.Kind] > 0:
			found = append(found, fmt.Sprintf("%s has a row in nodeRows, and its row in pkg/events lacks events.InTree", w.Kind))
		}
	}
	return found
}

func counted[V any](what string, types []events.Type, rows []row[V]) (found []string, count map[events.Kind]int) {
	count = map[events.Kind]int{}
	for _, r := range rows {
		count[r.kind]++
		if count[r.kind] == 2 {
			found = append(found, fmt.Sprintf("%s has two %s rows", r.kind, what))
		}
		if !slices.ContainsFunc(types, func(w events.Type) bool { return w.Kind == r.kind }) {
			found = append(found, fmt.Sprintf("%s has a %s row and none in pkg/events/kind.go", r.kind, what))
		}
	}
	return found, count
}

func TestRows(t *testing.T) {
	t.Parallel()
	t.Run("EVT-12 EVT-13 each event type has one line, and those that change the tree have a row for it", func(t *testing.T) {
		t.Parallel()
		for _, gap := range slices.Concat(lineGaps(events.Registry(), lineRows), nodeGaps(events.Registry(), nodeRows)) {
			t.Error(gap)
		}
	})
	t.Run("EVT-13 a type without a line or a row of the tree is named", func(t *testing.T) {
		t.Parallel()
		const made = "note.taken"
		with := func(w events.Type) []events.Type { return append(slices.Clone(events.Registry()), w) }
		text := func(events.Payload) string { return "a note" }
		aLine, aNode := lineRow{made, text}, nodeRow{made, func(*Tree, events.Event, events.Payload) {}}
		for want, got := range map[string][]string{
			"note.taken has no line of text":                lineGaps(with(events.Type{Kind: made}), lineRows),
			"note.taken has a line in pkg/events and anoth": lineGaps(with(events.Type{Kind: made, Line: text}), append(slices.Clone(lineRows), aLine)),
			"note.taken has a line row and none in pkg/eve": lineGaps(events.Registry(), append(slices.Clone(lineRows), aLine)),
			"note.taken has two line rows":                  lineGaps(with(events.Type{Kind: made}), append(slices.Clone(lineRows), aLine, aLine)),
			"note.taken changes the tree (events.InTree) a": nodeGaps(with(events.Type{Kind: made, Shown: events.InLog | events.InTree}), nodeRows),
			"note.taken has a row in nodeRows, and its row": nodeGaps(with(events.Type{Kind: made, Shown: events.InLog}), append(slices.Clone(nodeRows), aNode)),
		} {
			if len(got) == 0 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		for name, got := range map[string][]string{
			"a line in pkg/events": lineGaps(with(events.Type{Kind: made, Line: text}), lineRows),
			"a line here":          lineGaps(with(events.Type{Kind: made}), append(slices.Clone(lineRows), aLine)),
			"no tree":              nodeGaps(with(events.Type{Kind: made, Shown: events.InLog}), nodeRows),
			"a tree":               nodeGaps(with(events.Type{Kind: made, Shown: events.InTree}), append(slices.Clone(nodeRows), aNode)),
		} {
			if len(got) > 0 {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}
