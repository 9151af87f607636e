package service

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
)

// optIn are the backends that are reached only where a station or an agent file names them. Making them asks nobody
// anything.
func (c Config) optIn() []sandbox.Backend { return c.remotes() }

// OptIn returns the backends that the settings name, or give what they need.
func (c Config) OptIn() []sandbox.Backend {
	return c.remotesNamed()
}

// reapers remove what lost toolrunners left with the backends of OptIn.
func (c Config) reapers() []func(context.Context) (int, error) { return c.remoteReapers() }
