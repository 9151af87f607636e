package toolrunner

import (
	"os/exec"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
)

func (c Config) gvisor() *gvisor.Backend {
	return gvisor.New(gvisor.Config{Program: c.GVisor, Platform: c.GVisorPlatform})
}

// usesGVisor reports whether the settings say something of gVisor, or its program is where it is looked for.
func (c Config) usesGVisor() bool {
	named := string(sandbox.GVisor)
	if c.Sandbox == named || c.SandboxBackend == named || c.GVisor != "" {
		return true
	}
	_, err := exec.LookPath(gvisor.Program)
	return err == nil
}
