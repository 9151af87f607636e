package mailbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// noticeSender is the sender of notices of refused mail. No agent and no person can send as it.
const noticeSender = "station:mail"

// Passed takes out of the mailbox of a group a message that all its members got, or refused. Where its sender is an
// agent, that is owed a notice of who refused it.
func Passed(s State, id string, refused []events.MailRefusal, now time.Time) State {
	i := slices.IndexFunc(s.Pending, func(p events.PendingMail) bool { return p.ID == id })
	if i < 0 {
		return s
	}
	form, _, err := events.ParseAddress(s.Pending[i].From)
	return s.then(&events.MailAckedData{Event: "mail_acked", IDs: []string{id}, Refused: refused,
		Owed: len(refused) > 0 && err == nil && form == events.AgentAddress}, now)
}

// OwedNotices are the messages whose senders are owed a notice of the members that refused them.
func OwedNotices(s State) (all []events.DoneMail) {
	for _, d := range s.Done {
		if len(d.Refused) > 0 {
			all = append(all, d)
		}
	}
	return all
}

// OwesNotice reports whether the sender of a message is owed one.
func OwesNotice(s State, id string) bool {
	return slices.ContainsFunc(OwedNotices(s), func(d events.DoneMail) bool { return d.ID == id })
}

// NoticeMail is the notice about a message to a group: the same each time that it is sent.
func NoticeMail(s State, of events.DoneMail, id string) events.Mail {
	lines := []string{fmt.Sprintf("Your message %s to %s was not taken by %d of its members:", of.ID, s.Address,
		len(of.Refused))}
	size := len(lines[0])
	for i, r := range of.Refused {
		line := fmt.Sprintf("%s (%s)", r.To, r.Code)
		if size += len(line) + 1; size > events.MaxMailBody-maxLeftOut {
			lines = append(lines, fmt.Sprintf("and %d more", len(of.Refused)-i))
			break
		}
		lines = append(lines, line)
	}
	return MailOf(events.MailDraft{Subject: fmt.Sprintf("Message %s was refused", of.ID), Body: strings.Join(lines, "\n"),
		ReplyTo: of.ID}, id, noticeSender, of.From, of.At)
}

// maxLeftOut is the room for the line that counts the members which a notice does not name.
const maxLeftOut = 32

// Noticed records what became of the notice about a message; it changes nothing where none is owed. code is why its
// sender cannot be given one, empty where that has it.
func Noticed(s State, of, mail, code string, now time.Time) State {
	i := slices.IndexFunc(s.Done, func(d events.DoneMail) bool { return d.ID == of && len(d.Refused) > 0 })
	if i < 0 {
		return s
	}
	return s.then(&events.MailNoticedData{Event: "mail_noticed", ID: of, To: s.Done[i].From, Mail: mail, Code: code}, now)
}

// owes notes that the sender of a message which has left the mailbox of a group is owed a notice.
func (s State) owes(id string, refused []events.MailRefusal) (State, error) {
	i := slices.IndexFunc(s.Done, func(d events.DoneMail) bool { return d.ID == id })
	if i < 0 || len(refused) == 0 || !s.group() {
		return s, fmt.Errorf("no notice is owed for mail %q of %s", id, s.Address)
	}
	s.Done = slices.Clone(s.Done)
	s.Done[i].Refused = refused
	return s, nil
}

func noticed(s State, d *events.MailNoticedData, _ time.Time) (State, error) {
	i := slices.IndexFunc(s.Done, func(m events.DoneMail) bool { return m.ID == d.ID && len(m.Refused) > 0 })
	if i < 0 || (d.Mail == "") == (d.Code == "") {
		return s, fmt.Errorf("no notice is owed for mail %q of %s", d.ID, s.Address)
	}
	s.Done = slices.Clone(s.Done)
	s.Done[i].Refused = nil
	return s, nil
}
