package natsserver

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Ailment says what the server in this process cannot do any more, nil where it is well, and where it was shut down or
// is not up yet. A stream whose write has failed, as on a full disk, takes nothing until the server is started again,
// also where there is room by then.
func (s *Server) Ailment() error {
	if !s.up() {
		return nil
	}
	if h := now(s).Healthz(&server.HealthzOptions{}); h.Error != "" && s.up() { // else that is of its end
		return fmt.Errorf("nats server: %s", h.Error)
	}
	return nil
}

func (s *Server) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serves
}

// HasRoom reports whether the disk of the server's store has more free than what is to stay free, as far as that is
// known.
func (s *Server) HasRoom() bool {
	free, ok := freeBytes(s.cfg.StoreDir)
	return !ok || free > diskReserve
}
