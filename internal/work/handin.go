package work

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// HandIn has the work of the run that holds an item delivered once the run is complete, or returns a *Refused. The same
// call asks once. No run hands in what another one holds.
func HandIn(s State, d *events.DeliveryRequestedData, now time.Time) (State, error) {
	b := s.Binding
	switch {
	case !s.Holds(d.Epoch, d.Run) || !b.Started:
		return s, &Refused{BadMove, fmt.Sprintf("run %s does not hold work item %q", d.Run, s.ID),
			"only what a run holds can be handed in by it"}
	case b.HandedIn == d.Call && b.Deliver != nil:
		return s, nil
	case b.Deliver != nil:
		return s, &Refused{BadMove, fmt.Sprintf("the work of item %q is delivered once run %s is complete", s.ID, d.Run),
			"finish the work; nothing was changed"}
	case b.Repo == "":
		return s, &Refused{BadMove, fmt.Sprintf("run %s works in no repository with a remote", d.Run),
			"whoever assigns the item gives it one: inspan sling " +
				s.ID + " " + b.Agent + " --repo URL"}
	}
	d.Event = "delivery_requested"
	return s.then(d, now), nil
}

func requested(s State, d *events.DeliveryRequestedData, _ time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || !s.Binding.Started || s.Binding.Deliver != nil {
		return s, s.notHeld(d.Epoch)
	}
	b, deliver := *s.Binding, d.Deliver
	b.Deliver, b.HandedIn = &deliver, d.Call
	s.Binding = &b
	return s, nil
}
