package policy

import "net/netip"

// nowhere are the networks that are never reached: this host, its links, groups, and the addresses where clouds tell
// machines their keys (Amazon and most others 169.254.169.254 and fd00:ec2::254, Alibaba 100.100.100.200, Azure
// 168.63.129.16, Oracle 192.0.0.192).
func nowhere() []string {
	return []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"100.100.100.200/32", "168.63.129.16/32",
		"::/8", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fe80::/10", "fec0::/10", "ff00::/8",
		"fd00:ec2::254/128"}
}

// private are the networks that are not public but may be named one address at a time: RFC 1918, 4193, 6598 and what is
// kept for tests and texts (RFC 2544, 5737, 3849, 9637).
func private() []string {
	return []string{"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"fc00::/7", "2001::/23", "2001:db8::/32", "3fff::/20"}
}

// tables are the two lists, parsed once; nothing changes them.
var tables = struct{ nowhere, private []netip.Prefix }{prefixes(nowhere()), prefixes(private())}

func prefixes(list []string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// never reports whether an address may not even be written in a list.
func never(a netip.Addr) bool { return !a.IsValid() || within(tables.nowhere, a.Unmap().WithZone("")) }

// Public reports whether an address is one of the public Internet: of IPv6 only 2000::/3, of both nothing that the
// registries of special addresses (RFC 6890) keep for something else.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if never(a) || a.Zone() != "" || within(tables.private, a) {
		return false
	}
	return a.Is4() || a.As16()[0]>>5 == 1
}
