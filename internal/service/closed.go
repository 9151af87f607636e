package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/broker"
	"github.com/inspan/inspan/internal/sandbox/pool"
)

const (
	// natsPort is that of an address that names none.
	natsPort = "4222"
	// resolveWait is how long a name server may take, resolveKeep how long its answer is good.
	resolveWait = 2 * time.Second
	resolveKeep = 30 * time.Second
)

// listening is an address at which something of the station listens.
type listening struct {
	host string
	port uint16
}

// listeners are those that the settings name: what listens in this process is known without.
func (c *Config) listeners() ([]listening, error) {
	var list []listening
	add := func(text, port string) error {
		if at := strings.Index(text, "://"); at >= 0 {
			u, err := url.Parse(text)
			if err != nil {
				return errors.New("it is no address")
			}
			text = u.Host
		}
		host, number, err := net.SplitHostPort(text)
		if err != nil {
			host, number = strings.Trim(text, "[]"), port
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 {
			return errors.New("want HOST:PORT")
		}
		list = append(list, listening{host: host, port: uint16(n)})
		return nil
	}
	for _, setting := range []struct{ name, port, text string }{{"INSPAN_NATS_URL", natsPort, c.NATSURL}, {"INSPAN_NATS_MONITOR", "8222", c.NATSMonitor},
		{"INSPAN_SANDBOX_CLOSED", "", strings.Join(c.SandboxClosed, ",")}} {
		for entry := range strings.SplitSeq(setting.text, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if err := add(entry, setting.port); err != nil {
				return nil, fmt.Errorf("%s: an entry is not permitted: %w", setting.name, err) // it may hold a password
			}
		}
	}
	return list, nil
}

// shut knows which addresses are the station's.
type shut struct {
	list    []listening
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	mu sync.Mutex
	// Guarded by mu: the addresses of names, and until when they are good.
	known map[string][]netip.Addr
	until map[string]time.Time
}

// closed reports which addresses commands must not connect to.
func (c *Config) closed() (func(netip.AddrPort) bool, error) {
	list, err := c.listeners()
	if err != nil {
		return nil, err
	}
	s := &shut{list: list, known: map[string][]netip.Addr{}, until: map[string]time.Time{}, resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	return s.has, nil
}

func (s *shut) has(to netip.AddrPort) bool {
	for _, l := range s.list {
		if l.port == to.Port() && s.is(l.host, to.Addr().Unmap()) {
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

// Reaches tells what follows where the sandbox of a mode leaves the station within reach of its commands, as host does; it is empty
// where nothing does.
func (c *Config) Reaches(mode sandbox.Mode) string {
	switch {
	case c.OnlySigned:
		return ""
	case c.SandboxReaches:
		return "commands of sandboxes that do not keep them from the station can answer the gates of their own run: INSPAN_SANDBOX_REACHES_STATION accepts it"
	case mode == sandbox.Host && c.reach() == pool.ReachHost:
		return "commands of host reach the station and can answer the gates of their own run: use bwrap or landlock, or INSPAN_ONLY_SIGNED"
	case mode == sandbox.Host:
		return "tools that need host are refused, because its commands could answer the gates of their own run: see INSPAN_ONLY_SIGNED and INSPAN_SANDBOX_REACHES_STATION"
	default:
		return ""
	}
}

// reach says whose commands may reach the station although their sandbox cannot keep them from it: where answers to gates are
// signed nothing follows from it, and an operator may accept it. Who sets host for the station has accepted what host is.
func (c *Config) reach() pool.Reach {
	switch host := string(sandbox.Host); {
	case c.OnlySigned || c.SandboxReaches:
		return pool.ReachAny
	case c.Sandbox == host || c.SandboxBackend == host:
		return pool.ReachHost
	default:
		return pool.ReachNone
	}
}
