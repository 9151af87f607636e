package toolrunner

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/service"
)

func TestClosed(t *testing.T) {
	t.Parallel()
	c := Config{Base: service.Base{NATS: service.NATS{NATSURL: "nats://user:pw@127.0.0.1:4222, tls://nats.example, 198.51.100.7:5222", NATSMonitor: "http://127.0.0.1:8222"}}, Sandboxes: service.Sandboxes{SandboxClosed: []string{"198.51.100.9:9090", ":7000"}}}
	list, err := c.NATS.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	more, err := c.Sandboxes.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]netip.Addr{"nats.example": {netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1")}}
	s := &shut{list: append(list, more...), known: map[string][]netip.Addr{}, until: map[string]time.Time{}, resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		return answers[host], nil
	}}
	for address, want := range map[string]bool{
		"127.0.0.1:4222": true, "127.3.2.1:4222": true, "[::1]:4222": true, "[::ffff:127.0.0.1]:4222": true, "127.0.0.1:4223": false, "127.0.0.1:8222": true,
		"198.51.100.1:4222": true, "[2001:db8::1]:4222": true, "198.51.100.2:4222": false, "198.51.100.1:443": false, "198.51.100.7:5222": true, "198.51.100.7:4222": false,
		"198.51.100.9:9090": true, "198.51.100.9:9091": false, "127.0.0.1:7000": true, "198.51.100.9:7000": false,
	} {
		t.Run("SBX-13 "+address, func(t *testing.T) {
			t.Parallel()
			if got := s.has(netip.MustParseAddrPort(address)); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	t.Run("SBX-13 a name whose addresses cannot be found closes its port", func(t *testing.T) {
		t.Parallel()
		s := &shut{list: []service.Listener{{Host: "nats.example", Port: 4222}}, known: map[string][]netip.Addr{}, until: map[string]time.Time{}, resolve: func(context.Context, string) ([]netip.Addr, error) {
			return nil, errors.New("no name server")
		}}
		if !s.has(netip.MustParseAddrPort("198.51.100.2:4222")) || s.has(netip.MustParseAddrPort("198.51.100.2:443")) {
			t.Error("want that port closed and no other")
		}
	})
	t.Run("SBX-13 an entry that is no address is refused, without its text", func(t *testing.T) {
		t.Parallel()
		for _, c := range []service.Sandboxes{{SandboxClosed: []string{"somewhere"}}, {SandboxClosed: []string{"a:0"}}, {SandboxClosed: []string{"a:b"}}} {
			if _, err := c.Listeners(); err == nil {
				t.Errorf("%v: no error", c.SandboxClosed)
			}
		}
	})
	host := service.Sandboxes{Sandbox: "host"}
	for want, list := range map[bool][]Config{
		false: {{}, {Sandboxes: service.Sandboxes{Sandbox: "auto"}}, {Sandboxes: host}, {Sandboxes: service.Sandboxes{SandboxBackend: "host"}}},
		true:  {{Sandboxes: host, Approvals: service.Approvals{OnlySigned: true}}, {Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}}},
	} {
		for _, c := range list {
			if got := c.reaches(); got != want {
				t.Errorf("%s, %s, %v, %v: got %v, want %v", c.Sandbox, c.SandboxBackend, c.OnlySigned, c.SandboxReaches, got, want)
			}
		}
	}
}
