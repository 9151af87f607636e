package view

import "github.com/inspan/inspan/pkg/events"

// row is what a view has for one event type.
type row[V any] struct {
	kind  events.Kind
	value V
}

func index[V any](rows []row[V]) map[events.Kind]V {
	byKind := make(map[events.Kind]V, len(rows))
	for _, r := range rows {
		byKind[r.kind] = r.value
	}
	return byKind
}
