package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Times of a delivery that waits: for room in a merge queue, and for its entry to end, should all that brings word of
// that be lost.
const (
	deliveryAgain = 30 * time.Second
	deliveryLook  = 5 * time.Minute
)

// maxPhases is more than a delivery has.
const maxPhases = 12

// deliverer is the part of the assigner that delivers the work of bindings.
type deliverer struct{ *Assigner }

// goOn takes a delivery as far as it goes now, one phase after the other. What a phase does comes before its event,
// with ids that follow from the item: done twice it is done once.
func (a deliverer) goOn(ctx context.Context, s work.State) (work.State, error) {
	for range maxPhases {
		b := s.Binding
		if b == nil || b.Deliver == nil || !s.Delivers() {
			return s, nil
		}
		seen, err := a.see(ctx, s)
		if _, full := errors.AsType[*mergequeue.Refused](err); full {
			return s, a.Timers.Set(ctx, s.ID, expiryTimer, a.Now().UTC().Add(deliveryAgain), s.Sequence)
		}
		if err != nil {
			return s, err
		}
		before := s.Sequence
		s, err = a.Change(ctx, s.ID, func(s work.State) (work.State, error) {
			return work.Deliver(s, b.Epoch, b.Run, seen, a.Now().UTC()), nil
		})
		if err != nil {
			return s, err
		}
		if s.Sequence == before {
			return s, a.Timers.Set(ctx, s.ID, expiryTimer, a.Now().UTC().Add(deliveryLook), s.Sequence)
		}
	}
	return s, &kernel.RetryAfter{After: time.Second}
}

// see does what the next phase of a delivery needs, and returns what there is to see of it.
func (a deliverer) see(ctx context.Context, s work.State) (seen work.Seen, err error) {
	d, b := s.Delivery, s.Binding
	switch d.Phase {
	case events.DeliveryIsValidated, events.DeliveryIsPublished:
		of, err := a.runs.Fresh(ctx, b.Run)
		if err != nil {
			return seen, err
		}
		return seenOf(of), nil
	case events.DeliveryIsReviewed:
		seen.Notices, err = a.notify(ctx, s)
	case events.DeliveryIsClosed:
		seen.Notices, err = a.tellMaker(ctx, s, *b.Deliver, fmt.Sprintf("Work item %s is done", s.ID),
			fmt.Sprintf("Your work on item %s was delivered: %s.\nBranch: %s\nCommit: %s\nRun: %s", s.ID, s.ClosedAs,
				d.RemoteBranch, d.Commit, d.Run))
	case events.DeliveryIsNotified:
		if d.Queue == "" {
			return seen, nil
		}
		var e events.QueueEntry
		var there bool
		if e, there, err = a.lander.entry(ctx, d.Queue, s.ID, d.Epoch); there {
			seen.Entry = &e
		}
	default: // the log of the item has all that the other phases need
	}
	return seen, err
}

// seenOf is what a run that has completed did in git.
func seenOf(of run.State) work.Seen {
	seen := work.Seen{Run: &events.Delivery{Note: "the run did not work in git"}}
	if of.Result != nil && of.Result.Delivery != nil {
		seen.Run, seen.Verified = of.Result.Delivery, len(of.Result.Verified) > 0
	}
	return seen
}

// notify sends the two notices, and gives the branch to the merge queue. It returns a *mergequeue.Refused where that
// has no room now.
func (a deliverer) notify(ctx context.Context, s work.State) ([]events.DeliveryNotice, error) {
	d, want := s.Delivery, *s.Binding.Deliver
	spec := events.QueueSpec{}
	if d.Queue != "" {
		q, err := a.lander.enqueue(ctx, d.Queue,
			events.Queued{Work: s.ID, Epoch: d.Epoch, Run: d.Run, Agent: s.Binding.Agent, Branch: d.RemoteBranch,
				Commit: d.Commit})
		if err != nil {
			return nil, err
		}
		spec = q.Spec
	}
	subject := fmt.Sprintf("Work item %s is delivered", s.ID)
	body := fmt.Sprintf("Work item %s was delivered by agent %s.\nBranch: %s\nCommit: %s\nRepository: %s\nRun: %s", s.ID,
		s.Binding.Agent, d.RemoteBranch, d.Commit, d.Remote, d.Run)
	if d.Review != nil && d.Review.URL != "" {
		body += "\nReview: " + d.Review.URL
	}
	if d.Queue != "" {
		body += "\nMerge queue: " + d.Queue
	}
	return a.notices(ctx, s, want, spec, subject, body)
}

// notices sends the two notices of a delivery.
func (a deliverer) notices(ctx context.Context, s work.State, want events.WorkDeliver, spec events.QueueSpec, subject,
	body string) (all []events.DeliveryNotice, err error) {
	for _, n := range []events.DeliveryNotice{{Target: events.NoticeReview, To: cmp.Or(want.ReviewTo, spec.ReviewTo)},
		{Target: events.NoticeOversight, To: cmp.Or(want.Oversight, spec.Oversight)}} {
		if n, err = a.tell(ctx, s, n, subject, body); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// tellMaker sends the agent that made the work what became of it; nothing where it has no address.
func (a deliverer) tellMaker(ctx context.Context, s work.State, want events.WorkDeliver, subject,
	body string) ([]events.DeliveryNotice, error) {
	to := want.Maker
	if to == "" {
		of, err := a.runs.Fresh(ctx, s.Delivery.Run)
		if errors.Is(err, kernel.ErrHeld) || err == nil && (of.Created == nil || of.Created.Address == nil) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		to = of.Created.Address.Address
	}
	n, err := a.tell(ctx, s, events.DeliveryNotice{Target: events.NoticeMaker, To: to}, subject, body)
	return []events.DeliveryNotice{n}, err
}

// tell puts one notice into its mailbox, once; a mailbox that refuses it does not stop the delivery.
func (a deliverer) tell(ctx context.Context, s work.State, n events.DeliveryNotice, subject,
	body string) (events.DeliveryNotice, error) {
	post := a.mail
	if n.To == "" || post == nil {
		n.Code = events.NoAddress
		return n, nil
	}
	n.Mail = a.names.Message("notice", s.ID, s.Delivery.Epoch, n.Target,
		s.Delivery.Phase)
	draft := events.MailDraft{Subject: subject, Body: strings.ToValidUTF8(body[:min(len(body), events.MaxMailBody)], "")}
	m := mailbox.MailOf(draft, n.Mail, deliverySender, n.To, s.Delivery.At)
	err := post.deliver(ctx, m, n.To, func() (bool, error) { return true, nil })
	if no, refused := errors.AsType[*mailbox.Refused](err); refused {
		n.Mail, n.Code = "", no.Code
		return n, nil
	}
	return n, err
}

// deliverySender is the sender of notices of deliveries. No agent and no person can send as it.
const deliverySender = "station:delivery"

// notifyBounced sends the reason of a delivery that bounced to those who get its notices, and records that. The notices
// have ids that follow from the item: sent twice they are there once.
func (a deliverer) notifyBounced(ctx context.Context, s work.State) (work.State, error) {
	if !s.OwesNotice() {
		return s, nil
	}
	d := *s.Delivery
	spec := events.QueueSpec{}
	if d.Queue != "" {
		q, err := a.lander.Ledger.Fresh(ctx, d.Queue)
		if err != nil {
			return s, fmt.Errorf("merge queue %s: %w", d.Queue, err)
		}
		spec = q.Spec
	}
	subject := fmt.Sprintf("Work item %s bounced", s.ID)
	body := fmt.Sprintf("The delivery of work item %s bounced (%s): %s\nBranch: %s\nCommit: %s\nThe item is free. The branch is kept.",
		s.ID, d.Code, d.Reason, d.Branch, d.Commit)
	all, err := a.notices(ctx, s, *d.Wants, spec, subject, body)
	if err != nil {
		return s, err
	}
	own, err := a.tellMaker(ctx, s, *d.Wants, subject, body)
	if err != nil {
		return s, err
	}
	all = append(all, own...)
	return a.Change(ctx, s.ID, func(s work.State) (work.State, error) {
		return work.Notify(s, d.Epoch, all, a.Now().UTC()), nil
	})
}

// deliverable refuses a binding whose delivery would have nowhere to go.
func (a *Assigner) deliverable(ctx context.Context, d events.WorkDispatch) error {
	if d.Deliver == nil || d.Deliver.Queue == "" {
		return nil
	}
	if a.lander == nil {
		return kernel.Refuse(mergequeue.Unknown, "leave queue out", "this station has no merge queues")
	}
	q, err := a.lander.Ledger.Fresh(ctx, d.Deliver.Queue)
	if err != nil {
		return fmt.Errorf("merge queue %s: %w", d.Deliver.Queue, err)
	}
	if !q.Exists() {
		no := mergequeue.NotThere(d.Deliver.Queue)
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if q.Spec.Repo != d.Repo {
		return kernel.Refuse(events.LandingWrongRepo, "assign the item with --repo "+q.Spec.Repo,
			"merge queue %q lands on %s, and the work is pushed to %s", q.ID, q.Spec.Repo, d.Repo)
	}
	return nil
}
