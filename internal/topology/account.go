package topology

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Account is an account of a NATS server, whatever form the server has it in: Accounts renders it for a configuration
// file, and package claims signs it for a server in operator mode.
type Account struct {
	Name string
	// JetStream says that it has streams.
	JetStream bool
	// Users have their rights as the server looks at them, which is after Mappings.
	Users    []User
	Exports  []Export
	Imports  []Import
	Mappings []Mapping
}

// Export is a subject that one other account may import.
type Export struct {
	// Service is for requests and their answers; else messages flow one way.
	Service bool
	Subject string
	// Several says that a question has several answers, of which each comes within AnswerWait of the one before.
	Several bool
	// For is the name of the only account that may import it.
	For string
}

// Import is a subject of another account.
type Import struct {
	Service bool
	// From is the name of that account, Subject the subject in it, and As the one here.
	From, Subject, As string
}

// Mapping has the server take what is published on From as if it were on To, before it looks at rights.
type Mapping struct{ From, To string }

// AnswerWait is how long an answer of several is waited for.
const AnswerWait = 30 * time.Second

// AccountsOf returns the account of the streams, and that of the services and outsiders, with all users.
//
// There are two accounts, because a server sends answers on whatever subject the asker names, whether or not the asker
// may publish there. In one account, asking for a stored object with a subject of the log for the answer would write
// that object into the log. The streams are therefore in an account of their own; services and outsiders are in the
// other one, which borrows the streams' subjects. What is borrowed is answered only to the asker's own account, and an
// answer is not passed on to the streams.
func (b Buckets) AccountsOf(station string, outsiders []User, administrators ...User) (streams, front Account) {
	streams = Account{Name: StreamsAccount(station), JetStream: true, Users: administrators}
	front = Account{Name: FrontAccount(station)}
	within := func(subject string) string { return inFront(streams.Name, subject) }
	for _, role := range events.Services() {
		publish, subscribe := b.Permissions(station, role)
		front.Users = append(front.Users, InFront(station, User{Name: string(role), Publish: publish, Subscribe: subscribe}))
	}
	for _, u := range outsiders {
		front.Users = append(front.Users, InFront(station, u))
	}
	for _, l := range b.lent(station) {
		l.For = front.Name
		streams.Exports = append(streams.Exports, l.Export)
		front.Imports = append(front.Imports, Import{Service: l.Service, From: streams.Name, Subject: l.Subject,
			As: cmp.Or(l.as, within(l.Subject))})
	}
	for _, pattern := range []string{
		// Every account has an API of its own, even where JetStream is not enabled: it would answer too.
		apiPrefix + ">",
		// What people watch comes from the streams alone, once it is stored. On its subjects nothing is published here,
		// so no answer that an asker wants there can pass for an event or a dead letter.
		"station.*.dead.>", "station.*.*.*.stream",
	} {
		front.Mappings = append(front.Mappings, Mapping{From: pattern, To: numbered(within(pattern))})
	}
	return streams, front
}

// Allowed is a side of a user's rights without what it has twice.
func Allowed(subjects []string) []string {
	var all []string
	for _, s := range subjects {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// ShippedOutsiders are the outsiders of a station as it is shipped: operator is whoever has its credentials, so its
// answers to gates are in no one's name; tools serves tools, and the gateway speaks for those who it let in.
func (b Buckets) ShippedOutsiders(station string) []User {
	return []User{
		b.Outsider(station, "operator", "", MayDispatch, MayWatch, MayApprove, MayRecord, MayHalt, MayBudget, MayBackup),
		b.Outsider(station, "tools", "", MayServe),
		b.Outsider(station, events.Gateway, events.Gateway, MayDispatch, MayWatch, MayApprove),
	}
}

// Covers reports whether a pattern has all subjects that another pattern has.
func Covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), s[i] == ">", token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
