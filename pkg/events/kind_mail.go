package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// AgentAggregate is the name of the aggregates that are addresses with their mailboxes, as it stands in subjects.
const AgentAggregate = "agent"

// The kinds of the events of an address.
const (
	AgentRegistered Kind = "agent.registered"
	AgentChanged    Kind = "agent.changed"
	AgentWoken      Kind = "agent.woken"
	AgentStarted    Kind = "agent.started"
	AgentEnded      Kind = "agent.ended"
	MailSent        Kind = "mail.sent"
	MailAcked       Kind = "mail.acked"
	MailClaimed     Kind = "mail.claimed"
	MailReturned    Kind = "mail.returned"
	MailExpired     Kind = "mail.expired"
	AgentReady      Kind = "agent.ready"
	AgentAsked      Kind = "agent.asked"
	AgentHandedOff  Kind = "agent.handed-off"
	AgentStopped    Kind = "agent.stopped"
	AgentResumed    Kind = "agent.resumed"
	AlertRaised     Kind = "alert.raised"
	AlertAcked      Kind = "alert.acked"
	AlertCleared    Kind = "alert.cleared"
	AgentTiered     Kind = "agent.tiered"
	AgentAdmitted   Kind = "agent.admitted"
	AgentAssigned   Kind = "agent.assigned"
	AlertRouted     Kind = "alert.routed"
	AlertSent       Kind = "alert.sent"
	MailNoticed     Kind = "mail.noticed"
)

// AgentRegistry returns the event types of addresses, in the order of an address's life.
func AgentRegistry() []Type { return agentTypes[:] }

var agentTypes = [...]Type{
	{AgentRegistered, Planner, "agent_registered", Recorded, InLog, line((*AgentRegisteredData).line),
		"The address exists: an agent, a queue, a list or a channel.",
		func() Payload { return new(AgentRegisteredData) }},
	{AgentChanged, Planner, "agent_changed", Recorded, InLog, line((*AgentChangedData).line),
		"The agent is not to be disturbed, or is again, or somebody joined or left a list or a channel.",
		func() Payload { return new(AgentChangedData) }},
	{MailSent, Planner, "mail_sent", Recorded, InLog, line((*MailSentData).line),
		"A message waits in the mailbox. That of a group names the agents that it goes to.",
		func() Payload { return new(MailSentData) }},
	{AgentWoken, Planner, "agent_woken", Recorded, InLog, line((*AgentWokenData).line),
		"A message, or work that a run before left, woke the agent: its next run is created after this, once.",
		func() Payload { return new(AgentWokenData) }},
	{AgentStarted, Planner, "agent_started", Recorded, InLog, line((*AgentStartedData).line),
		"The run exists and is the agent. It starts after this.",
		func() Payload { return new(AgentStartedData) }},
	{MailAcked, Planner, "mail_acked", Recorded, InLog, line((*MailAckedData).line),
		"Messages have left the mailbox: a turn of the run was given them, a group's were passed on, or somebody took them out.",
		func() Payload { return new(MailAckedData) }},
	{MailClaimed, Planner, "mail_claimed", Recorded, InLog, line((*MailClaimedData).line),
		"One agent has the message of a queue. No one else gets it.",
		func() Payload { return new(MailClaimedData) }},
	{MailReturned, Planner, "mail_returned", Recorded, InLog, line((*MailReturnedData).line),
		"The run that claimed messages of a queue ended before it was given them: they wait again.",
		func() Payload { return new(MailReturnedData) }},
	{MailExpired, Planner, "mail_expired", Recorded, InLog, line((*MailExpiredData).line),
		"No one was given these messages in time: they are dead.",
		func() Payload { return new(MailExpiredData) }},
	{AgentReady, Planner, "agent_ready", Recorded, InLog, line((*AgentReadyData).line),
		"The run has taken its first turn: the agent answers.",
		func() Payload { return new(AgentReadyData) }},
	{AgentAsked, Planner, "agent_asked", Recorded, InLog, line((*AgentAskedData).line),
		"The run is to make way for the next one: the agent hands off, or is restarted.",
		func() Payload { return new(AgentAskedData) }},
	{AgentHandedOff, Planner, "agent_handed_off", Recorded, InLog, line((*AgentHandedOffData).line),
		"The run has ended to make way for the next one, which is given the account of where the work stands.",
		func() Payload { return new(AgentHandedOffData) }},
	{AgentEnded, Planner, "agent_ended", Recorded, InLog, line((*AgentEndedData).line),
		"The run of the agent has ended, or could not begin: the agent is idle.",
		func() Payload { return new(AgentEndedData) }},
	{AgentStopped, Planner, "agent_stopped", Recorded, InLog, line((*AgentStoppedData).line),
		"The agent is stopped: nothing wakes it, and its run ends.",
		func() Payload { return new(AgentStoppedData) }},
	{AgentResumed, Planner, "agent_resumed", Recorded, InLog, line((*AgentResumedData).line),
		"The agent may be woken again, after a stop or after runs that failed.",
		func() Payload { return new(AgentResumedData) }},
	{AlertRaised, Planner, "alert_raised", Recorded, InLog, line((*AlertRaisedData).line),
		"The supervision of the agent found something that a person should look at, or no one looked at it for too long.",
		func() Payload { return new(AlertRaisedData) }},
	{AlertAcked, Planner, "alert_acked", Recorded, InLog, line((*AlertAckedData).line),
		"Somebody looks at the alert: it is not raised further.",
		func() Payload { return new(AlertAckedData) }},
	{AlertCleared, Planner, "alert_cleared", Recorded, InLog, line((*AlertClearedData).line),
		"What the alert was about is over.",
		func() Payload { return new(AlertClearedData) }},
	{AgentTiered, Planner, "agent_tiered", Recorded, InLog, line((*AgentTieredData).line),
		"Runs that begin from now on use the models of a tier, by the role of their agent. It is in the log of all.",
		func() Payload { return new(AgentTieredData) }},
	{AgentAdmitted, Planner, "agent_admitted", Recorded, InLog, line((*AgentAdmittedData).line),
		"An agent of a role with a quota may be at work, or waits until another one is idle. It is in the log of the role.",
		func() Payload { return new(AgentAdmittedData) }},
	{AgentAssigned, Planner, "agent_assigned", Recorded, InLog, line((*AgentAssignedData).line),
		"The agent is to be woken for a work item, or for none any more. The log of the item decides who holds it.",
		func() Payload { return new(AgentAssignedData) }},
	{AlertRouted, Planner, "alert_routed", Recorded, InLog, line((*AlertRoutedData).line),
		"Alerts of a severity go to these addresses from now on. It is in the log of all.",
		func() Payload { return new(AlertRoutedData) }},
	{AlertSent, Planner, "alert_sent", Recorded, InLog, line((*AlertSentData).line),
		"The alert is in the mailbox of one of its targets, or cannot be, and why.",
		func() Payload { return new(AlertSentData) }},
	{MailNoticed, Planner, "mail_noticed", Recorded, InLog, line((*MailNoticedData).line),
		"The agent that sent a message to a group has a notice of who refused it, or cannot have one, and why.",
		func() Payload { return new(MailNoticedData) }},
}

// LookupAgent is Lookup for the event types of addresses.
func LookupAgent(k Kind) (Type, bool) { return lookup(agentTypes[:], k) }

// MailBy is who asked for a change. Input is the position of the control in the input stream, 0 where a planner
// decided.
type MailBy struct {
	Input  uint64 `json:"input,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// AgentRegisteredData is the payload of agent.registered.
type AgentRegisteredData struct {
	Event   string      `json:"event"`
	Address string      `json:"address"`
	Spec    AddressSpec `json:"spec"`
	MailBy
}

// AgentChangedData is the payload of agent.changed. One of Quiet, Join and Leave is set.
type AgentChangedData struct {
	Event string `json:"event"`
	Quiet *bool  `json:"quiet,omitempty"`
	Join  string `json:"join,omitempty"`
	Leave string `json:"leave,omitempty"`
	MailBy
}

// MailSentData is the payload of mail.sent.
type MailSentData struct {
	Event string `json:"event"`
	Mail  Mail   `json:"mail"`
	// Members are the agents that a message to a group goes to, as they were when it came.
	Members []string `json:"members,omitempty"`
	MailBy
}

// AgentWokenData is the payload of agent.woken.
type AgentWokenData struct {
	Event string `json:"event"`
	// Epoch is one more than that of the run before.
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// Mail is the id of the most urgent message that waits; empty where none does, and the run goes on with the account of
	// the run before. Account is the epoch of that account.
	Mail      string    `json:"mail"`
	Account   int       `json:"account,omitempty"`
	Model     string    `json:"model,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	// Role is the role of the agent as it was then: a change of it never changes a run that was woken.
	Role *AgentRole `json:"role,omitempty"`
	// Work is the binding of the item that the run is to have.
	Work *WorkRef `json:"work,omitempty"`
}

// AgentStartedData is the payload of agent.started.
type AgentStartedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
}

// MailAckedData is the payload of mail.acked. Run is that whose turn was given them. Refused are the members of a group
// that did not take the message. Owed is true where the sender of that is an agent, which is to be given a notice.
type MailAckedData struct {
	Event   string        `json:"event"`
	IDs     []string      `json:"ids"`
	Run     string        `json:"run,omitempty"`
	Refused []MailRefusal `json:"refused,omitempty"`
	Owed    bool          `json:"owed,omitempty"`
	MailBy
}

// MailRefusal is why a member of a group did not take a message.
type MailRefusal struct {
	To   string `json:"to"`
	Code string `json:"code"`
}

// MailNoticedData is the payload of mail.noticed: Mail is the notice about the message ID in the mailbox of its sender,
// or Code why there is none.
type MailNoticedData struct {
	Event string `json:"event"`
	ID    string `json:"id"`
	To    string `json:"to"`
	Mail  string `json:"mail,omitempty"`
	Code  string `json:"code,omitempty"`
}

// MailClaimedData is the payload of mail.claimed: the agent, and the call of its run that asked.
type MailClaimedData struct {
	Event string `json:"event"`
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Run   string `json:"run"`
	Call  string `json:"call"`
}

// MailReturnedData is the payload of mail.returned.
type MailReturnedData struct {
	Event string   `json:"event"`
	IDs   []string `json:"ids"`
	Run   string   `json:"run"`
}

// MailExpiredData is the payload of mail.expired.
type MailExpiredData struct {
	Event string   `json:"event"`
	IDs   []string `json:"ids"`
}

// AgentEndedData is the payload of agent.ended.
type AgentEndedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	Run   string `json:"run"`
	// Code is completed, failed, expired, or that of a refusal; NotBefore is when the agent is woken again after a
	// failure.
	Code      string    `json:"code"`
	Reason    string    `json:"reason,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// Account is what the next run is given of this one, where that goes on with its work.
	Account *AgentAccount `json:"account,omitempty"`
}

// Kind implements Payload.
func (*AgentRegisteredData) Kind() Kind { return AgentRegistered }

// Kind implements Payload.
func (*AgentChangedData) Kind() Kind { return AgentChanged }

// Kind implements Payload.
func (*MailSentData) Kind() Kind { return MailSent }

// Kind implements Payload.
func (*AgentWokenData) Kind() Kind { return AgentWoken }

// Kind implements Payload.
func (*AgentStartedData) Kind() Kind { return AgentStarted }

// Kind implements Payload.
func (*MailAckedData) Kind() Kind { return MailAcked }

// Kind implements Payload.
func (*MailNoticedData) Kind() Kind { return MailNoticed }

// Kind implements Payload.
func (*MailClaimedData) Kind() Kind { return MailClaimed }

// Kind implements Payload.
func (*MailReturnedData) Kind() Kind { return MailReturned }

// Kind implements Payload.
func (*MailExpiredData) Kind() Kind { return MailExpired }

// Kind implements Payload.
func (*AgentEndedData) Kind() Kind { return AgentEnded }

func (d *AgentRegisteredData) line() string {
	return strings.TrimSpace(fmt.Sprintf("address %s registered %s", d.Address, d.Spec.Agent))
}

func (d *AgentChangedData) line() string {
	switch {
	case d.Quiet != nil && *d.Quiet:
		return "not to be disturbed"
	case d.Quiet != nil:
		return "may be disturbed"
	case d.Join != "":
		return d.Join + " joined"
	}
	return d.Leave + " left"
}

func (d *MailSentData) line() string {
	return fmt.Sprintf("mail %s from %s, %s: %s", d.Mail.ID, d.Mail.From, d.Mail.Priority, d.Mail.Subject)
}

func (d *AgentWokenData) line() string {
	switch {
	case d.Work != nil:
		return fmt.Sprintf("work item %s: run %s is to begin (epoch %d)", d.Work.Work, d.Run, d.Epoch)
	case d.Mail == "":
		return fmt.Sprintf("run %s is to go on where the run of epoch %d ended (epoch %d)", d.Run, d.Account, d.Epoch)
	}
	return fmt.Sprintf("mail %s wakes the agent: run %s is to begin (epoch %d)", d.Mail, d.Run, d.Epoch)
}

func (d *AgentStartedData) line() string {
	return fmt.Sprintf("run %s is the agent (epoch %d)", d.Run, d.Epoch)
}

func (d *MailAckedData) line() string {
	return fmt.Sprintf("mail %s acknowledged by %s", strings.Join(d.IDs, ", "), cmp.Or(d.Run, d.By, "the station"))
}

func (d *MailNoticedData) line() string {
	if d.Code != "" {
		return fmt.Sprintf("mail %s was refused, and %s cannot be given a notice (%s)", d.ID, d.To, d.Code)
	}
	return fmt.Sprintf("mail %s was refused, and %s is given the notice %s", d.ID, d.To, d.Mail)
}

func (d *MailClaimedData) line() string {
	return fmt.Sprintf("mail %s claimed by %s in run %s", d.ID, d.Agent, d.Run)
}

func (d *MailReturnedData) line() string {
	return fmt.Sprintf("mail %s returned by run %s", strings.Join(d.IDs, ", "), d.Run)
}

func (d *MailExpiredData) line() string { return "mail expired: " + strings.Join(d.IDs, ", ") }

func (d *AgentEndedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("run %s has ended (%s) %s", d.Run, d.Code, d.Reason))
}
