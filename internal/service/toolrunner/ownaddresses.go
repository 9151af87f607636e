package toolrunner

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/broker"
	"github.com/inspan/inspan/internal/service"
)

// How long a name server may take, and how long its answer is good.
const (
	resolveWait = 2 * time.Second
	resolveKeep = 30 * time.Second
)

// shut knows which addresses are the station's.
type shut struct {
	list    []service.Listener
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	mu sync.Mutex
	// Guarded by mu: the addresses of names, and until when they are good.
	known map[string][]netip.Addr
	until map[string]time.Time
}

// closed reports which addresses commands must not connect to.
func (c Config) closed() (func(netip.AddrPort) bool, error) {
	servers, err := c.NATS.Listeners()
	more, err2 := c.Sandboxes.Listeners()
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	list := append(servers, more...)
	s := &shut{list: list, known: map[string][]netip.Addr{}, until: map[string]time.Time{},
		resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}}
	return s.has, nil
}

func (s *shut) has(to netip.AddrPort) bool {
	for _, l := range s.list {
		if l.Port == to.Port() && s.is(l.Host, to.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// is reports whether an address is one of a host. One whose addresses cannot be found has all of them.
func (s *shut) is(host string, ip netip.Addr) bool {
	all, ok := s.addresses(host)
	if !ok {
		return true
	}
	for _, a := range all {
		if a = a.Unmap(); a.WithZone("") == ip.WithZone("") || broker.Local(a) && broker.Local(ip) {
			return true
		}
	}
	return false
}

func (s *shut) addresses(host string) ([]netip.Addr, bool) {
	if host == "" || host == "*" {
		return []netip.Addr{netip.IPv6Unspecified()}, true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until[host]) {
		return s.known[host], true
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	found, err := s.resolve(ctx, host)
	if err != nil || len(found) == 0 {
		return s.known[host], len(s.known[host]) > 0
	}
	s.known[host], s.until[host] = found, time.Now().Add(resolveKeep)
	return found, true
}

// Reaches tells what follows where the sandbox of a mode leaves the station within reach of its commands, as host does;
// it is empty where nothing does.
func (c Config) Reaches(mode sandbox.Mode) string {
	switch {
	case c.OnlySigned:
		return ""
	case c.SandboxReaches:
		return "commands of sandboxes that do not keep them from the station can answer the gates of their own run: INSPAN_SANDBOX_REACHES_STATION accepts it"
	case mode == sandbox.Host:
		return "tools that need host are refused, because its commands could answer the gates of their own run: see INSPAN_ONLY_SIGNED and INSPAN_SANDBOX_REACHES_STATION"
	default:
		return ""
	}
}

// reaches says whether sandboxes are opened that cannot keep commands from the station: where answers to gates are
// signed nothing follows from it, and an operator may accept it.
func (c Config) reaches() bool { return c.OnlySigned || c.SandboxReaches }
