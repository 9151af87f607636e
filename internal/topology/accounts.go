package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// User of the NATS server of a station.
type User struct {
	Name               string
	Publish, Subscribe []string
}

// Administrators are in the account of the streams: whoever is can have the server write an answer into any stream. None of
// them belongs to a service, and a server in the process of the roles has none while the roles run.
const (
	// SetupUser makes what a station lacks and registers agents. It can change no stream that is there.
	SetupUser = "setup"
	// UpgradeUser may also change streams, and with that erase what they hold. A server has it only while an operator
	// brings a station to another version or to other limits.
	UpgradeUser = "upgrade"
)

// Setup returns the SetupUser of a station.
func Setup(station string) User {
	publish, subscribe := SetupPermissions(station)
	return User{Name: SetupUser, Publish: publish, Subscribe: subscribe}
}

// Upgrade returns the UpgradeUser of a station.
func Upgrade(station string) User {
	u := Setup(station)
	u.Name = UpgradeUser
	for _, st := range Streams(station, Limits{}) {
		u.Publish = append(u.Publish, "$JS.API.STREAM.UPDATE."+st.Name)
	}
	return u
}

// Outsider is a user for people and programs outside the services; see UserPermissions.
func Outsider(station, name, approver string, rights ...Right) User {
	publish, subscribe := UserPermissions(station, approver, rights...)
	return User{Name: name, Publish: publish, Subscribe: subscribe}
}

// WriterUser says the facts of all roles where they run in one process, so that appends of different roles share batches.
const WriterUser = "writer"

// Writer returns that user and the prefix of its answers. Only a server in the process of the roles has it; it may do
// nothing but append facts.
func Writer(station string) (u User, inboxPrefix string) {
	u.Name, inboxPrefix = WriterUser, InboxPrefix(station, WriterUser)
	for _, role := range events.Services() {
		for _, k := range Says(role) {
			u.Publish = append(u.Publish, events.KindFacts(station, k))
		}
	}
	u.Subscribe = []string{inboxPrefix + ".>"}
	return u, inboxPrefix
}

// ReviverUser gives out again what earlier instances were given.
const ReviverUser = "reviver"

// Reviver returns that user, who is in the account of the streams. Only a server in the process of the roles has it, for its start; it
// may look at their consumers and put them back, and nothing else.
func Reviver(station string) User {
	u := User{Name: ReviverUser, Subscribe: []string{peopleInbox}}
	for _, role := range events.Services() {
		for _, c := range Consumers(station, role) {
			u.Publish = append(u.Publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name, "$JS.API.CONSUMER.RESET."+c.Stream+"."+c.Name)
		}
	}
	return u
}

// Accounts renders the accounts and users of a station in the form of a server's configuration: the administrators and
// outsiders given, and a user for each service. password returns what stands for a user's password: a variable of the
// server's environment, or a quoted text.
//
// There are two accounts, because a server sends answers on whatever subject the asker names, whether or not the asker
// may publish there. In one account, asking for a stored object with a subject of the log for the answer would write
// that object into the log. The streams are therefore in an account of their own; services and outsiders are in the
// other one, which borrows the streams' subjects. What is borrowed is answered only to the asker's own account, and an
// answer is not passed on to the streams.
func Accounts(station string, outsiders []User, password func(user string) string, administrators ...User) string {
	var b strings.Builder
	back, front := "streams-"+station, "station-"+station
	lentAPI := "$JS." + back + ".API."
	fmt.Fprintf(&b, "accounts {\n  %q: {\n    jetstream: enabled\n    users: [\n", back)
	for _, u := range administrators {
		render(&b, u, password, apiPrefix)
	}
	b.WriteString("    ]\n    exports: [\n")
	for _, l := range lent(station) {
		fmt.Fprintf(&b, "      {%s: %q%s, accounts: [%q]}\n", l.how, l.subject, l.more, front)
	}
	fmt.Fprintf(&b, "    ]\n  }\n  %q: {\n    users: [\n", front)
	for _, role := range events.Services() {
		publish, subscribe := Permissions(station, role)
		render(&b, User{string(role), publish, subscribe}, password, lentAPI)
	}
	for _, u := range outsiders {
		render(&b, u, password, lentAPI)
	}
	b.WriteString("    ]\n    imports: [\n")
	for _, l := range lent(station) {
		to := ""
		if rest, api := strings.CutPrefix(l.subject, apiPrefix); api {
			to = fmt.Sprintf(", to: %q", lentAPI+rest)
		}
		fmt.Fprintf(&b, "      {%s: {account: %q, subject: %q}%s}\n", l.how, back, l.subject, to)
	}
	// Every account has an API of its own, even where JetStream is not enabled: it would answer too.
	fmt.Fprintf(&b, "    ]\n    mappings: {%q: %q}\n  }\n}\n", apiPrefix+">", lentAPI+">")
	return b.String()
}

// apiPrefix is where clients ask JetStream.
const apiPrefix = "$JS.API."

// loan is a subject that the account of the streams lends to the other one.
type loan struct{ how, subject, more string }

// lent are the subjects of the streams, and what services and watchers may ask of JetStream at most. Nothing that makes,
// changes or erases a stream or a consumer is among them, but for what takes artifacts away.
func lent(station string) []loan {
	// Several answers to one question are passed on until none has come for this long, or until one is empty. A pull hears
	// every second.
	const several = `, response_type: stream, response_threshold: "30s"`
	all := []loan{
		{"service", "$JS.API.*", ""}, {"service", "$JS.API.STREAM.INFO.*", ""}, {"service", "$JS.API.STREAM.MSG.GET.*", ""}, {"service", "$JS.API.CONSUMER.INFO.*.*", ""},
		{"service", purgeArtifacts, ""},
		{"service", "$JS.API.DIRECT.GET.>", several}, {"service", "$JS.ACK.>", ""},
	}
	for _, st := range pulled(station) {
		next := loan{"service", "$JS.API.CONSUMER.MSG.NEXT." + st + ".*", several}
		if st == In(station) {
			next.more = "" // the answer is over with its first message, whatever an outsider put into it
		}
		all = append(all, next)
	}
	for _, st := range Streams(station, Limits{}) {
		for _, subject := range st.Subjects {
			if !strings.Contains(subject, "*") && !strings.Contains(subject, ">") {
				// An answer is passed on to a subject that is borrowed without a wildcard, and to no other.
				subject = strings.Replace(subject, "station."+station+".", "station.*.", 1)
			}
			all = append(all, loan{"service", subject, ""})
		}
		if st.RepublishTo != "" {
			all = append(all, loan{"stream", strings.ReplaceAll(st.RepublishTo, "{{wildcard(1)}}", "*"), ""})
		}
	}
	return all
}

// pulled are the streams that roles take work from.
func pulled(station string) []string {
	var streams []string
	for _, role := range events.Services() {
		for _, c := range Consumers(station, role) {
			if !slices.Contains(streams, c.Stream) {
				streams = append(streams, c.Stream)
			}
		}
	}
	return streams
}

// render writes one user. A server looks at a user's rights after it has mapped the subject, so those to ask JetStream are
// given for api instead of its usual prefix.
func render(b *strings.Builder, u User, password func(string) string, api string) {
	fmt.Fprintf(b, "      {\n        user: %s\n        password: %s\n        permissions: {\n", u.Name, password(u.Name))
	for _, side := range []struct {
		name     string
		subjects []string
	}{{"publish", u.Publish}, {"subscribe", u.Subscribe}} {
		fmt.Fprintf(b, "          %s: [\n", side.name)
		for i, s := range side.subjects {
			if !slices.Contains(side.subjects[:i], s) {
				if rest, ok := strings.CutPrefix(s, apiPrefix); ok {
					s = api + rest
				}
				fmt.Fprintf(b, "            %q\n", s)
			}
		}
		b.WriteString("          ]\n")
	}
	b.WriteString("        }\n      }\n")
}
