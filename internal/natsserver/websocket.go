package natsserver

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// A gateway that connects a client over WebSocket names a user of the server in these cookies. They count where the
// client itself names none.
const (
	UserCookie     = "inspan_user"
	PasswordCookie = "inspan_password"
)

// noPage is the only origin that the listener for WebSocket takes, and no web page has it: the names below .invalid are
// no one's. Pages connect through a gateway, which knows its own origins; programs send none.
const noPage = "https://pages.invalid"

// webSocket has a server listen for WebSocket on loopback, too.
func (cfg Config) webSocket(o *server.Options) {
	if cfg.WebSocketPort != 0 {
		o.Websocket = server.WebsocketOpts{Host: "127.0.0.1", Port: cfg.WebSocketPort, NoTLS: true,
			AllowedOrigins: []string{noPage}, UsernameCookie: UserCookie, PasswordCookie: PasswordCookie}
	}
}

// WebSocketAddress returns where the server takes NATS over WebSocket, HOST:PORT; "" if nowhere.
func (s *Server) WebSocketAddress() string {
	if s.cfg.WebSocketPort == 0 {
		return ""
	}
	return strings.TrimPrefix(s.now().WebsocketURL(), "ws://")
}
