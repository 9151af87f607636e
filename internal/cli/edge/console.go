package edge

import (
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	gw "github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// consoleOf is how the gateway of a station connects consoles.
func consoleOf(st *station.Station, cfg service.Config) *gw.Console {
	buckets := cfg.Buckets().Named()
	return &gw.Console{Address: station.Consoles(st).Address, UserCookie: natsserver.UserCookie,
		PasswordCookie: natsserver.PasswordCookie,
		About: gw.ConsoleAbout{Station: st.Name(), State: buckets.State, Files: buckets.Files,
			Version: service.Version()},
		Login: func(scopes []tokens.Scope) (user, password string) {
			var rights []topology.Right
			for _, s := range scopes {
				rights = append(rights, rightOf[s])
			}
			return station.Consoles(st).Login(rights...)
		}}
}

// rightOf a scope is what its token may do over NATS.
var rightOf = map[tokens.Scope]topology.Right{tokens.Read: topology.MayWatch, tokens.Write: topology.MayDispatch,
	tokens.Answer: topology.MayApprove}
