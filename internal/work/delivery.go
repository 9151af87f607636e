package work

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Seen is what there is to see of a delivery, beside the log of its item: what the run of the binding did in git, what
// became of the notices, and what became of the branch in its merge queue. Each is nil until it is known.
type Seen struct {
	Run      *events.Delivery
	Verified bool
	Notices  []events.DeliveryNotice
	Entry    *events.QueueEntry
}

// Delivers reports whether a delivery of the binding is under way: then only its end ends the binding.
func (s State) Delivers() bool {
	return s.Binding != nil && s.Delivery != nil && s.Delivery.Epoch == s.Binding.Epoch &&
		s.Delivery.Phase != events.DeliveryIsBounced
}

func (s State) delivering() *Refused {
	return &Refused{Running, fmt.Sprintf("work item %q is being delivered (%s)", s.ID, s.Delivery.Phase), s.wayOn()}
}

// wayOn says what there is to do about a delivery that is under way.
func (s State) wayOn() string {
	if s.Delivery.Phase == events.DeliveryIsNotified && s.Delivery.Queue != "" {
		return fmt.Sprintf("wait for the merge queue, or take it out: inspan queue drop %s %s", s.Delivery.Queue, s.ID)
	}
	return "wait for its end: inspan work show " + s.ID
}

// Deliver takes the next step of a delivery, at most one event: the phase that comes next where what was seen shows
// that it is done, or the end of a delivery that cannot succeed. It begins with the end of the run of a binding that is
// to be delivered; it changes nothing where what comes next was not seen.
func Deliver(s State, epoch int, run string, seen Seen, now time.Time) State {
	b := s.Binding
	if !s.Holds(epoch, run) || !b.Started || b.Deliver == nil {
		return s
	}
	if !s.Delivers() {
		return s.validate(seen, now)
	}
	d := s.Delivery
	switch d.Phase {
	case events.DeliveryIsValidated:
		if seen.Run == nil {
			return s
		}
		if !seen.Run.Pushed || seen.Run.Commit != d.Commit || seen.Run.Remote != b.Repo {
			return s.bounce(events.BouncedPublish,
				"the branch is not at the remote: "+orNote(seen.Run.Note, "it was not pushed"), now)
		}
		return s.then(&events.DeliveryPublishedData{Event: "delivery_published", Epoch: epoch, Remote: seen.Run.Remote,
			Branch: seen.Run.RemoteBranch, Commit: d.Commit}, now)
	case events.DeliveryIsPublished:
		return s.review(seen, now)
	case events.DeliveryIsReviewed:
		if len(seen.Notices) == 0 {
			return s
		}
		return s.then(&events.DeliveryNotifiedData{Event: "delivery_notified", Epoch: epoch, Notices: seen.Notices}, now)
	case events.DeliveryIsNotified:
		if d.Queue != "" {
			return s.fate(seen.Entry, now)
		}
		return s.close(fmt.Sprintf("%s is at the remote at %.12s", d.RemoteBranch, d.Commit), now)
	case events.DeliveryIsLanded:
		return s.close(fmt.Sprintf("landed on %s at %.12s", d.Target, d.Landed), now)
	case events.DeliveryIsClosed:
		return s.then(&events.DeliveryReleasedData{Event: "delivery_released", Epoch: epoch, Run: run,
			Notices: seen.Notices}, now)
	case events.DeliveryIsReleased, events.DeliveryIsBounced:
	}
	return s
}

// review records the request for a review that was asked for, or the branch where none was.
func (s State) review(seen Seen, now time.Time) State {
	d := &events.DeliveryReviewedData{Event: "delivery_reviewed", Epoch: s.Binding.Epoch,
		Review: events.ReviewRequest{How: events.ReviewBranch}}
	if s.Binding.Deliver.Asks() {
		switch {
		case seen.Run == nil:
			return s
		case seen.Run.Review == nil || seen.Run.Review.How != s.Binding.Deliver.Review:
			return s.bounce(events.BouncedReview, orNote(seen.Run.Note, "no review was asked for"), now)
		}
		d.Review = *seen.Run.Review
	}
	return s.then(d, now)
}

func orNote(note, otherwise string) string {
	if note != "" {
		return note
	}
	return otherwise
}

// validate begins a delivery whose run is complete: it has a commit of its own.
func (s State) validate(seen Seen, now time.Time) State {
	r, b := seen.Run, s.Binding
	if r == nil {
		return s
	}
	if r.Branch == "" || r.Commit == "" || r.Commit == r.Base {
		return s.bounce(events.BouncedNothing, orNote(r.Note, "the run has no new commit"), now)
	}
	return s.then(&events.DeliveryValidatedData{Event: "delivery_validated", Epoch: b.Epoch, Run: b.Run, Branch: r.Branch,
		Commit: r.Commit,
		Base:   r.Base, Tree: r.Tree, Verified: seen.Verified, Queue: b.Deliver.Queue}, now)
}

// fate is what became of the branch in its merge queue.
func (s State) fate(e *events.QueueEntry, now time.Time) State {
	d := s.Delivery
	if e == nil || e.Work != s.ID || e.Epoch != d.Epoch || e.EndedAt.IsZero() {
		return s
	}
	if e.State == events.EntryIsLanded {
		return s.then(&events.DeliveryLandedData{Event: "delivery_landed", Epoch: d.Epoch, Queue: d.Queue, Target: e.Target,
			Commit:  e.Landed,
			Removed: e.Removed, Kept: e.Kept}, now)
	}
	return s.bounce(e.Code, e.Reason, now)
}

func (s State) close(reason string, now time.Time) State {
	return s.then(&events.DeliveryClosedData{Event: "delivery_closed", Epoch: s.Binding.Epoch, Reason: clip(reason)}, now)
}

func (s State) bounce(code, reason string, now time.Time) State {
	d := &events.DeliveryBouncedData{Event: "delivery_bounced", Epoch: s.Binding.Epoch, Run: s.Binding.Run, Code: code,
		Reason: clip(reason)}
	if s.Delivers() {
		d.Queue = s.Delivery.Queue
	}
	return s.then(d, now)
}

// OwesNotice reports whether a delivery bounced and the notices of that are not recorded.
func (s State) OwesNotice() bool {
	d := s.Delivery
	return d != nil && d.Phase == events.DeliveryIsBounced && d.Wants != nil && len(d.Notices) == 0
}

// Notify records the notices of a delivery that bounced; it changes nothing where they are recorded.
func Notify(s State, epoch int, notices []events.DeliveryNotice, now time.Time) State {
	if !s.OwesNotice() || s.Delivery.Epoch != epoch {
		return s
	}
	return s.then(&events.DeliveryNotifiedData{Event: "delivery_notified", Epoch: epoch, Notices: notices}, now)
}

// bouncedBrief is why the last delivery of an item bounced, as its next agent reads it.
func bouncedBrief(d events.WorkDelivery) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The work was delivered before and did not land (%s). The branch %q has it, at %.12s. The reason, as data:\n", d.Code, d.Branch, d.Commit)
	quote(&b, d.Reason)
	return strings.TrimSuffix(b.String(), "\n")
}

func validated(s State, d *events.DeliveryValidatedData, at time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || !s.Binding.Started || s.Binding.Deliver == nil || s.Delivers() {
		return s, s.notHeld(d.Epoch)
	}
	if d.Commit == "" || d.Commit == d.Base {
		return s, fmt.Errorf("delivery %d has no new commit", d.Epoch)
	}
	s.Delivery = &events.WorkDelivery{Epoch: d.Epoch, Run: d.Run, Phase: events.DeliveryIsValidated, At: at,
		Branch: d.Branch, Commit: d.Commit,
		Base: d.Base, Tree: d.Tree, Verified: d.Verified, Queue: d.Queue, Wants: s.Binding.Deliver}
	return s, nil
}

// phase takes one phase of the delivery that is under way, which must be after the given one.
func (s State) phase(epoch int, after, to events.DeliveryPhase, at time.Time,
	change func(d *events.WorkDelivery)) (State, error) {
	if !s.Delivers() || s.Delivery.Epoch != epoch || s.Delivery.Phase != after {
		is := "none is under way"
		if s.Delivers() {
			is = fmt.Sprintf("delivery %d is %s", s.Delivery.Epoch, s.Delivery.Phase)
		}
		return s, fmt.Errorf("delivery %d is %s after %s, and %s", epoch, to, after, is)
	}
	d := *s.Delivery
	d.Phase, d.At = to, at
	change(&d)
	s.Delivery = &d
	return s, nil
}

func published(s State, d *events.DeliveryPublishedData, at time.Time) (State, error) {
	if s.Delivers() && d.Commit != s.Delivery.Commit {
		return s, fmt.Errorf("delivery %d is of %s, and the remote has %s", d.Epoch, s.Delivery.Commit, d.Commit)
	}
	return s.phase(d.Epoch, events.DeliveryIsValidated, events.DeliveryIsPublished, at, func(w *events.WorkDelivery) {
		w.Remote, w.RemoteBranch = d.Remote, d.Branch
	})
}

func reviewed(s State, d *events.DeliveryReviewedData, at time.Time) (State, error) {
	return s.phase(d.Epoch, events.DeliveryIsPublished, events.DeliveryIsReviewed, at, func(w *events.WorkDelivery) {
		r := d.Review
		w.Review = &r
	})
}

func notified(s State, d *events.DeliveryNotifiedData, at time.Time) (State, error) {
	if s.OwesNotice() && s.Delivery.Epoch == d.Epoch { // that it bounced
		w := *s.Delivery
		w.Notices = slices.Clone(d.Notices)
		s.Delivery = &w
		return s, nil
	}
	return s.phase(d.Epoch, events.DeliveryIsReviewed, events.DeliveryIsNotified, at, func(w *events.WorkDelivery) {
		w.Notices = slices.Clone(d.Notices)
	})
}

func landed(s State, d *events.DeliveryLandedData, at time.Time) (State, error) {
	if s.Delivers() && (s.Delivery.Queue != d.Queue || d.Queue == "" || d.Commit == "") {
		return s, fmt.Errorf("delivery %d is not for the merge queue %q", d.Epoch, d.Queue)
	}
	return s.phase(d.Epoch, events.DeliveryIsNotified, events.DeliveryIsLanded, at, func(w *events.WorkDelivery) {
		w.Landed, w.Target, w.Kept = d.Commit, d.Target, d.Kept
	})
}

func bounced(s State, d *events.DeliveryBouncedData, at time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || !s.Binding.Started || s.Binding.Deliver == nil {
		return s, s.notHeld(d.Epoch)
	}
	w := events.WorkDelivery{Epoch: d.Epoch, Run: d.Run, Wants: s.Binding.Deliver}
	if s.Delivers() {
		if w = *s.Delivery; w.Phase == events.DeliveryIsLanded || w.Phase == events.DeliveryIsClosed {
			return s, fmt.Errorf("delivery %d is %s", d.Epoch, w.Phase)
		}
	}
	w.Phase, w.At, w.Code, w.Reason = events.DeliveryIsBounced, at, d.Code, d.Reason
	w.Notices = nil // those of the delivery; now there are some of its end
	s.Delivery, s.Status = &w, events.WorkIsOpen
	return s.ended(events.WorkBounced, d.Code+": "+d.Reason), nil
}

func deliveryClosed(s State, d *events.DeliveryClosedData, at time.Time) (State, error) {
	after := events.DeliveryIsNotified
	if s.Delivers() && s.Delivery.Queue != "" {
		after = events.DeliveryIsLanded
	}
	s, err := s.phase(d.Epoch, after, events.DeliveryIsClosed, at, func(*events.WorkDelivery) {})
	s.Status, s.ClosedAs = events.WorkIsClosed, d.Reason
	return s, err
}

func released(s State, d *events.DeliveryReleasedData, at time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) {
		return s, s.notHeld(d.Epoch)
	}
	s, err := s.phase(d.Epoch, events.DeliveryIsClosed, events.DeliveryIsReleased, at, func(w *events.WorkDelivery) {
		w.Notices = append(slices.Clone(w.Notices), d.Notices...)
	})
	if err != nil {
		return s, err
	}
	return s.ended(events.WorkCompleted, s.ClosedAs), nil
}

// ReviewOf is the review that the run of a binding asks for; nil where it asks for none.
func ReviewOf(s State, b events.WorkBinding) *events.ReviewAsk {
	if !b.Deliver.Asks() {
		return nil
	}
	return &events.ReviewAsk{How: b.Deliver.Review, Target: b.Branch, Title: s.Spec.Title}
}
