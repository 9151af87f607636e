package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// User of the NATS server of a station.
type User struct {
	Name string
	// Key is the public key of an NKey, for a user who has that in place of a name and a password.
	Key                string
	Publish, Subscribe []string
}

// Administrators are in the account of the streams: whoever is can have the server write an answer into any stream.
// None of them belongs to a service, and a server in the process of the roles has none while the roles run.
const (
	// SetupUser makes what a station lacks and registers agents. It can change no stream that is there.
	SetupUser = "setup"
	// UpgradeUser may also change streams, and with that erase what they hold, and fill the streams of a new station from
	// a backup. A server has it only while an operator does that, or brings a station to another version or to other
	// limits.
	UpgradeUser = "upgrade"
)

// Setup returns the SetupUser of a station.
func (b Buckets) Setup(station string) User {
	publish, subscribe := b.SetupPermissions(station)
	return User{Name: SetupUser, Publish: publish, Subscribe: subscribe}
}

// Upgrade returns the UpgradeUser of a station.
func (b Buckets) Upgrade(station string) User {
	u := b.Setup(station)
	u.Name = UpgradeUser
	for _, st := range b.Streams(station, Limits{}) {
		u.Publish = append(u.Publish, "$JS.API.STREAM.UPDATE."+st.Name)
	}
	u.Publish = append(u.Publish, b.restoring(station)...)
	return u
}

// restoring is what copies a station that stands still, and fills the streams of one that has nothing yet. The stream
// of inputs is made once more, so that its positions begin behind those that the log names.
func (b Buckets) restoring(station string) []string {
	own := append(b.backingUp(station), "$JS.API.STREAM.DELETE."+In(station))
	for _, st := range b.Streams(station, Limits{}) {
		for _, subject := range st.Subjects {
			if rest, ok := strings.CutPrefix(subject, "$KV."); ok {
				subject = "$KV." + strings.TrimSuffix(rest, ">") + station + ".>"
			}
			own = append(own, subject)
		}
	}
	return own
}

// Outsider is a user for people and programs outside the services; see UserPermissions.
func (b Buckets) Outsider(station, name, approver string, rights ...Right) User {
	publish, subscribe := b.UserPermissions(station, approver, rights...)
	return User{Name: name, Publish: publish, Subscribe: subscribe}
}

// WriterUser appends the events of all roles where they run in one process, so that appends of different roles share
// batches, and reads the log for all of them.
const WriterUser = "writer"

// Writer returns that user, who is in the account of the streams, and the prefix of its answers. Only a server in the
// process of the roles has it. It may append events, read the log and set the positions of the roles in it, and nothing
// else.
func Writer(station string) (u User, inboxPrefix string) {
	u.Name, inboxPrefix = WriterUser, InboxPrefix(station, WriterUser)
	for _, role := range events.Services() {
		u.Publish = append(u.Publish, publishesAll(station, role)...)
		for _, c := range Consumers(station, role) {
			if c.Stream == Log(station) {
				u.Publish = append(u.Publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name,
					"$JS.API.CONSUMER.RESET."+c.Stream+"."+c.Name)
			}
		}
	}
	u.Publish = append(u.Publish, "$JS.API.DIRECT.GET."+Log(station), "$JS.API.STREAM.MSG.GET."+Log(station))
	u.Subscribe = []string{inboxPrefix + ".>", RepublishedEvents(station)}
	return u, inboxPrefix
}

// ReviverUser gives out again what earlier instances were given.
const ReviverUser = "reviver"

// Reviver returns that user, who is in the account of the streams. Only a server in the process of the roles has it,
// for its start; it may look at their consumers and put them back, and nothing else.
func Reviver(station string) User {
	u := User{Name: ReviverUser, Subscribe: []string{peopleInbox}}
	for _, role := range events.Services() {
		for _, c := range Consumers(station, role) {
			u.Publish = append(u.Publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name, "$JS.API.CONSUMER.RESET."+c.Stream+"."+
				c.Name)
		}
	}
	return u
}

// StreamsAccount is the account that the streams of a station are in.
func StreamsAccount(station string) string { return "streams-" + station }

// FrontAccount is the account that the services of a station and all outsiders are in.
func FrontAccount(station string) string { return "station-" + station }

// Accounts renders the accounts and users of a station in the form of a server's configuration: the administrators and
// outsiders given, and a user for each service. password returns what stands for a user's password: a variable of the
// server's environment, or a quoted text. AccountsOf says why there are two accounts.
func (b Buckets) Accounts(station string, outsiders []User, password func(user string) string,
	administrators ...User) string {
	return b.accounts(station, users{administrators: administrators, outsiders: outsiders, password: password})
}

// users are those of a configuration. callout, which may be empty, is rendered as an account beside those of the
// station.
type users struct {
	administrators, outsiders []User
	password                  func(user string) string
	callout                   string
}

func (b Buckets) accounts(station string, all users) string {
	var out strings.Builder
	out.WriteString("accounts {\n")
	streams, front := b.AccountsOf(station, all.outsiders, all.administrators...)
	for _, a := range []Account{streams, front} {
		a.render(&out, all.password)
	}
	out.WriteString(all.callout + "}\n")
	return out.String()
}

// render writes one account.
func (a Account) render(out *strings.Builder, password func(user string) string) {
	fmt.Fprintf(out, "  %q: {\n", a.Name)
	if a.JetStream {
		out.WriteString("    jetstream: enabled\n")
	}
	out.WriteString("    users: [\n")
	for _, u := range a.Users {
		render(out, u, password)
	}
	out.WriteString("    ]\n")
	if len(a.Exports) > 0 {
		out.WriteString("    exports: [\n")
		for _, e := range a.Exports {
			more := ""
			if e.Several {
				more = fmt.Sprintf(", response_type: stream, response_threshold: %q", AnswerWait)
			}
			fmt.Fprintf(out, "      {%s: %q%s, accounts: [%q]}\n", how(e.Service), e.Subject, more, e.For)
		}
		out.WriteString("    ]\n")
	}
	if len(a.Imports) > 0 {
		out.WriteString("    imports: [\n")
		for _, i := range a.Imports {
			to := ""
			if i.As != i.Subject {
				to = fmt.Sprintf(", to: %q", i.As)
			}
			fmt.Fprintf(out, "      {%s: {account: %q, subject: %q}%s}\n", how(i.Service), i.From, i.Subject, to)
		}
		out.WriteString("    ]\n")
	}
	if len(a.Mappings) > 0 {
		out.WriteString("    mappings: {\n")
		for _, m := range a.Mappings {
			fmt.Fprintf(out, "      %q: %q\n", m.From, m.To)
		}
		out.WriteString("    }\n")
	}
	out.WriteString("  }\n")
}

// how is what an export or import is called in a configuration.
func how(service bool) string {
	if service {
		return "service"
	}
	return "stream"
}

// inFront is what a subject is mapped to in the account of services and outsiders. The server maps what is published
// before it looks at rights, and what it publishes itself: an answer, on the subject that its asker names.
//
// The first three tokens have no wildcard. An answer has so many, and no more could be passed on by an import.
func inFront(back, subject string) string {
	if rest, ok := strings.CutPrefix(subject, apiPrefix); ok {
		return "$JS." + back + ".API." + rest
	}
	switch t := strings.Split(subject, "."); {
	case len(t) == 4 && t[0] == "station" && t[2] == "dead":
		return "refused.by.role." + t[1] + "." + t[3]
	case len(t) == 5 && t[0] == "station" && t[4] == "stream":
		return "forged.stream.of." + t[1] + "." + t[2] + "." + t[3]
	}
	return subject
}

// numbered puts "$1", "$2" for the wildcards of a pattern, as the destination of a mapping has them.
func numbered(pattern string) string {
	for n := 1; strings.Contains(pattern, "*"); n++ {
		pattern = strings.Replace(pattern, "*", fmt.Sprintf("$%d", n), 1)
	}
	return pattern
}

// apiPrefix is where clients ask JetStream.
const apiPrefix = "$JS.API."

// lending is a subject that the account of the streams lends to the other one.
type lending struct {
	Export
	// as is the subject there, empty for what it is mapped to.
	as string
}

// lent are the subjects of the streams, and what services and watchers may ask of JetStream at most. Nothing that
// makes, changes or erases a stream or a consumer is among them, but for what takes artifacts away.
func (b Buckets) lent(station string) []lending {
	service := func(subject string) lending { return lending{Export: Export{Service: true, Subject: subject}} }
	// Several answers to one question are passed on until none has come for AnswerWait, or until one is empty. A pull
	// receives every second.
	several := func(subject string) lending {
		return lending{Export: Export{Service: true, Subject: subject, Several: true}}
	}
	all := []lending{
		service("$JS.API.*"), service("$JS.API.STREAM.INFO.*"), service("$JS.API.STREAM.MSG.GET.*"),
		service("$JS.API.CONSUMER.INFO.*.*"), service(purgeArtifacts), several("$JS.API.DIRECT.GET.>"),
		service("$JS.ACK.>"),
	}
	for _, st := range pulled(station) {
		next := several("$JS.API.CONSUMER.MSG.NEXT." + st + ".*")
		if st == In(station) {
			next.Several = false // the answer is over with its first message, whatever an outsider put into it
		}
		all = append(all, next)
	}
	for _, st := range b.Streams(station, Limits{}) {
		for _, subject := range st.Subjects {
			if !strings.Contains(subject, "*") && !strings.Contains(subject, ">") {
				// An answer is passed on to a subject that is borrowed without a wildcard, and to no other.
				subject = strings.Replace(subject, "station."+station+".", "station.*.", 1)
			}
			all = append(all, service(subject))
		}
		if st.RepublishTo != "" {
			all = append(all, lending{Export: Export{Subject: starred(st.RepublishTo)},
				as: starred(cmp.Or(st.WatchedAs, st.RepublishTo))})
		}
	}
	return all
}

// wildcard stands in the destination of a stream for a token of the subject.
var wildcard = pattern.New(`\{\{wildcard\([0-9]\)\}\}`)

// starred is a destination of a stream as a pattern.
func starred(destination string) string {
	return wildcard.ReplaceAllString(destination, "*")
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

// render writes one user.
func render(b *strings.Builder, u User, password func(string) string) {
	if u.Key != "" {
		fmt.Fprintf(b, "      {\n        nkey: %s\n        permissions: {\n", u.Key)
	} else {
		fmt.Fprintf(b, "      {\n        user: %s\n        password: %s\n        permissions: {\n", u.Name, password(u.Name))
	}
	for _, side := range []struct {
		name     string
		subjects []string
	}{{"publish", u.Publish}, {"subscribe", u.Subscribe}} {
		fmt.Fprintf(b, "          %s: [\n", side.name)
		for _, s := range Allowed(side.subjects) {
			fmt.Fprintf(b, "            %q\n", s)
		}
		b.WriteString("          ]\n")
	}
	b.WriteString("        }\n      }\n")
}
