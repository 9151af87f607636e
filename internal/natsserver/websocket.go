package natsserver

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/inspan/inspan/internal/topology"
)

// webSocket has a server listen for WebSocket on loopback, too.
func webSocket(cfg Config, o *server.Options) {
	if cfg.WebSocketPort != 0 {
		o.Websocket = server.WebsocketOpts{Host: "127.0.0.1", Port: cfg.WebSocketPort, NoTLS: true,
			AllowedOrigins: []string{topology.NoPage}, UsernameCookie: topology.UserCookie,
			PasswordCookie: topology.PasswordCookie, TokenCookie: topology.TokenCookie}
	}
}

// WebSocketAddress returns where the server takes NATS over WebSocket, HOST:PORT; "" if nowhere.
func (s *Server) WebSocketAddress() string {
	if s.cfg.WebSocketPort == 0 {
		return ""
	}
	return strings.TrimPrefix(now(s).WebsocketURL(), "ws://")
}
