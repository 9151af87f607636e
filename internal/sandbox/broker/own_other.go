//go:build !linux

package broker

import "net/netip"

// Own is false: what listens here is not known on this system, whose sandboxes leave the network as it is.
func Own(netip.AddrPort) bool { return false }

// Local reports whether packets to an address stay on this machine, as far as that is known.
func Local(ip netip.Addr) bool { return ip.Unmap().IsLoopback() || ip.IsUnspecified() }
