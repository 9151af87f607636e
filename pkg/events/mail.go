package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of mail, in bytes where nothing else is said.
const (
	MaxMailSubject = 256
	MaxMailBody    = 8 << 10
	MaxMailData    = 4 << 10
	MaxMailKind    = 64
	// MaxMailbox is how many messages wait in one mailbox, MaxMailboxBytes how large they are together when encoded.
	MaxMailbox      = 64
	MaxMailboxBytes = 160 << 10
	// MaxMailRate is how many messages one sender gets into one mailbox in a minute, MaxMailRates all senders together.
	MaxMailRate  = 60
	MaxMailRates = 240
	// MaxMembers is how many addresses a list or a channel has, and how many agents a broadcast reaches.
	MaxMembers = 256
	// MaxMailDone is how many messages that have left a mailbox its row still names: one of them is not taken again.
	MaxMailDone = 128
	// MaxSchemas is how many kinds of typed messages an address declares, MaxSchema the size of one schema.
	MaxSchemas = 16
	MaxSchema  = 4 << 10
	// MaxMailTerm is the longest time that a message waits, MailTerm what it is where nothing is said.
	MaxMailTerm = 30 * 24 * time.Hour
	MailTerm    = 7 * 24 * time.Hour
	// WakeTerm is how long the run of a woken agent may take to exist.
	WakeTerm = 5 * time.Minute
)

// MailPrefix is what the ids begin with that the station gives to messages. No message of an outsider may have such an
// id.
const MailPrefix = "msg-"

// MailboxRows begins the keys of the rows of addresses in the bucket of sessions.
const MailboxRows = AgentAggregate + "."

// MailRunPrefix is what the ids of the runs of woken agents begin with. No task of an outsider may have such an id.
const MailRunPrefix = "woken_"

// AddressForm says what an address stands for.
type AddressForm string

// The forms of addresses. Everyone is all agents that are registered.
const (
	AgentAddress   AddressForm = "agent"
	QueueAddress   AddressForm = "queue"
	ListAddress    AddressForm = "list"
	ChannelAddress AddressForm = "channel"
	EveryAddress   AddressForm = "all"
	// RoleAddress is where a station records which agents of a role are at work. It takes no mail.
	RoleAddress AddressForm = "role"
)

// Everyone is the address of a broadcast.
const Everyone = "all"

// groupForms are those that are written as form/name.
var groupForms = []AddressForm{QueueAddress, ListAddress, ChannelAddress}

// ParseAddress reads an address: project/role/name of an agent, queue/name, list/name, channel/name, or all. The id is
// its token in subjects. Each address has one spelling, so that no two are the same mailbox.
func ParseAddress(address string) (form AddressForm, id string, err error) {
	parts := strings.Split(address, "/")
	switch {
	case address == Everyone:
		return EveryAddress, Everyone, nil
	case len(parts) == 2 && slices.Contains(groupForms, AddressForm(parts[0])) && addressPart(parts[1]):
		form = AddressForm(parts[0])
	case len(parts) == 3 && addressPart(parts[0]) && addressPart(parts[1]) && addressPart(parts[2]):
		form = AgentAddress
	case roleAddress(parts):
		form = RoleAddress
	default:
		return "", "", fmt.Errorf("%q is not an address: want project/role/name, queue/name, list/name, channel/name or all, each part 1 to 20 of a-z 0-9 and -",
			shorten(address))
	}
	return form, strings.Join(parts, "_"), nil
}

func addressPart(s string) bool {
	return s != "" && len(s) <= 20 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// AddressOf returns the address whose token in subjects is id; ok is false where that is none.
func AddressOf(id string) (address string, ok bool) {
	address = strings.ReplaceAll(id, "_", "/")
	_, again, err := ParseAddress(address)
	return address, err == nil && again == id
}

// Mail is one message between agents and people.
type Mail struct {
	ID string `json:"id"`
	// From is the address of an agent, or @ and the name that a person gave, which is a claim.
	From string `json:"from"`
	// To is what the sender wrote: an agent, a queue, a list, a channel or all.
	To       string `json:"to"`
	Subject  string `json:"subject,omitempty"`
	Body     string `json:"body"`
	Priority string `json:"priority"`
	// Force lets an urgent message through to an agent that is not to be disturbed.
	Force bool `json:"force,omitempty"`
	// Interrupt ends the answer that the model of the agent is giving, so that the message comes at once.
	Interrupt bool   `json:"interrupt,omitempty"`
	Thread    string `json:"thread"`
	ReplyTo   string `json:"reply_to,omitempty"`
	// Kind and Data are a typed message, for programs.
	Kind string          `json:"kind,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// ExpiresAt is when it is dead unless it was given to its agent.
	SentAt    time.Time `json:"sent_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// MailDraft is a message as its sender writes it.
type MailDraft struct {
	// ID makes a message that is sent twice one message; empty lets the station give one.
	ID       string `json:"id,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Body     string `json:"body"`
	Priority string `json:"priority,omitempty"`
	Force    bool   `json:"force,omitempty"`
	// Interrupt asks that the answer which the model of the agent is giving ends for it.
	Interrupt bool            `json:"interrupt,omitempty"`
	Thread    string          `json:"thread,omitempty"`
	ReplyTo   string          `json:"reply_to,omitempty"`
	Kind      string          `json:"kind,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	// Expires is how long it may wait, such as "2h".
	Expires string `json:"expires,omitempty"`
}

// Check returns what is wrong with a draft, in words for its sender.
func (d MailDraft) Check() error {
	for what, id := range map[string]string{"id": d.ID, "thread": d.Thread, "reply_to": d.ReplyTo} {
		if id != "" {
			if err := CheckID(what, id); err != nil {
				return err
			}
		}
	}
	switch {
	case strings.TrimSpace(d.Body) == "":
		return errors.New("the body is empty")
	case d.Priority != "" && !slices.Contains(Priorities(), d.Priority):
		return fmt.Errorf("priority %.40q is none of %s", d.Priority, strings.Join(Priorities(), ", "))
	case d.Force && d.Priority != "urgent":
		return errors.New("force goes with the priority urgent")
	case d.Interrupt && d.Priority != "urgent":
		return errors.New("interrupt goes with the priority urgent")
	case d.Kind != "" && (len(d.Kind) > MaxMailKind || !ValidID(d.Kind)):
		return fmt.Errorf("kind %.80q is not an id of at most %d characters", d.Kind, MaxMailKind)
	case len(d.Data) > 0 && d.Kind == "":
		return errors.New("data goes with a kind")
	case len(d.Data) > MaxMailData:
		return fmt.Errorf("data has %d bytes, the limit is %d", len(d.Data), MaxMailData)
	}
	if d.Expires != "" {
		if t, err := time.ParseDuration(d.Expires); err != nil || t < time.Second || t > MaxMailTerm {
			return fmt.Errorf("expires %.40q: want a length of time from 1s to %s, such as 2h", d.Expires, MaxMailTerm)
		}
	}
	return firstOf(checkText("subject", d.Subject, MaxMailSubject, false), checkText("body", d.Body, MaxMailBody, true))
}

// AddressSpec is what an address is registered with.
type AddressSpec struct {
	// Agent is the definition that the agent of an address runs, Session the session that all its runs go on in; empty is
	// one of its own. Both are of agents alone.
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	// Accepts are the typed messages that are taken, each kind with the JSON Schema of its data; empty takes all kinds.
	Accepts map[string]json.RawMessage `json:"accepts,omitempty"`
	// Members are the agents of a list, and the first subscribers of a channel.
	Members []string `json:"members,omitempty"`
	// Respawn has a new run of the agent go on where one failed, without waiting for mail.
	Respawn bool `json:"respawn,omitempty"`
	// Interrupts says whose mail may end an answer of the agent's model: InterruptsOfPeople, InterruptsOfAll, or no one's
	// where it is empty.
	Interrupts string `json:"interrupts,omitempty"`
	// Escalate is the address that alerts about the agent are sent to, as mail.
	Escalate string `json:"escalate,omitempty"`
}

// Whose mail may interrupt an agent.
const (
	InterruptsOfPeople = "people"
	InterruptsOfAll    = "all"
)

// MaxInterrupts is how many messages end an answer in one run. Those after them come before the next turn, as other
// mail.
const MaxInterrupts = 32

// PendingMail is a message that waits in a mailbox. Epoch is that of the agent when it came: a run of a later one began
// after it. Members are the agents that a message to a group goes to.
type PendingMail struct {
	Mail
	Epoch   int      `json:"epoch"`
	Members []string `json:"members,omitempty"`
}

// ClaimedMail is a message of a queue that one agent has, and no one else gets.
type ClaimedMail struct {
	PendingMail
	By   string `json:"by"`
	Run  string `json:"run"`
	Call string `json:"call"`
}

// DoneMail names a message that has left a mailbox. State is acknowledged or expired. Refused are the members of a
// group that did not take it, until its sender was given a notice of that.
type DoneMail struct {
	ID      string        `json:"id"`
	From    string        `json:"from,omitempty"`
	State   string        `json:"state"`
	Run     string        `json:"run,omitempty"`
	At      time.Time     `json:"at"`
	Refused []MailRefusal `json:"refused,omitempty"`
}

// States of mail that has left its mailbox.
const (
	MailIsAcknowledged = "acknowledged"
	MailIsExpired      = "expired"
)

// MailHolder is the run that an agent is, from before the run exists until its end is recorded.
type MailHolder struct {
	// Epoch counts the runs of the address from 1.
	Epoch   int  `json:"epoch"`
	Started bool `json:"started,omitempty"`
	// Ready is true once it has taken a turn. Account is the epoch of the account that it goes on with, 0 for none.
	Ready   bool `json:"ready,omitempty"`
	Account int  `json:"account,omitempty"`
	// Model is what the tier had for its role when it was woken; empty for that of its definition.
	Model string `json:"model,omitempty"`
	// Work is the binding of the item that it was woken with.
	Work *WorkRef `json:"work,omitempty"`
	// Taken is how many messages it was given.
	Taken     int       `json:"taken,omitempty"`
	Run       string    `json:"run"`
	Since     time.Time `json:"since"`
	ExpiresAt time.Time `json:"expires_at"`
}

// AddressRef names in a run the address whose agent it is. Fresh is true where it begins without the conversation of
// its session: it was given the account of the run before in its place.
type AddressRef struct {
	Address string `json:"address"`
	Epoch   int    `json:"epoch"`
	Fresh   bool   `json:"fresh,omitempty"`
	// Env and Dir are those that its role gives it: variables of its commands, and the folder that these begin in.
	Env map[string]string `json:"env,omitempty"`
	Dir string            `json:"dir,omitempty"`
}

// MailRate is when somebody sent a message.
type MailRate struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// Mailbox is all that a station knows of an address. It is the fold of its log; the row in the bucket of sessions is a
// view.
type Mailbox struct {
	ID      string      `json:"id"`
	Address string      `json:"address"`
	Form    AddressForm `json:"form"`
	Spec    AddressSpec `json:"spec"`
	Members []string    `json:"members,omitempty"`
	// Quiet is true where the agent is not to be disturbed.
	Quiet  bool        `json:"quiet,omitempty"`
	Epoch  int         `json:"epoch"`
	Holder *MailHolder `json:"holder,omitempty"`
	// Fails counts the runs in a row that came to nothing; NotBefore is when the agent is woken again after one.
	Fails     int           `json:"fails,omitempty"`
	NotBefore time.Time     `json:"not_before,omitzero"`
	Pending   []PendingMail `json:"pending,omitempty"`
	Claimed   []ClaimedMail `json:"claimed,omitempty"`
	Done      []DoneMail    `json:"done,omitempty"`
	Recent    []MailRate    `json:"recent,omitempty"`
	By        string        `json:"by,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Life is what is known of an agent beside its mail.
	Life AgentLife `json:"life,omitzero"`
	Log  *LogHead  `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (m Mailbox) Took(input uint64) bool { return slices.Contains(m.Inputs, input) }

// MailControl is what a user publishes to register an address, and to send to one.
type MailControl struct {
	// Action is register, send, ack, dnd, join or leave, or one of an agent's life: stop, start, handoff, restart, seen.
	Action string       `json:"action"`
	Spec   *AddressSpec `json:"spec,omitempty"`
	Mail   *MailDraft   `json:"mail,omitempty"`
	// IDs go with ack: messages that wait and that no agent needs to see any more.
	IDs []string `json:"ids,omitempty"`
	// On goes with dnd.
	On *bool `json:"on,omitempty"`
	// Member goes with join and leave.
	Member string `json:"member,omitempty"`
	// Summary goes with handoff: where the work stands, for the next run.
	Summary string `json:"summary,omitempty"`
	// Tier goes with tier, which is of the address all: the models of roles from now on.
	Tier *AgentTier `json:"tier,omitempty"`
	// Routes go with routes, which is of the address all: where alerts go from now on.
	Routes *AlertRoutes `json:"routes,omitempty"`
	By     string       `json:"by,omitempty"`
	Reason string       `json:"reason,omitempty"`
}

// Check returns what is wrong with who sends a control and why.
func (c *MailControl) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }
