package events

import (
	"fmt"
	"slices"
	"strings"
)

// MaxAlertTargets is how many addresses the alerts of one severity are sent to.
const MaxAlertTargets = 8

// AlertRoutes says which addresses alerts about agents are sent to, by the severity of the alert. It is the same for
// the whole station; the address that an agent names for its alerts gets them as well.
type AlertRoutes struct {
	Targets map[Severity][]string `json:"targets,omitempty"`
}

// Check returns what is wrong with routes, in words for who sets them.
func (r *AlertRoutes) Check() error {
	for severity, to := range r.Targets {
		if !slices.Contains(Severities(), severity) {
			return fmt.Errorf("%.40q is no severity: want low, medium, high or critical", severity)
		}
		if len(to) > MaxAlertTargets {
			return fmt.Errorf("%d addresses get alerts of the severity %s, the limit is %d", len(to), severity, MaxAlertTargets)
		}
		for i, a := range to {
			if err := checkNoticed(string(severity), a); err != nil {
				return err
			}
			if a == "" || slices.Contains(to[:i], a) {
				return fmt.Errorf("the address %.64q is given twice for the severity %s, or empty", a, severity)
			}
		}
	}
	return nil
}

// AlertNotice is what became of an alert at one of its targets: the message in its mailbox, or the code of why there is
// none.
type AlertNotice struct {
	To   string `json:"to"`
	Mail string `json:"mail,omitempty"`
	Code string `json:"code,omitempty"`
}

// AlertRoutedData is the payload of alert.routed.
type AlertRoutedData struct {
	Event  string      `json:"event"`
	Routes AlertRoutes `json:"routes"`
	MailBy
}

// AlertSentData is the payload of alert.sent. Bumps is how often the severity had risen.
type AlertSentData struct {
	Event  string      `json:"event"`
	Signal string      `json:"signal"`
	Bumps  int         `json:"bumps,omitempty"`
	Notice AlertNotice `json:"notice"`
}

// Kind implements Payload.
func (*AlertRoutedData) Kind() Kind { return AlertRouted }

// Kind implements Payload.
func (*AlertSentData) Kind() Kind { return AlertSent }

func (d *AlertRoutedData) line() string {
	var all []string
	for _, severity := range Severities() {
		if to := d.Routes.Targets[severity]; len(to) > 0 {
			all = append(all, string(severity)+" to "+strings.Join(to, " "))
		}
	}
	return strings.TrimSpace("alerts go " + strings.Join(all, ", "))
}

func (d *AlertSentData) line() string {
	if d.Notice.Code != "" {
		return fmt.Sprintf("alert %s does not reach %s (%s)", d.Signal, d.Notice.To, d.Notice.Code)
	}
	return fmt.Sprintf("alert %s sent to %s as %s", d.Signal, d.Notice.To, d.Notice.Mail)
}
