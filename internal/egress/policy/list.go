package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Rule is one entry of a list of allowed hosts.
type Rule struct {
	// Text as it was written.
	Text string
	name string     // exact, or what follows "*." where below
	addr netip.Addr // valid where an address is written
	// below means all names below name at any depth, all every name.
	below, all bool
	// port 0 means 80 and 443, and with every all ports.
	port  uint16
	every bool
}

// ParseRule reads one entry:
//
//	api.example.com        that name, ports 80 and 443
//	*.example.com          every name below, at any depth, but not example.com itself
//	*                      every name that leads to a public address
//	git.example.com:22     that port alone; :* is every port
//	10.1.2.3, [fd00::1]    that address alone, also where it is not public
func ParseRule(text string) (Rule, error) {
	r := Rule{Text: text}
	host, number, err := split(text)
	switch {
	case err != nil:
		return Rule{}, entryError(text, err)
	case number == "*":
		r.every = true
	case number != "":
		if r.port, err = parsePort(number); err != nil {
			return Rule{}, entryError(text, err)
		}
	}
	if host == "*" {
		r.all = true
		return r, nil
	}
	host, r.below = strings.CutPrefix(host, "*.")
	if strings.Contains(host, "*") {
		return Rule{}, entryError(text, errors.New("a * is allowed alone or before the first dot"))
	}
	t, err := ParseHost(host)
	if err != nil {
		if refused, ok := errors.AsType[*Refusal](err); ok {
			err = errors.New(refused.Reason)
		}
		return Rule{}, entryError(text, err)
	}
	r.name, r.addr = t.Name, t.Addr
	switch {
	case r.below && r.addr.IsValid():
		return Rule{}, entryError(text, errors.New("an address has no subdomains"))
	case r.addr.IsValid() && never(r.addr):
		return Rule{}, entryError(text,
			errors.New("loopback, link-local, multicast and metadata addresses are never reachable"))
	}
	return r, nil
}

func entryError(text string, err error) error {
	if len(text) > maxShown {
		text = text[:maxShown]
	}
	return fmt.Errorf("allowed host %q: %w", text, err)
}

func (r Rule) fits(t Target) bool {
	switch {
	case r.every, r.port == t.Port && r.port != 0:
	case r.port != 0, t.Port != PortHTTP && t.Port != PortHTTPS:
		return false
	}
	if t.Addr.IsValid() {
		return r.addr == t.Addr
	}
	return r.all || r.name != "" && (!r.below && r.name == t.Name || r.below && strings.HasSuffix(t.Name, "."+r.name))
}

// List is what may be reached. The zero List lets nothing through.
type List struct{ rules []Rule }

// ParseList reads entries as ParseRule does, at most MaxRules.
func ParseList(entries []string) (List, error) {
	if len(entries) > MaxRules {
		return List{}, fmt.Errorf("there are %d allowed hosts, want at most %d", len(entries), MaxRules)
	}
	l := List{rules: make([]Rule, 0, len(entries))}
	for _, text := range entries {
		r, err := ParseRule(text)
		if err != nil {
			return List{}, err
		}
		l.rules = append(l.rules, r)
	}
	return l, nil
}

// Empty reports whether nothing can be reached.
func (l List) Empty() bool { return len(l.rules) == 0 }

// Judge returns the first entry that lets a target through; the error is a *Refusal that says what would.
func (l List) Judge(t Target) (Rule, error) {
	if t.Addr.IsValid() && never(t.Addr) {
		return Rule{}, Refuse(NotPublic, t, "loopback, link-local, multicast and metadata addresses are never reachable", "")
	}
	for _, r := range l.rules {
		if r.fits(t) {
			return r, nil
		}
	}
	entry := t.String()
	if t.Port == PortHTTP || t.Port == PortHTTPS {
		entry = strings.TrimSuffix(entry, fmt.Sprintf(":%d", t.Port))
	}
	return Rule{}, Refuse(NotAllowed, t, "it is not in allowed_hosts",
		fmt.Sprintf("the owner of the agent can add %q to sandbox.network.allowed_hosts in its file", entry))
}

// Reach returns those of the addresses of a target that may be dialled: the public ones, and those that the list writes
// as addresses. The error is a *Refusal where none is left.
func (l List) Reach(t Target, addrs []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if a.Zone() == "" && (Public(a) || l.written(a, t.Port)) {
			out = append(out, a)
		}
	}
	switch {
	case len(addrs) == 0:
		return nil, Refuse(NoAddress, t, "the name has no address", "")
	case len(out) == 0:
		return nil, Refuse(NotPublic, t, "it resolves to an address that is not public", "an address of a private network is reachable only if allowed_hosts has that address; loopback and metadata addresses are never reachable")
	}
	return out, nil
}

func (l List) written(a netip.Addr, port uint16) bool {
	if never(a) {
		return false
	}
	for _, r := range l.rules {
		if r.addr.IsValid() && r.fits(Target{Addr: a, Port: port}) {
			return true
		}
	}
	return false
}

// CheckHosts says what is wrong with a list of hosts.
func CheckHosts(hosts []string) error {
	for _, h := range hosts {
		if h == "*" {
			continue
		}
		if _, err := ParseHost(strings.TrimPrefix(h, "*.")); err != nil {
			return fmt.Errorf("host %.100q: want a name, *.NAME for all below it, or *: %w", h, err)
		}
	}
	return nil
}
