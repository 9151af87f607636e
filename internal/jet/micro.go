package jet

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/micro"

	"github.com/inspan/inspan/pkg/events"
)

// Micro makes a service visible: `nats micro ls` lists it as inspan-{role}, and a request on inspan.{role}.status is
// answered by one instance with status as JSON, which also goes into the service's statistics. version has the form
// 1.2.3, status may be nil. stop must be called before the connection is closed.
func (c *Conn) Micro(role events.Service, version string, status func() any) (stop func() error, err error) {
	if status == nil {
		status = func() any { return struct{}{} }
	}
	srv, err := micro.AddService(c.nc, micro.Config{
		Name: "inspan-" + string(role), Version: version, Description: "Inspan " + string(role),
		StatsHandler: func(*micro.Endpoint) any { return status() },
	})
	if err != nil {
		return nil, fmt.Errorf("service inspan-%s: %w", role, err)
	}
	err = srv.AddEndpoint("status", micro.HandlerFunc(func(r micro.Request) {
		b, err := json.Marshal(status())
		if err != nil {
			_ = r.Error("500", err.Error(), nil) // whoever asked has gone
			return
		}
		_ = r.Respond(b)
	}), micro.WithEndpointSubject("inspan."+string(role)+".status"))
	if err != nil {
		_ = srv.Stop()
		return nil, fmt.Errorf("service inspan-%s: %w", role, err)
	}
	// The server knows of it when Micro returns.
	if err := c.nc.FlushTimeout(requestWait); err != nil {
		_ = srv.Stop()
		return nil, fmt.Errorf("service inspan-%s: %w", role, err)
	}
	return srv.Stop, nil
}
