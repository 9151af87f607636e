package agentfile

import (
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/pkg/events"
)

// hosts reads what a sandbox may reach. A list narrows an enabled network, so Network is false then: whoever does not
// know lists keeps it closed (SBX-13).
func (p *parsing) hosts(root *node, out *events.Sandbox) {
	n := root.get("sandbox", "network", "allowed_hosts")
	if n == nil {
		return
	}
	for _, item := range n.items {
		if item.kind != isText {
			continue // the schema has said so
		}
		if _, err := policy.ParseRule(item.text); err != nil {
			p.failAt(item, Error{Code: CodeValue, Message: "the value is not a host",
				Expected: "a name, *.name, * or an address, with a port where it is not 80 or 443",
				Actual:   shown(item.text), Hint: err.Error()})
		}
	}
	switch {
	case !out.Network:
		p.warn(Warning{Code: CodeNoEffect, Line: n.line, Path: n.path, Message: "has no effect: the network is off",
			Hint: "write enabled: true beside it"})
		return
	case len(n.items) > 0 && out.Mode == "host":
		p.failAt(n, Error{Code: CodeConflict, Message: "sandbox.mode: host cannot restrict commands to allowed hosts",
			Expected: "a mode that can restrict them, such as bwrap", Actual: shown(out.Mode),
			Hint: "write mode: bwrap, or leave allowed_hosts out"})
	}
	out.Network, out.AllowedHosts = false, n.words()
}
