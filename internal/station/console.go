package station

import "github.com/inspan/inspan/internal/topology"

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
	if user = topology.ConsoleUser(rights...); !c.s.cfg.Console || user == "" {
		return "", ""
	}
	c.s.users.administering.Lock()
	defer c.s.users.administering.Unlock()
	return user, c.s.users.passwords[user].Reveal()
}
