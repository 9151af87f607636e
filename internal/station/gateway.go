package station

import (
	"context"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
)

// Gateway connects to a station as the user of its gateway, who has the rights of a person and answers gates in the
// gateway's name alone. The connection is closed with the station.
func Gateway(ctx context.Context, s *Station) (*jet.Conn, error) {
	conn, err := s.users.connect(ctx, events.Gateway, "")
	if err == nil {
		s.roleConns = append(s.roleConns, conn)
	}
	return conn, err
}
