package toolrunner

import (
	"net/netip"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/sandbox/broker"
)

// egress returns the way out of this process's calls.
func (h *wiring) egress() (*egress.Proxy, error) {
	if h.deps.Egress != nil {
		return h.deps.Egress, nil
	}
	held, err := h.cfg.HostCredentials()
	if err != nil {
		return nil, err
	}
	closed, err := h.cfg.closed()
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{Credentials: held, Closed: func(to netip.AddrPort) bool {
		return broker.Own(to) ||
			closed(to)
	}})
}
