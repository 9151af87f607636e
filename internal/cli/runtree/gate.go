package runtree

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/view"
)

// Expiry is when a gate expires, in words.
func Expiry(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case now.After(at):
		return "now"
	}
	return "in " + view.Span(at.Sub(now))
}

// GateTerms is the votes and the expiry of a gate that waits, where it has any.
func GateTerms(votes, approvers int, expires, now time.Time) string {
	text := ""
	if approvers > 1 {
		text = fmt.Sprintf(" · %d of %d approvals", votes, approvers)
	}
	if !expires.IsZero() {
		text += " · expires " + Expiry(expires, now)
	}
	return text
}
