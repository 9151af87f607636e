package service

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/sandbox/broker"
	"github.com/inspan/inspan/internal/secret"
)

// egress returns the way out of this process's calls.
func (h *Host) egress() (*egress.Proxy, error) {
	if h.ports.Egress != nil {
		return h.ports.Egress, nil
	}
	held, err := h.cfg.credentials()
	if err != nil {
		return nil, err
	}
	closed, err := h.cfg.closed()
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{Credentials: held, Closed: func(to netip.AddrPort) bool { return broker.Own(to) || closed(to) }})
}

// credentials reads what is added to requests for hosts. An error names an entry by its place and never repeats it.
func (c *Config) credentials() ([]egress.Credential, error) {
	if c.Credentials.Empty() {
		return nil, nil
	}
	var out []egress.Credential
	for entry := range strings.SplitSeq(c.Credentials.Reveal(), ",") {
		host, header, ok := strings.Cut(strings.TrimSpace(entry), "=")
		name, value, full := strings.Cut(header, ":")
		host, plain := strings.CutPrefix(strings.TrimSpace(host), "http://")
		if !ok || !full || host == "" {
			return nil, fmt.Errorf("INSPAN_EGRESS_CREDENTIALS: entry %d is not HOST=HEADER: VALUE", len(out)+1)
		}
		held := egress.Credential{Host: host, Plain: plain, Header: strings.TrimSpace(name), Value: secret.New(value)}
		if err := held.Check(); err != nil {
			return nil, fmt.Errorf("INSPAN_EGRESS_CREDENTIALS: entry %d: %w", len(out)+1, err)
		}
		out = append(out, held)
	}
	return out, nil
}
