package cgroup

import "github.com/inspan/inspan/internal/sandbox"

// Capability tells whether groups enforce a limit on this machine.
func Capability(d *Driver, limit sandbox.Wall) sandbox.Capability {
	if err := d.Has(limit); err != nil {
		return sandbox.Capability{Wall: limit, Why: err.Error()}
	}
	return sandbox.Capability{Wall: limit, Enforced: true, How: "control group, " + d.Version()}
}
