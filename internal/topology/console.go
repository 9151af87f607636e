package topology

import (
	"slices"
	"strings"
)

// A gateway that connects a client over WebSocket names a user of the server in these cookies. They count where the
// client itself names none.
const (
	UserCookie     = "inspan_user"
	PasswordCookie = "inspan_password"
)

// NoPage is the only origin that the listener for WebSocket takes, and no web page has it: the names below .invalid are
// no one's. Pages connect through a gateway, which knows its own origins; programs send none.
const NoPage = "https://pages.invalid"

// consolePrefix begins the names of the users that consoles with a token are. Each of them has the right to watch, and
// the names say what else they may do.
const consolePrefix = "console"

// ConsoleUser is the name of the user that a console with these rights is; "" where it may not watch and so is none.
func ConsoleUser(rights ...Right) string {
	if !slices.Contains(rights, MayWatch) {
		return ""
	}
	name := consolePrefix
	for _, r := range []Right{MayDispatch, MayApprove} {
		if slices.Contains(rights, r) {
			name += "-" + string(r)
		}
	}
	return name
}

// OfConsole reports whether a user is one of Consoles.
func OfConsole(user string) bool {
	return user == consolePrefix || strings.HasPrefix(user, consolePrefix+"-")
}

// Consoles are the users of consoles. They answer gates in no one's name: a token does not prove who has it. As a token
// does over HTTP they start and steer runs, and nothing else: no sessions, schedules, work items and addresses.
func (b Buckets) Consoles(station string) []User {
	var all []User
	for _, more := range [][]Right{nil, {MayDispatch}, {MayApprove}, {MayDispatch, MayApprove}} {
		rights := append([]Right{MayWatch}, more...)
		user := b.Outsider(station, ConsoleUser(rights...), "", rights...)
		own := "station." + station + "."
		user.Publish = slices.DeleteFunc(user.Publish, func(subject string) bool {
			rest, of := strings.CutPrefix(subject, own)
			return of && rest != "task" && !strings.HasPrefix(rest, "task.") && !strings.HasPrefix(rest, "run.")
		})
		all = append(all, user)
	}
	return all
}
