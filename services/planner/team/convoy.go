package team

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// convoys is the part of the assigner that closes convoys.
type convoys struct{ *Assigner }

// known refuses a convoy of items that are not there.
func (a convoys) known(ctx context.Context, convoy string, items []string) error {
	for _, id := range items {
		s, err := a.Ledger.Fresh(ctx, id)
		if err != nil {
			return fmt.Errorf("work item %s: %w", id, err)
		}
		switch {
		case id == convoy || !s.Exists():
			return kernel.Refuse(work.Unknown, "make the items first; inspan work list lists those of the station",
				"there is no work item %q", id)
		case len(s.Convoys) >= events.MaxConvoys:
			return kernel.Refuse(work.BadMove, "close one of them first", "work item %q is in %d convoys", id, len(s.Convoys))
		}
	}
	return nil
}

// look closes the convoys that an item was the last one of. A convoy is known to its items before it is looked at:
// whichever of them is closed later looks again.
func (a convoys) look(ctx context.Context, s work.State) error {
	if s.Status == events.WorkIsOpen && len(s.Spec.Items) > 0 {
		for _, id := range s.Spec.Items {
			_, err := a.Change(ctx, id, func(item work.State) (work.State, error) {
				return work.Track(item, s.ID, a.Now().UTC()), nil
			})
			if err != nil {
				return err
			}
		}
		return a.close(ctx, s.ID)
	}
	if s.Status != events.WorkIsClosed {
		return nil
	}
	for _, id := range s.Convoys {
		if err := a.close(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// close closes a convoy whose items are all closed, and looks at the convoys that it is in.
func (a convoys) close(ctx context.Context, id string) error {
	s, err := a.Change(ctx, id, func(s work.State) (work.State, error) {
		done := map[string]bool{}
		if s.Status == events.WorkIsOpen {
			for _, item := range s.Spec.Items {
				of, err := a.Ledger.Fresh(ctx, item)
				if err != nil {
					return s, fmt.Errorf("work item %s: %w", item, err)
				}
				done[item] = of.Status == events.WorkIsClosed
			}
		}
		return work.Arrived(s, func(item string) bool { return done[item] }, a.Now().UTC()), nil
	})
	if err != nil || s.Status != events.WorkIsClosed {
		return err
	}
	return a.look(ctx, s)
}
