package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ways of asking for a review. ReviewBranch asks no one: the branch at the remote is what reviewers look at.
const (
	ReviewBranch = "branch"
	ReviewGitHub = "github"
	ReviewGitLab = "gitlab"
)

// Reviews lists the ways of asking for a review.
func Reviews() []string { return []string{ReviewBranch, ReviewGitHub, ReviewGitLab} }

// WorkDeliver has the work of a binding delivered when its run has completed.
type WorkDeliver struct {
	// Queue is the merge queue that lands the branch; empty leaves it at the remote.
	Queue string `json:"queue,omitempty"`
	// Review is how a review is asked for; empty is ReviewBranch.
	Review string `json:"review,omitempty"`
	// ReviewTo and Oversight are the addresses that get the two notices; empty are those of the queue.
	ReviewTo  string `json:"review_to,omitempty"`
	Oversight string `json:"oversight,omitempty"`
	// Maker is the address of the agent that makes the work: it is told when that lands or bounces. Empty is the address
	// of the run, where it has one.
	Maker string `json:"maker,omitempty"`
}

// Check returns what is wrong with how work is to be delivered, in words for whoever asked for it.
func (d *WorkDeliver) Check() error {
	if d == nil {
		return nil
	}
	var err error
	if d.Queue != "" {
		err = CheckID("queue", d.Queue)
	}
	if d.Review != "" && !slices.Contains(Reviews(), d.Review) {
		err = firstOf(err, fmt.Errorf("review %.40q is none of %s", d.Review, strings.Join(Reviews(), ", ")))
	}
	return firstOf(err, checkNoticed("review_to", d.ReviewTo), checkNoticed("oversight", d.Oversight),
		checkNoticed("maker", d.Maker))
}

// Asks reports whether a forge is asked for a review.
func (d *WorkDeliver) Asks() bool { return d != nil && d.Review != "" && d.Review != ReviewBranch }

// checkNoticed returns what is wrong with an address that gets notices; empty is none.
func checkNoticed(what, address string) error {
	if address == "" {
		return nil
	}
	form, _, err := ParseAddress(address)
	if err == nil && form == EveryAddress {
		err = errors.New("a broadcast is no address for notices")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// DeliveryPhase is the last phase of a delivery that is done.
type DeliveryPhase string

// The phases of a delivery, in their order. DeliveryLanded stands between the notices and the end where a merge queue
// lands the branch; DeliveryBounced is the end of a delivery that did not succeed.
const (
	DeliveryIsValidated DeliveryPhase = "validated"
	DeliveryIsPublished DeliveryPhase = "published"
	DeliveryIsReviewed  DeliveryPhase = "reviewed"
	DeliveryIsNotified  DeliveryPhase = "notified"
	DeliveryIsLanded    DeliveryPhase = "landed"
	DeliveryIsClosed    DeliveryPhase = "closed"
	DeliveryIsReleased  DeliveryPhase = "released"
	DeliveryIsBounced   DeliveryPhase = "bounced"
)

// ReviewRequest is a request for a review that exists, or the branch that is looked at where there is none.
type ReviewRequest struct {
	// How is one of Reviews; Number and URL are those of the request, where there is one beside the branch.
	How    string `json:"how"`
	Number int    `json:"number,omitempty"`
	URL    string `json:"url,omitempty"`
}

// The targets of the notices of a delivery. NoticeMaker is told of its end.
const (
	NoticeReview    = "review"
	NoticeOversight = "oversight"
	NoticeMaker     = "maker"
)

// DeliveryNotice is a notice of a delivery, and what became of it.
type DeliveryNotice struct {
	// Target is NoticeReview, NoticeOversight or NoticeMaker, To the address; To is empty where none is named.
	Target string `json:"target"`
	To     string `json:"to,omitempty"`
	// Mail is the id of the message in that mailbox; Code why there is none.
	Mail string `json:"mail,omitempty"`
	Code string `json:"code,omitempty"`
}

// NoAddress is the code of a notice for which no address is named.
const NoAddress = "no_address"

// WorkDelivery is how far the work of a binding was delivered. Each phase was seen to be done when it was recorded.
type WorkDelivery struct {
	Epoch int           `json:"epoch"`
	Run   string        `json:"run"`
	Phase DeliveryPhase `json:"phase"`
	At    time.Time     `json:"at"`
	// Branch and Commit are what is delivered, Base the commit that the work began with, and Tree what the checks of the
	// run have passed on, where it has any.
	Branch   string `json:"branch"`
	Commit   string `json:"commit"`
	Base     string `json:"base,omitempty"`
	Tree     string `json:"tree,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	// Remote is the address that had Commit at RemoteBranch after the push.
	Remote       string         `json:"remote,omitempty"`
	RemoteBranch string         `json:"remote_branch,omitempty"`
	Review       *ReviewRequest `json:"review,omitempty"`
	// Notices are those of the delivery, or, once it has bounced, those of that.
	Notices []DeliveryNotice `json:"notices,omitempty"`
	// Wants is what the binding asked for.
	Wants *WorkDeliver `json:"wants,omitempty"`
	Queue string       `json:"queue,omitempty"`
	// Landed is the commit of the target branch that has the work, Target that branch.
	Landed string `json:"landed,omitempty"`
	Target string `json:"target,omitempty"`
	// Kept says why the remote still has RemoteBranch once it landed; empty where it is gone.
	Kept string `json:"kept,omitempty"`
	// Code and Reason say why the delivery bounced.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Codes of a delivery that bounced, besides those of a merge queue.
const (
	// BouncedNothing: the run has no new commit. BouncedPublish: the remote has not got it.
	BouncedNothing = "nothing_to_deliver"
	BouncedPublish = "not_published"
	// BouncedReview: the forge has no request for a review of it.
	BouncedReview = "not_reviewed"
)

// WorkBounced is the code of the end of a binding whose delivery bounced.
const WorkBounced = "bounced"
