package events

import (
	"fmt"
	"strings"
)

// The kinds of the phases of a delivery, on the log of the work item.
const (
	DeliveryRequested Kind = "delivery.requested"
	DeliveryValidated Kind = "delivery.validated"
	DeliveryPublished Kind = "delivery.published"
	DeliveryReviewed  Kind = "delivery.reviewed"
	DeliveryNotified  Kind = "delivery.notified"
	DeliveryLanded    Kind = "delivery.landed"
	DeliveryBounced   Kind = "delivery.bounced"
	DeliveryClosed    Kind = "delivery.closed"
	DeliveryReleased  Kind = "delivery.released"
)

// deliveryTypes are the event types of deliveries, in their order.
func deliveryTypes() []Type {
	return []Type{
		{DeliveryRequested, Planner, "delivery_requested", Recorded, InLog, line((*DeliveryRequestedData).line),
			"The run that holds the item hands it in: its work is delivered once the run is complete.",
			func() Payload { return new(DeliveryRequestedData) }},
		{DeliveryValidated, Planner, "delivery_validated", Recorded, InLog, line((*DeliveryValidatedData).line),
			"Phase 1 of a delivery: the run of the binding is complete, its checks passed, and it has a commit to deliver.",
			func() Payload { return new(DeliveryValidatedData) }},
		{DeliveryPublished, Planner, "delivery_published", Recorded, InLog, line((*DeliveryPublishedData).line),
			"Phase 2 of a delivery: the remote was asked after the push, and has the commit.",
			func() Payload { return new(DeliveryPublishedData) }},
		{DeliveryReviewed, Planner, "delivery_reviewed", Recorded, InLog, line((*DeliveryReviewedData).line),
			"Phase 3 of a delivery: the request for a review exists, or the branch at the remote stands for it.",
			func() Payload { return new(DeliveryReviewedData) }},
		{DeliveryNotified, Planner, "delivery_notified", Recorded, InLog, line((*DeliveryNotifiedData).line),
			"Phase 4 of a delivery: the two notices are in their mailboxes or cannot be, and the merge queue has the branch.",
			func() Payload { return new(DeliveryNotifiedData) }},
		{DeliveryLanded, Planner, "delivery_landed", Recorded, InLog, line((*DeliveryLandedData).line),
			"The merge queue landed the branch: the target branch of the remote has its commit.",
			func() Payload { return new(DeliveryLandedData) }},
		{DeliveryBounced, Planner, "delivery_bounced", Recorded, InLog, line((*DeliveryBouncedData).line),
			"The delivery did not succeed. The binding ends and the item is free again; its next agent reads why.",
			func() Payload { return new(DeliveryBouncedData) }},
		{DeliveryClosed, Planner, "delivery_closed", Recorded, InLog, line((*DeliveryClosedData).line),
			"Phase 5 of a delivery: the item is closed.",
			func() Payload { return new(DeliveryClosedData) }},
		{DeliveryReleased, Planner, "delivery_released", Recorded, InLog, line((*DeliveryReleasedData).line),
			"Phase 6 of a delivery: the binding has ended, and with its run the claim on workspace and agent.",
			func() Payload { return new(DeliveryReleasedData) }},
	}
}

// DeliveryRequestedData is the payload of delivery.requested. By is the address of the agent, or its definition; Call
// is the call of its run that asked.
type DeliveryRequestedData struct {
	Event   string      `json:"event"`
	Epoch   int         `json:"epoch"`
	Run     string      `json:"run"`
	Call    string      `json:"call"`
	Deliver WorkDeliver `json:"deliver"`
	By      string      `json:"by,omitempty"`
}

// Kind implements Payload.
func (*DeliveryRequestedData) Kind() Kind { return DeliveryRequested }

func (d *DeliveryRequestedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("%s hands in the work of run %s %s", d.By, d.Run, d.Deliver.Queue))
}

// DeliveryValidatedData is the payload of delivery.validated.
type DeliveryValidatedData struct {
	Event    string `json:"event"`
	Epoch    int    `json:"epoch"`
	Run      string `json:"run"`
	Branch   string `json:"branch"`
	Commit   string `json:"commit"`
	Base     string `json:"base,omitempty"`
	Tree     string `json:"tree,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	// Queue is the merge queue that is to land the branch.
	Queue string `json:"queue,omitempty"`
}

// DeliveryPublishedData is the payload of delivery.published.
type DeliveryPublishedData struct {
	Event  string `json:"event"`
	Epoch  int    `json:"epoch"`
	Remote string `json:"remote"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// DeliveryReviewedData is the payload of delivery.reviewed.
type DeliveryReviewedData struct {
	Event  string        `json:"event"`
	Epoch  int           `json:"epoch"`
	Review ReviewRequest `json:"review"`
}

// DeliveryNotifiedData is the payload of delivery.notified.
type DeliveryNotifiedData struct {
	Event   string           `json:"event"`
	Epoch   int              `json:"epoch"`
	Notices []DeliveryNotice `json:"notices"`
}

// DeliveryLandedData is the payload of delivery.landed.
type DeliveryLandedData struct {
	Event  string `json:"event"`
	Epoch  int    `json:"epoch"`
	Queue  string `json:"queue"`
	Target string `json:"target"`
	// Commit of the target branch that has the work.
	Commit string `json:"commit"`
	// Removed is true where the remote has the work branch no more; else Kept says why it has.
	Removed bool   `json:"removed,omitempty"`
	Kept    string `json:"kept,omitempty"`
}

// DeliveryBouncedData is the payload of delivery.bounced.
type DeliveryBouncedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// Queue is the merge queue where it bounced; empty where it did before.
	Queue  string `json:"queue,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// DeliveryClosedData is the payload of delivery.closed.
type DeliveryClosedData struct {
	Event  string `json:"event"`
	Epoch  int    `json:"epoch"`
	Reason string `json:"reason,omitempty"`
}

// DeliveryReleasedData is the payload of delivery.released.
type DeliveryReleasedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// Notices are what the maker was told, where it has an address.
	Notices []DeliveryNotice `json:"notices,omitempty"`
}

// Kind implements Payload.
func (*DeliveryValidatedData) Kind() Kind { return DeliveryValidated }

// Kind implements Payload.
func (*DeliveryPublishedData) Kind() Kind { return DeliveryPublished }

// Kind implements Payload.
func (*DeliveryReviewedData) Kind() Kind { return DeliveryReviewed }

// Kind implements Payload.
func (*DeliveryNotifiedData) Kind() Kind { return DeliveryNotified }

// Kind implements Payload.
func (*DeliveryLandedData) Kind() Kind { return DeliveryLanded }

// Kind implements Payload.
func (*DeliveryBouncedData) Kind() Kind { return DeliveryBounced }

// Kind implements Payload.
func (*DeliveryClosedData) Kind() Kind { return DeliveryClosed }

// Kind implements Payload.
func (*DeliveryReleasedData) Kind() Kind { return DeliveryReleased }

func (d *DeliveryValidatedData) line() string {
	return fmt.Sprintf("delivery %d: %s at %.12s is complete", d.Epoch, d.Branch, d.Commit)
}

func (d *DeliveryPublishedData) line() string {
	return fmt.Sprintf("delivery %d: %s has %s at %.12s", d.Epoch, d.Remote, d.Branch, d.Commit)
}

func (d *DeliveryReviewedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("delivery %d: review by %s %s", d.Epoch, d.Review.How, d.Review.URL))
}

func (d *DeliveryNotifiedData) line() string {
	var all []string
	for _, n := range d.Notices {
		what := n.To
		if n.Code != "" {
			what = strings.TrimSpace(n.To + " (" + n.Code + ")")
		}
		all = append(all, n.Target+" "+what)
	}
	return fmt.Sprintf("delivery %d: notices to %s", d.Epoch, strings.Join(all, ", "))
}

func (d *DeliveryLandedData) line() string {
	return fmt.Sprintf("delivery %d: landed on %s at %.12s by the queue %s", d.Epoch, d.Target, d.Commit, d.Queue)
}

func (d *DeliveryBouncedData) line() string {
	return fmt.Sprintf("delivery %d bounced (%s): %s", d.Epoch, d.Code, d.Reason)
}

func (d *DeliveryClosedData) line() string {
	return strings.TrimSuffix(fmt.Sprintf("delivery %d: item closed: %s", d.Epoch, d.Reason), ": ")
}

func (d *DeliveryReleasedData) line() string {
	return fmt.Sprintf("delivery %d: binding released", d.Epoch)
}
