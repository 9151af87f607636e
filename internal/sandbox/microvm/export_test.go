package microvm

import (
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// MachineOf is the machine of a sandbox, for tests that do in it what no command may.
func MachineOf(s sandbox.Sandbox) mirror.Remote { return s.(*instance).machine }
