package agentfile

import (
	"cmp"
	"fmt"

	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/pkg/events"
)

// subscribeShape is the list of subjects whose messages start runs.
func subscribeShape() shape {
	of := func() field { return acts(textUpTo(events.MaxSubscriptionText)) }
	return list(mapping(map[string]field{"subject": acts(text()), "task": of(), "task_template": of(), "session": of(),
		"repo": of(), "ref": of(), "autonomy": acts(whole(1, 5)), "variables": acts(shape{kinds: []kind{isMap},
			each: &shape{kinds: []kind{isText, isInt, isFloat, isBool}}})}), events.MaxSubscriptions)
}

// subscriptions are those of an agent. No message may start two runs of it.
func (p *parsing) subscriptions(n *node) []events.Subscription {
	if n == nil || n.kind != isList {
		return nil
	}
	var all []events.Subscription
	for _, item := range n.items {
		s := events.Subscription{Subject: item.child("subject").str(), Session: item.child("session").str(),
			Task: cmp.Or(item.child("task").str(), item.child("task_template").str()), Repo: item.child("repo").str(),
			Ref: item.child("ref").str(), Autonomy: item.child("autonomy").whole()}
		if v := item.child("variables"); v != nil {
			for _, pr := range v.pairs {
				if s.Variables == nil {
					s.Variables = map[string]string{}
				}
				s.Variables[pr.key] = pr.value.text
			}
		}
		p.subscription(item, s, all)
		all = append(all, s)
	}
	return all
}

// subscription reports what is wrong with one of several.
func (p *parsing) subscription(n *node, s events.Subscription, before []events.Subscription) {
	wrong := func(e Error) { p.failAt(n, e) }
	if err := events.CheckOutsideSubject(s.Subject); err != nil {
		wrong(Error{Code: CodeValue, Message: "the subject is none of messages from outside: " + err.Error(),
			Expected: "a subject such as orders.new or orders.*.paid", Actual: shown(s.Subject)})
	}
	for _, other := range before {
		if events.SubjectsOverlap(s.Subject, other.Subject) {
			wrong(Error{Code: CodeConflict, Message: fmt.Sprintf("a message may be on %s and on %s, and would start two runs",
				shown(s.Subject), shown(other.Subject)), Hint: "make the subjects exclude each other"})
		}
	}
	if s.Task == "" || n.child("task") != nil && n.child("task_template") != nil {
		wrong(Error{Code: CodeMissing, Message: "the subscription has no task, or two",
			Expected: "task: what to do, with values of the message as {{order.id}}"})
	}
	if len(s.Variables) > events.MaxSubscriptions {
		wrong(Error{Code: CodeLimit, Message: "there are too many variables",
			Expected: fmt.Sprintf("at most %d", events.MaxSubscriptions), Actual: fmt.Sprint(len(s.Variables))})
	}
	_, err := payload.ParseTask(payload.Texts{Task: s.Task, Session: s.Session, Repo: s.Repo, Ref: s.Ref,
		Variables: s.Variables})
	if err != nil {
		wrong(Error{Code: CodeValue, Message: "a template cannot be read: " + err.Error(),
			Hint: "{{order.id}} is the value of the message at that place, {{$subject}} its subject, {{$text}} all of it"})
	}
}
