package cgroup

import "github.com/inspan/inspan/internal/sandbox"

// Capability tells whether groups enforce a limit on this machine.
func Capability(d *Driver, limit sandbox.Isolation) sandbox.Capability {
	if err := d.Has(limit); err != nil {
		return sandbox.Capability{Isolation: limit, Why: err.Error()}
	}
	return sandbox.Capability{Isolation: limit, Enforced: true, How: "control group, " + d.Version()}
}

// Capabilities tells that of all limits that groups can have.
func Capabilities(d *Driver) (list []sandbox.Capability) {
	for _, limit := range []sandbox.Isolation{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs} {
		list = append(list, Capability(d, limit))
	}
	return list
}
