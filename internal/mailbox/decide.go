package mailbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// ID derives the id of the run of an epoch.
type ID func(address string, epoch int) string

// Actions of an address's control subject.
const (
	Register = "register"
	Send     = "send"
	Ack      = "ack"
	DND      = "dnd"
	Join     = "join"
	Leave    = "leave"
)

// Actions lists them.
func Actions() []string {
	return []string{Register, Send, Ack, DND, Join, Leave, Stop, Start, Handoff, Restart, Seen, Tier, Routes}
}

// Codes of the end of an agent's run, besides those of refusals.
const (
	Completed = "completed"
	Failed    = "failed"
	Expired   = "expired"
)

// Wish is a control with where it came from: Input is its position in the input stream, and Mail the message that send
// asks for. Members are those of a broadcast.
type Wish struct {
	events.MailControl
	Address string
	Input   uint64
	Mail    events.Mail
	Members []string
}

// Steer carries out a control, or returns a *Refused.
func Steer(s State, w Wish, now time.Time) (State, error) {
	if s.Took(w.Input) {
		return s, nil
	}
	by := events.MailBy{Input: w.Input, By: w.By, Reason: w.Reason}
	switch {
	case w.Action == Register && s.Exists():
		return s, &Refused{Exists, fmt.Sprintf("address %s is registered", s.Address), "register another address"}
	case w.Action == Register:
		return s.then(&events.AgentRegisteredData{Event: "agent_registered", Address: w.Address, Spec: *w.Spec, MailBy: by},
			now), nil
	case !s.Exists() && (w.Address == events.Everyone && (w.Action == Send || w.Action == Tier || w.Action == Routes) ||
		w.Action == Send && isRole(w.Address)):
		s = s.then(&events.AgentRegisteredData{Event: "agent_registered", Address: w.Address}, now)
	case !s.Exists():
		return s, NotRegistered(w.Address)
	}
	switch w.Action {
	case Send:
		return Deliver(s, w.Mail, w.Members, by, now)
	case Ack:
		return take(s, w.IDs, by, now)
	case DND:
		if s.Form != events.AgentAddress {
			return s, &Refused{BadMove, s.Address + " is no agent", "dnd is of agents alone"}
		}
		return s.then(&events.AgentChangedData{Event: "agent_changed", Quiet: w.On, MailBy: by}, now), nil
	case Tier:
		return s.then(&events.AgentTieredData{Event: "agent_tiered", Tier: *w.Tier, MailBy: by}, now), nil
	case Routes:
		return s.then(&events.AlertRoutedData{Event: "alert_routed", Routes: *w.Routes, MailBy: by}, now), nil
	case Stop, Start, Handoff, Restart, Seen:
		return s.steerAgent(w, by, now)
	}
	return s.member(w, by, now)
}

func isRole(address string) bool {
	_, _, is := events.RoleIn(address)
	return is
}

// NotRegistered refuses an address that is not registered.
func NotRegistered(address string) *Refused {
	return &Refused{Unknown, fmt.Sprintf("address %.80s is not registered", address),
		"inspan mail who lists the addresses"}
}

// member lets an agent join or leave a list or a channel.
func (s State) member(w Wish, by events.MailBy, now time.Time) (State, error) {
	if s.Form != events.ListAddress && s.Form != events.ChannelAddress {
		return s, &Refused{BadMove, s.Address + " has no members", "only a list and a channel have"}
	}
	in := slices.Contains(s.Members, w.Member)
	d := &events.AgentChangedData{Event: "agent_changed", MailBy: by}
	switch {
	case w.Action == Join && in:
		return s, &Refused{BadMove, fmt.Sprintf("%s is a member of %s", w.Member, s.Address), "nothing was changed"}
	case w.Action == Leave && !in:
		return s, &Refused{BadMove, fmt.Sprintf("%s is no member of %s", w.Member, s.Address), "nothing was changed"}
	case w.Action == Join && len(s.Members) >= events.MaxMembers:
		return s, &Refused{Full, fmt.Sprintf("%s has %d members, the limit", s.Address, len(s.Members)), "make another one"}
	case w.Action == Join:
		d.Join = w.Member
	default:
		d.Leave = w.Member
	}
	return s.then(d, now), nil
}

// Deliver puts a message into a mailbox, once; it returns a *Refused where it has no room for it. members are those of
// a broadcast; a list and a channel have their own.
func Deliver(s State, m events.Mail, members []string, by events.MailBy, now time.Time) (State, error) {
	if s.Knows(m.ID) {
		return s, nil
	}
	if s.Form == events.ListAddress || s.Form == events.ChannelAddress {
		members = s.Members
	}
	if accepts := s.Spec.Accepts; len(accepts) > 0 && m.Kind != "" && accepts[m.Kind] == nil {
		return s, &Refused{BadKind, fmt.Sprintf("%s takes no message of the kind %.64q", s.Address, m.Kind),
			"send it without a kind"}
	}
	if m.Interrupt && !s.interruptible(m.From) {
		return s, &Refused{NoInterrupt, fmt.Sprintf("%s is not interrupted by mail of %.80s", s.Address, m.From),
			"send it without interrupt: it is given before the next turn"}
	}
	own, all := 0, 0
	for _, r := range s.Recent {
		if r.At.After(now.Add(-time.Minute)) {
			if all++; r.From == m.From {
				own++
			}
		}
	}
	if own >= events.MaxMailRate || all >= events.MaxMailRates {
		return s, &Refused{TooMany, fmt.Sprintf("%d messages of %.80s came to %s within a minute, %d of all senders", own,
			m.From, s.Address, all),
			"wait a minute, and put more into one message"}
	}
	bytes := weigh(m)
	for _, p := range s.Pending {
		bytes += weigh(p.Mail)
	}
	if len(s.Pending)+len(s.Claimed) >= events.MaxMailbox || bytes > events.MaxMailboxBytes {
		return s, &Refused{Full, fmt.Sprintf("%d messages of %d bytes wait in the mailbox of %s", len(s.Pending), bytes,
			s.Address),
			"wait until they were read"}
	}
	d := &events.MailSentData{Event: "mail_sent", Mail: m, MailBy: by}
	if s.group() {
		d.Members = slices.DeleteFunc(slices.Clone(members), func(a string) bool { return a == m.From })
		if len(d.Members) == 0 {
			return s, &Refused{BadMove, s.Address + " has no other members", "the message would reach no one"}
		}
	}
	return s.then(d, now), nil
}

// weigh is how large a message is when it is encoded.
func weigh(m events.Mail) int {
	b, err := json.Marshal(m)
	if err != nil {
		return events.MaxMailboxBytes // it is refused
	}
	return len(b)
}

// take takes messages out of a mailbox that no agent needs to see any more.
func take(s State, ids []string, by events.MailBy, now time.Time) (State, error) {
	if h := s.Holder; h != nil {
		return s, &Refused{BadMove, fmt.Sprintf("run %s is the agent %s and may be given them now", h.Run, s.Address),
			"wait for its end"}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(s.Pending, func(p events.PendingMail) bool { return p.ID == id }) {
			return s, &Refused{BadMove, fmt.Sprintf("no message %.64s waits in the mailbox of %s", id, s.Address),
				"inspan mail list " + s.Address}
		}
	}
	return s.then(&events.MailAckedData{Event: "mail_acked", IDs: ids, MailBy: by}, now), nil
}

// Shown acknowledges messages that a turn of a run was given.
func Shown(s State, run string, ids []string, now time.Time) State {
	if s.Holder == nil || s.Holder.Run != run {
		return s
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !s.Waits(id) })
	if len(ids) == 0 {
		return s
	}
	return s.then(&events.MailAckedData{Event: "mail_acked", IDs: ids, Run: run}, now)
}

// Claim gives the most urgent message of a queue to a call of a run, once; nil where none waits.
func Claim(s State, address, run, call string, now time.Time) (State, *events.ClaimedMail) {
	mine := func() *events.ClaimedMail {
		i := slices.IndexFunc(s.Claimed, func(c events.ClaimedMail) bool { return c.Run == run && c.Call == call })
		if i < 0 {
			return nil
		}
		return &s.Claimed[i]
	}
	if c := mine(); c != nil || s.Form != events.QueueAddress {
		return s, c
	}
	due := sorted(s.Pending, func(p events.PendingMail) bool { return now.Before(p.ExpiresAt) })
	if len(due) == 0 {
		return s, nil
	}
	s = s.then(&events.MailClaimedData{Event: "mail_claimed", ID: due[0].ID, Agent: address, Run: run, Call: call}, now)
	return s, mine()
}

// Settle ends the claim of a call: the message was given to its run, or waits again.
func Settle(s State, run, call string, given bool, now time.Time) State {
	i := slices.IndexFunc(s.Claimed, func(c events.ClaimedMail) bool { return c.Run == run && c.Call == call })
	switch {
	case i < 0:
		return s
	case given:
		return s.then(&events.MailAckedData{Event: "mail_acked", IDs: []string{s.Claimed[i].ID}, Run: run}, now)
	}
	return s.then(&events.MailReturnedData{Event: "mail_returned", IDs: []string{s.Claimed[i].ID}, Run: run}, now)
}

// Expire ends messages that no agent was given in time, and the run of an agent that does not exist in time.
func Expire(s State, now time.Time) State {
	if h := s.Holder; h != nil && !h.Started && !now.Before(h.ExpiresAt) {
		s = End(s, h.Run, Expired, "its run did not exist by "+h.ExpiresAt.UTC().Format(time.RFC3339), now)
	}
	if s.Holder != nil {
		return s // its run may be given any of them now
	}
	var ids []string
	for _, p := range s.Pending {
		if !now.Before(p.ExpiresAt) {
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return s
	}
	return s.then(&events.MailExpiredData{Event: "mail_expired", IDs: ids}, now)
}

// Wake begins the next run of an idle agent for which mail is due, or that goes on with the work of a run before.
func Wake(s State, now time.Time, id ID) State { return WakeIn(s, now, id, Waking{}) }

// WakeIn is Wake with what the station has for the agent.
func WakeIn(s State, now time.Time, id ID, with Waking) State {
	due := s.due(now)
	work := s.Life.Account != nil || with.Work != nil
	if s.Form != events.AgentAddress || s.Holder != nil || len(due) == 0 && !(work && s.goesOn()) ||
		now.Before(s.NotBefore) || s.Life.Stopped {
		return s
	}
	epoch := s.Epoch + 1
	d := &events.AgentWokenData{Event: "agent_woken", Epoch: epoch, Run: id(s.ID, epoch),
		Model: with.Tier.Model(s.Address), Role: with.Role, Work: with.Work,
		ExpiresAt: now.Add(events.WakeTerm)}
	if len(due) > 0 {
		d.Mail = due[0].ID
	}
	if s.Life.Account != nil {
		d.Account = s.Life.Account.Epoch
	}
	return s.then(d, now)
}

// Accept makes a run that was created the agent. is is false where its epoch has ended: then the run must not start.
func Accept(s State, epoch int, run string, now time.Time) (next State, is bool) {
	switch {
	case !s.Holds(epoch, run):
		return s, false
	case s.Holder.Started:
		return s, true
	}
	return s.then(&events.AgentStartedData{Event: "agent_started", Epoch: epoch, Run: run}, now), true
}

// Delays before an agent whose run came to nothing is woken again: they double.
const (
	firstDelay = 30 * time.Second
	lastDelay  = time.Hour
)

// End records the end of an agent's run. One that completed and was given mail is woken again at once where more waits.
func End(s State, run, code, reason string, now time.Time) State {
	return end(s, run, code, reason, nil, now)
}

func end(s State, run, code, reason string, account *events.AgentAccount, now time.Time) State {
	h := s.Holder
	if h == nil || h.Run != run {
		return s
	}
	d := &events.AgentEndedData{Event: "agent_ended", Epoch: h.Epoch, Run: run, Code: code, Reason: clip(reason),
		Account: account}
	if code != Stopped && (code != Completed || h.Taken == 0 && h.Account == 0 && h.Work == nil) {
		first := s.Health().Cooldown(firstDelay)
		d.NotBefore = now.Add(min(first<<min(s.Fails, 16), max(first, lastDelay)))
	}
	return s.then(d, now)
}

// WakeAt is when an address is to be looked at again; ok is false where only a message or the end of a run changes it.
func WakeAt(s State) (at time.Time, ok bool) {
	first := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	switch h := s.Holder; {
	case h != nil && !h.Started:
		first(h.ExpiresAt)
	case h == nil:
		again := s.goesOn()
		for _, p := range s.Pending {
			first(p.ExpiresAt)
			again = again || s.Form == events.AgentAddress && s.loud(p) && !s.Life.Stopped
		}
		if again && !s.NotBefore.IsZero() {
			first(s.NotBefore)
		}
	}
	return at, ok
}

// loud reports whether a message may reach its agent now.
func (s State) loud(p events.PendingMail) bool { return !s.Quiet || p.Force }

// due are the messages that an agent may be given, the most urgent first; those of one priority as they came.
func (s State) due(now time.Time) []events.PendingMail {
	return sorted(s.Pending, func(p events.PendingMail) bool { return s.loud(p) && now.Before(p.ExpiresAt) })
}

func sorted(all []events.PendingMail, keep func(events.PendingMail) bool) (some []events.PendingMail) {
	for _, p := range all {
		if keep(p) {
			some = append(some, p)
		}
	}
	rank := func(p events.PendingMail) int {
		if p.Interrupt {
			return -1 // it is what the next turn is taken for
		}
		return slices.Index(events.Priorities(), p.Priority)
	}
	sort.SliceStable(some, func(i, j int) bool { return rank(some[i]) < rank(some[j]) })
	return some
}

func clip(text string) string { return clipTo(text, events.MaxReason) }

// Check returns what is wrong with a control of an address, in words for who sent it.
func Check(form events.AddressForm, c events.MailControl) error {
	switch {
	case form == events.RoleAddress && c.Action != Send:
		return errors.New("the address of a role takes mail, and no other control")
	case !slices.Contains(Actions(), c.Action):
		return fmt.Errorf("unknown action %.80q: the actions are %s", c.Action, strings.Join(Actions(), ", "))
	case (c.Action == Register) != (c.Spec != nil):
		return errors.New("a spec goes with register, and it needs one")
	case (c.Action == Send) != (c.Mail != nil):
		return errors.New("mail goes with send, and it needs one")
	case (c.Action == Ack) != (len(c.IDs) > 0):
		return errors.New("ids go with ack, and it needs some")
	case (c.Action == DND) != (c.On != nil):
		return errors.New("on goes with dnd, and it needs it")
	case (c.Action == Join || c.Action == Leave) != (c.Member != ""):
		return errors.New("a member goes with join and leave, and they need one")
	case (c.Action == Tier) != (c.Tier != nil) || c.Action == Tier && form != events.EveryAddress:
		return errors.New("a tier goes with tier and the address all, and it needs one")
	case (c.Action == Routes) != (c.Routes != nil) || c.Action == Routes && form != events.EveryAddress:
		return errors.New("routes go with routes and the address all, and it needs them")
	case c.Action != Handoff && c.Summary != "":
		return errors.New("a summary goes with handoff")
	case len(c.IDs) > events.MaxMailbox:
		return fmt.Errorf("%d ids, the limit is %d", len(c.IDs), events.MaxMailbox)
	case c.Action == Register && form == events.EveryAddress:
		return errors.New("all needs no registration: it is every agent of the station")
	}
	for i, id := range c.IDs {
		if err := events.CheckID("id", id); err != nil || slices.Contains(c.IDs[:i], id) {
			return cmp.Or(err, fmt.Errorf("id %s is given twice", id))
		}
	}
	if c.Member != "" {
		if err := agents(c.Member); err != nil {
			return err
		}
	}
	switch {
	case c.Action == Register:
		return checkSpec(form, *c.Spec)
	case c.Action == Send:
		return c.Mail.Check()
	case c.Summary != "":
		return events.CheckSummary(c.Summary)
	case c.Tier != nil:
		return c.Tier.Check()
	case c.Routes != nil:
		return c.Routes.Check()
	}
	return nil
}

func checkSpec(form events.AddressForm, s events.AddressSpec) error {
	agent := form == events.AgentAddress
	switch {
	case agent && s.Agent == "":
		return errors.New("an agent needs the name of its definition")
	case !agent && (s.Agent != "" || s.Session != "" || s.Respawn || s.Escalate != ""):
		return errors.New("agent, session, respawn and escalate go with the address of an agent")
	case s.Interrupts != "" && (!agent || s.Interrupts != events.InterruptsOfPeople &&
		s.Interrupts != events.InterruptsOfAll):
		return fmt.Errorf("interrupts %.40q: want %s or %s, at the address of an agent", s.Interrupts,
			events.InterruptsOfPeople,
			events.InterruptsOfAll)
	case len(s.Members) > 0 && form != events.ListAddress && form != events.ChannelAddress:
		return errors.New("members go with a list or a channel")
	case len(s.Members) > events.MaxMembers:
		return fmt.Errorf("%d members, the limit is %d", len(s.Members), events.MaxMembers)
	case len(s.Accepts) > events.MaxSchemas:
		return fmt.Errorf("%d kinds of messages, the limit is %d", len(s.Accepts), events.MaxSchemas)
	}
	for what, id := range map[string]string{"agent": s.Agent, "session": s.Session} {
		if id != "" {
			if err := events.CheckID(what, id); err != nil {
				return err
			}
		}
	}
	for kind, schema := range s.Accepts {
		if len(schema) > events.MaxSchema {
			return fmt.Errorf("the schema of %.64q has %d bytes, the limit is %d", kind, len(schema), events.MaxSchema)
		}
		if err := events.CheckID("kind", kind); err != nil {
			return err
		}
	}
	if s.Escalate != "" {
		if _, _, err := events.ParseAddress(s.Escalate); err != nil {
			return err
		}
	}
	return agents(s.Members...)
}

// agents returns what is wrong with addresses that must be those of agents, each once.
func agents(addresses ...string) error {
	for i, a := range addresses {
		switch form, _, err := events.ParseAddress(a); {
		case err != nil:
			return err
		case form != events.AgentAddress:
			return fmt.Errorf("member %s is no agent", a)
		case slices.Contains(addresses[:i], a):
			return fmt.Errorf("member %s is given twice", a)
		}
	}
	return nil
}

// MailOf is the message that a draft asks for.
func MailOf(d events.MailDraft, id, from, to string, at time.Time) events.Mail {
	term, err := time.ParseDuration(d.Expires)
	if err != nil {
		term = events.MailTerm
	}
	return events.Mail{ID: id, From: from, To: to, Subject: d.Subject, Body: d.Body,
		Priority: cmp.Or(d.Priority, "normal"), Force: d.Force,
		Interrupt: d.Interrupt, Thread: cmp.Or(d.Thread, d.ReplyTo, id), ReplyTo: d.ReplyTo, Kind: d.Kind, Data: d.Data,
		SentAt: at, ExpiresAt: at.Add(term)}
}
