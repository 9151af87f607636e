package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// NewConsole is how a gateway connects consoles to the NATS server of a station. address is where that takes NATS over
// WebSocket, login gives the user that a console with some rights is.
func NewConsole(base service.Base, cfg service.Gateway, station string, address func() string,
	login func(rights ...topology.Right) (user, password string)) *gateway.Console {
	buckets, cookie := base.Buckets().Named(), ""
	if cfg.GatewayOIDCNATS {
		cookie = topology.TokenCookie
	}
	return &gateway.Console{TokenCookie: cookie, Address: address, UserCookie: topology.UserCookie,
		PasswordCookie: topology.PasswordCookie,
		About: gateway.ConsoleAbout{Station: station, State: buckets.State, Files: buckets.Files,
			Version: service.Version()},
		Login: func(scopes []tokens.Scope) (user, password string) {
			return login(signin.Rights(scopes)...)
		}}
}

// RemoteConsole is that of a server elsewhere, by the settings of the program; nil where they name none.
func RemoteConsole(cfg Config) (*gateway.Console, error) {
	if cfg.GatewayConsole == "" {
		return nil, nil
	}
	u, err := url.Parse(cfg.GatewayConsole)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_CONSOLE is %q, want where NATS takes WebSocket, such as ws://nats:9222",
			cfg.GatewayConsole)
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return nil, fmt.Errorf("INSPAN_GATEWAY_CONSOLE is %q: name the port, such as ws://nats:9222", cfg.GatewayConsole)
	}
	if cfg.GatewayConsolePassword.Empty() {
		return nil, errors.New("INSPAN_GATEWAY_CONSOLE_PASSWORD is not set: it is the password of the console users " +
			"of the NATS server, NATS_CONSOLE_PASSWORD there")
	}
	c := NewConsole(cfg.Base, cfg.Gateway, cfg.Station, func() string { return u.Host },
		func(rights ...topology.Right) (user, password string) {
			if user = topology.ConsoleUser(rights...); user == "" {
				return "", ""
			}
			return user, cfg.GatewayConsolePassword.Reveal()
		})
	c.TLS = u.Scheme == "wss"
	return c, nil
}
