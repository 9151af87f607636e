package events

import (
	"fmt"
	"strings"
	"time"
)

// AgentReadyData is the payload of agent.ready.
type AgentReadyData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
}

// AgentAskedData is the payload of agent.asked. Call is that of the run, where the agent itself asked.
type AgentAskedData struct {
	Event   string `json:"event"`
	Order   string `json:"order"`
	Epoch   int    `json:"epoch"`
	Run     string `json:"run"`
	Call    string `json:"call,omitempty"`
	Summary string `json:"summary,omitempty"`
	MailBy
}

// AgentHandedOffData is the payload of agent.handed-off. The epoch of the account is over: the next one begins with it.
type AgentHandedOffData struct {
	Event   string       `json:"event"`
	Account AgentAccount `json:"account"`
}

// AgentStoppedData is the payload of agent.stopped.
type AgentStoppedData struct {
	Event string `json:"event"`
	MailBy
}

// AgentResumedData is the payload of agent.resumed.
type AgentResumedData struct {
	Event string `json:"event"`
	MailBy
}

// AlertRaisedData is the payload of alert.raised. Bumps counts how often the severity rose because no one looked.
type AlertRaisedData struct {
	Event    string    `json:"event"`
	Signal   string    `json:"signal"`
	Severity Severity  `json:"severity"`
	Epoch    int       `json:"epoch"`
	Run      string    `json:"run,omitempty"`
	Text     string    `json:"text,omitempty"`
	Since    time.Time `json:"since"`
	Bumps    int       `json:"bumps,omitempty"`
}

// AlertAckedData is the payload of alert.acked.
type AlertAckedData struct {
	Event  string `json:"event"`
	Signal string `json:"signal"`
	MailBy
}

// AlertClearedData is the payload of alert.cleared.
type AlertClearedData struct {
	Event  string `json:"event"`
	Signal string `json:"signal"`
}

// AgentTieredData is the payload of agent.tiered.
type AgentTieredData struct {
	Event string    `json:"event"`
	Tier  AgentTier `json:"tier"`
	MailBy
}

// Kind implements Payload.
func (*AgentTieredData) Kind() Kind { return AgentTiered }

func (d *AgentTieredData) line() string {
	return fmt.Sprintf("tier %s for %d roles, set by %s", d.Tier.Name, len(d.Tier.Models), d.By)
}

// Kind implements Payload.
func (*AgentReadyData) Kind() Kind { return AgentReady }

// Kind implements Payload.
func (*AgentAskedData) Kind() Kind { return AgentAsked }

// Kind implements Payload.
func (*AgentHandedOffData) Kind() Kind { return AgentHandedOff }

// Kind implements Payload.
func (*AgentStoppedData) Kind() Kind { return AgentStopped }

// Kind implements Payload.
func (*AgentResumedData) Kind() Kind { return AgentResumed }

// Kind implements Payload.
func (*AlertRaisedData) Kind() Kind { return AlertRaised }

// Kind implements Payload.
func (*AlertAckedData) Kind() Kind { return AlertAcked }

// Kind implements Payload.
func (*AlertClearedData) Kind() Kind { return AlertCleared }

func (d *AgentReadyData) line() string {
	return fmt.Sprintf("run %s answers (epoch %d)", d.Run, d.Epoch)
}

func (d *AgentAskedData) line() string {
	by := d.By
	if d.Call != "" {
		by = "its call " + d.Call
	}
	return fmt.Sprintf("%s of run %s (epoch %d) asked by %s", d.Order, d.Run, d.Epoch, by)
}

func (d *AgentHandedOffData) line() string {
	a := d.Account
	return strings.TrimSpace(fmt.Sprintf("run %s hands off (%s, epoch %d): %s", a.Run, a.Cause, a.Epoch,
		strings.Join(strings.Fields(a.Summary), " ")))
}

func (d *AgentStoppedData) line() string { return "stopped by " + d.By }

func (d *AgentResumedData) line() string { return "started by " + d.By }

func (d *AlertRaisedData) line() string {
	return fmt.Sprintf("alert %s (%s) since %s: %s", d.Signal, d.Severity, d.Since.UTC().Format(time.RFC3339), d.Text)
}

func (d *AlertAckedData) line() string { return d.By + " looks at the alert " + d.Signal }

func (d *AlertClearedData) line() string { return "alert " + d.Signal + " is over" }

// AgentAdmittedData is the payload of agent.admitted: who of the role is at work from now on, and who waits.
type AgentAdmittedData struct {
	Event string `json:"event"`
	RoleQuota
}

// Kind implements Payload.
func (*AgentAdmittedData) Kind() Kind { return AgentAdmitted }

func (d *AgentAdmittedData) line() string {
	text := fmt.Sprintf("%d of %d at work", len(d.Working), d.Max)
	if len(d.Waiting) > 0 {
		text += ", waiting: " + strings.Join(d.Waiting, ", ")
	}
	return text
}

// AgentAssignedData is the payload of agent.assigned. Work is nil where the item that the agent had is not its any
// more.
type AgentAssignedData struct {
	Event string   `json:"event"`
	Work  *WorkRef `json:"work,omitempty"`
}

// Kind implements Payload.
func (*AgentAssignedData) Kind() Kind { return AgentAssigned }

func (d *AgentAssignedData) line() string {
	if d.Work == nil {
		return "the agent has no work item"
	}
	return fmt.Sprintf("the agent is to work on item %s (binding %d)", d.Work.Work, d.Work.Epoch)
}
