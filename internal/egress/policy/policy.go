// Package policy decides what a sandbox may reach: hosts by name, ports, and addresses.
//
// Promises: it is closed by default, and it decides about texts and numbers alone: no socket, no name server, no clock.
// Names are compared as lower-case ASCII without a last dot, so that no other alphabet looks like an allowed one. What
// some program could read as an address (127.1, 0x7f.1, 2130706433, 010.0.0.1) is an address here or nothing. A name
// that is allowed opens only public addresses; one that is not public is reached where a list writes that very address,
// and loopback, link-local, multicast and the addresses where clouds keep their metadata never are.
package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Limits of a list.
const (
	// MaxRules is the most entries of a list of allowed hosts.
	MaxRules = 256
	// MaxHost is the most bytes of a host's name, that of the DNS.
	MaxHost  = 253
	maxLabel = 63
)

// The ports of an entry that names none.
const (
	PortHTTP  = 80
	PortHTTPS = 443
)

// Target is what somebody wants to reach: either a name or an address, and a port.
type Target struct {
	// Name in lower case without a last dot; empty where Addr is valid.
	Name string
	Addr netip.Addr
	Port uint16
}

// Host returns the name or the address as text, without a port.
func (t Target) Host() string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Name
}

func (t Target) String() string {
	if t.Addr.Is6() {
		return "[" + t.Addr.String() + "]:" + strconv.Itoa(int(t.Port))
	}
	return t.Host() + ":" + strconv.Itoa(int(t.Port))
}

// ParseTarget reads "host:port", where host is a name, an IPv4 address of four decimal numbers or an IPv6 address in
// brackets. port 0 means that the text must have one. The error is a *Refusal.
func ParseTarget(text string, port uint16) (Target, error) {
	host, number, err := split(text)
	if err != nil {
		return Target{}, refuse(BadHost, text, err.Error(), "")
	}
	t, err := ParseHost(host)
	if err != nil {
		return Target{}, err
	}
	switch {
	case number != "":
		if t.Port, err = parsePort(number); err != nil {
			return Target{}, refuse(BadHost, text, err.Error(), "")
		}
	case port == 0:
		return Target{}, refuse(BadHost, text, "the port is missing", "")
	default:
		t.Port = port
	}
	return t, nil
}

// ParseHost reads a name or an address, IPv6 with or without brackets, without a port. The error is a *Refusal.
func ParseHost(host string) (Target, error) {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
		if !strings.Contains(host, ":") {
			return Target{}, refuse(BadHost, host, "brackets are for IPv6 addresses", "")
		}
	}
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			return Target{}, refuse(BadHost, host, "it is not an IPv6 address without a zone", "")
		}
		return Target{Addr: addr.Unmap()}, nil
	}
	name, err := parseName(host)
	if err != nil {
		return Target{}, refuse(BadHost, host, err.Error(), "")
	}
	if !numeric(name) {
		return Target{Name: name}, nil
	}
	addr, err := netip.ParseAddr(name)
	if err != nil || !addr.Is4() {
		return Target{}, refuse(BadHost, host, "it is another spelling of an address",
			"write an IPv4 address as four decimal numbers without leading zeros")
	}
	return Target{Addr: addr}, nil
}

// split takes a port from a text; number is empty where there is none.
func split(text string) (host, number string, err error) {
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", "", errors.New("a bracket is not closed")
		}
		rest := text[end+1:]
		if rest == "" {
			return text, "", nil
		}
		if len(rest) < 2 || rest[0] != ':' {
			return "", "", errors.New("want a colon and a port after the bracket")
		}
		return text[:end+1], rest[1:], nil
	}
	switch strings.Count(text, ":") {
	case 0:
		return text, "", nil
	case 1:
		host, number, _ = strings.Cut(text, ":")
		if number == "" {
			return "", "", errors.New("the port is missing")
		}
		return host, number, nil
	}
	return "", "", errors.New("want an IPv6 address in brackets")
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' || text[0] == '+' {
		return 0, errors.New("want a port of 1 to 65535")
	}
	return uint16(n), nil
}

// parseName checks a name and brings it into the one form that is compared.
func parseName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > MaxHost {
		return "", fmt.Errorf("want a name of 1 to %d bytes", MaxHost)
	}
	for i := range len(name) {
		c := name[i]
		if c >= 0x80 {
			return "", errors.New("want ASCII: write other scripts in Punycode (xn--)")
		}
		if !letter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return "", fmt.Errorf("the character %q is not allowed in a host name", c)
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf("want 1 to %d characters between the dots, and no - at an end", maxLabel)
		}
	}
	return strings.ToLower(name), nil
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// numeric reports whether a program could take a name for an address: its last part is a number, also a hexadecimal
// one.
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(last, "0x") {
		last = strings.TrimLeft(last[2:], "0123456789abcdef")
		return last == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
