package mailbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// AlertTargets are the addresses that the alert of an agent is still to be sent to: those of its severity, and the one
// that the agent names. An agent gets no alert about itself, and none is sent once somebody looks at it.
func AlertTargets(s State, routes *events.AlertRoutes) (all []string) {
	a := s.Life.Alert
	if a == nil || a.SeenBy != "" {
		return nil
	}
	add := func(to string) {
		if to != "" && to != s.Address && !slices.Contains(all, to) && !sentTo(*a, to) {
			all = append(all, to)
		}
	}
	add(s.Spec.Escalate)
	if routes != nil {
		for _, to := range routes.Targets[a.Severity] {
			add(to)
		}
	}
	return all
}

func sentTo(a events.AgentAlert, to string) bool {
	return slices.ContainsFunc(a.Sent, func(n events.AlertNotice) bool { return n.To == to })
}

// AlertSent records what became of an alert at one of its targets; it changes nothing where that is recorded, or the
// alert is another one by now.
func AlertSent(s State, of events.AgentAlert, n events.AlertNotice, now time.Time) State {
	a := s.Life.Alert
	if a == nil || a.Signal != of.Signal || a.Epoch != of.Epoch || a.Bumps != of.Bumps || sentTo(*a, n.To) {
		return s
	}
	return s.then(&events.AlertSentData{Event: "alert_sent", Signal: a.Signal, Bumps: a.Bumps, Notice: n}, now)
}

// AlertMail is the message that tells of an alert. Its id is the same each time that it is sent.
func AlertMail(s State, to, id string, now time.Time) events.Mail {
	a := s.Life.Alert
	priority := map[events.Severity]string{events.SeverityCritical: "urgent", events.SeverityHigh: "high",
		events.SeverityLow: "low"}[a.Severity]
	return MailOf(events.MailDraft{Subject: fmt.Sprintf("Alert %s of %s: %s", a.Severity, s.Address, a.Signal),
		Priority: priority,
		Body: fmt.Sprintf("The agent %s needs somebody, since %s: %s\n%s\ninspan agents seen %s says that you look at it.",
			s.Address, a.Since.UTC().Format(time.RFC3339), a.Signal, a.Text, s.Address)}, id, "@supervision", to, now)
}

func routed(s State, d *events.AlertRoutedData, _ time.Time) (State, error) {
	if s.Form != events.EveryAddress {
		return s, fmt.Errorf("the routes of alerts are of all agents")
	}
	if s.Life.Routes = nil; len(d.Routes.Targets) > 0 {
		r := d.Routes
		s.Life.Routes = &r
	}
	return s.took(d.MailBy), nil
}

func alertSent(s State, d *events.AlertSentData, _ time.Time) (State, error) {
	a := s.Life.Alert
	if a == nil || a.Signal != d.Signal || a.Bumps != d.Bumps || d.Notice.To == "" || sentTo(*a, d.Notice.To) {
		return s, fmt.Errorf("alert %s sent to %.64q, and it is %+v", d.Signal, d.Notice.To, a)
	}
	next := *a
	next.Sent = append(slices.Clone(a.Sent), d.Notice)
	s.Life.Alert = &next
	return s, nil
}
