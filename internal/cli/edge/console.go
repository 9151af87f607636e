package edge

import (
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/gateway"
	"github.com/inspan/inspan/internal/station"
	gw "github.com/inspan/inspan/services/gateway"
)

// consoleOf is how the gateway of a station connects consoles.
func consoleOf(st *station.Station, cfg service.Config) *gw.Console {
	c := station.Consoles(st)
	return gateway.NewConsole(cfg.Base, cfg.Gateway, st.Name(), c.Address, c.Login)
}
