package work

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Track records that an item is in a convoy, once. It changes nothing where the item is in as many as may be.
func Track(s State, convoy string, now time.Time) State {
	if !s.Exists() || slices.Contains(s.Convoys, convoy) || len(s.Convoys) >= events.MaxConvoys {
		return s
	}
	return s.then(&events.WorkTrackedData{Event: "work_tracked", Convoy: convoy}, now)
}

// Arrived closes a convoy whose items are all closed. It changes nothing where one is not.
func Arrived(s State, closed func(item string) bool, now time.Time) State {
	if len(s.Spec.Items) == 0 || s.Status != events.WorkIsOpen {
		return s
	}
	for _, item := range s.Spec.Items {
		if !closed(item) {
			return s
		}
	}
	return s.then(&events.WorkClosedData{Event: "work_closed",
		WorkBy: events.WorkBy{Reason: fmt.Sprintf("all %d items of the convoy are closed", len(s.Spec.Items))}}, now)
}

func tracked(s State, d *events.WorkTrackedData, _ time.Time) (State, error) {
	if slices.Contains(s.Convoys, d.Convoy) {
		return s, fmt.Errorf("the item is in the convoy %s already", d.Convoy)
	}
	s.Convoys = append(slices.Clone(s.Convoys), d.Convoy)
	return s, nil
}
