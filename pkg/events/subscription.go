package events

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of the subscriptions of an agent.
const (
	// MaxSubscriptions of one agent, and MaxSubscriptionText of each of their templates.
	MaxSubscriptions    = 16
	MaxSubscriptionText = 4 << 10
	// maxSubject and maxSubjectTokens bound a subject.
	maxSubject       = 256
	maxSubjectTokens = 16
)

// Subscription has each message on a subject start a run of an agent. Texts are templates over the message; see
// docs/messages.md.
type Subscription struct {
	// Subject of NATS; all tokens but the first may be wildcards.
	Subject string `json:"subject"`
	Task    string `json:"task"`
	Session string `json:"session,omitempty"`
	Repo    string `json:"repo,omitempty"`
	Ref     string `json:"ref,omitempty"`
	// Autonomy of its runs; 0 leaves it to the agent.
	Autonomy  int               `json:"autonomy,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
}

// ownSubjects are first tokens of subjects that carry what stations, their agents and NATS itself say: a run that such
// a message starts could lead to the next such message.
var ownSubjects = map[string]bool{"station": true, "inspan": true, "agents": true}

// CheckOutsideSubject returns what is wrong with a subject of messages from outside, or with a pattern of such
// subjects.
func CheckOutsideSubject(subject string) error {
	tokens := strings.Split(subject, ".")
	if subject == "" || len(subject) > maxSubject || len(tokens) > maxSubjectTokens {
		return fmt.Errorf("a subject has 1 to %d characters and %d tokens", maxSubject, maxSubjectTokens)
	}
	for i, t := range tokens {
		switch {
		case t == "":
			return errors.New("a subject has no empty token")
		case t == ">" && i < len(tokens)-1:
			return errors.New("the wildcard > is the last token")
		case t != "*" && t != ">" && strings.ContainsFunc(t, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("*>", r)
		}):
			return fmt.Errorf("the token %q has a space, a wildcard beside other characters, or is not ASCII", t)
		}
	}
	switch first := tokens[0]; {
	case first == "*" || first == ">":
		return errors.New("the first token is no wildcard: it would include what stations and NATS itself say")
	case ownSubjects[first] || first[0] == '$' || first[0] == '_':
		return fmt.Errorf("subjects below %s carry what stations and NATS itself say: a run must not start the next one",
			first)
	}
	return nil
}

// SubjectCovers reports whether a pattern matches all subjects that another one matches.
func SubjectCovers(pattern, other string) bool {
	p, o := strings.Split(pattern, "."), strings.Split(other, ".")
	for i, t := range p {
		switch {
		case t == ">":
			return len(o) > i
		case i >= len(o) || o[i] == ">":
			return false
		case t != "*" && t != o[i]:
			return false
		}
	}
	return len(p) == len(o)
}

// SubjectsOverlap reports whether a subject may match both patterns.
func SubjectsOverlap(a, b string) bool {
	p, o := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(p) || i == len(o):
			return len(p) == len(o)
		case p[i] == ">" || o[i] == ">":
			return true
		case p[i] != o[i] && p[i] != "*" && o[i] != "*":
			return false
		}
	}
}
