package service

import (
	"github.com/inspan/inspan/internal/sandbox"
)

// optIn are the backends that are reached only where a station or an agent file names them. Making them asks nobody
// anything.
func (c Config) optIn() []sandbox.Backend { return []sandbox.Backend{c.gvisor()} }

// OptIn returns the backends that the settings name, or give what they need.
func (c Config) OptIn() []sandbox.Backend {
	if c.usesGVisor() {
		return []sandbox.Backend{c.gvisor()}
	}
	return nil
}
