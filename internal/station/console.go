package station

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/topology"
)

// consolePrefix begins the names of the users that consoles with a token are. Each of them has the right to watch, and
// the names say what else they may do.
const consolePrefix = "console"

// consoleUser is the name of the user with these rights.
func consoleUser(rights []topology.Right) string {
	name := consolePrefix
	for _, r := range []topology.Right{topology.MayDispatch, topology.MayApprove} {
		if slices.Contains(rights, r) {
			name += "-" + string(r)
		}
	}
	return name
}

// consoleUsers are the users of consoles. They answer gates in no one's name: a token does not prove who has it. As a
// token does over HTTP they start and steer runs, and nothing else: no sessions, schedules, work items and addresses.
func (cfg Config) consoleUsers() []topology.User {
	var all []topology.User
	for _, more := range [][]topology.Right{nil, {topology.MayDispatch}, {topology.MayApprove},
		{topology.MayDispatch, topology.MayApprove}} {
		rights := append([]topology.Right{topology.MayWatch}, more...)
		user := cfg.buckets().Outsider(cfg.Station, consoleUser(rights), "", rights...)
		own := "station." + cfg.Station + "."
		user.Publish = slices.DeleteFunc(user.Publish, func(subject string) bool {
			rest, of := strings.CutPrefix(subject, own)
			return of && rest != "task" && !strings.HasPrefix(rest, "task.") && !strings.HasPrefix(rest, "run.")
		})
		all = append(all, user)
	}
	return all
}

func (cfg Config) webSocketPort() int {
	if cfg.Console {
		return -1 // any that is free
	}
	return 0
}

// Console is how a gateway connects consoles to a station.
type Console struct{ s *Station }

// Consoles returns how consoles are connected to a station.
func Consoles(s *Station) Console { return Console{s} }

// Address is where the station takes NATS over WebSocket, HOST:PORT; empty where it does not.
func (c Console) Address() string {
	if c.s.server == nil {
		return ""
	}
	return c.s.server.WebSocketAddress()
}

// Login returns the user of the server that a console with some rights is, and the password; both are empty where there
// is none. MayWatch must be among the rights.
func (c Console) Login(rights ...topology.Right) (user, password string) {
	if !c.s.cfg.Console || !slices.Contains(rights, topology.MayWatch) {
		return "", ""
	}
	c.s.users.administering.Lock()
	defer c.s.users.administering.Unlock()
	user = consoleUser(rights)
	return user, c.s.users.passwords[user].Reveal()
}
