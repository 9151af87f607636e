package toolrunner

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker"
)

// optIn are the backends that are reached only where a station or an agent file names them. Making them asks no one
// anything.
func (c Config) optIn() []sandbox.Backend {
	return append(append([]sandbox.Backend{c.docker(), c.gvisor(), c.wasm()}, c.machines()...), c.remotes()...)
}

// OptIn returns the backends that the settings name, or give what they need.
func (c Config) OptIn() []sandbox.Backend {
	var out []sandbox.Backend
	if c.usesDocker() {
		out = append(out, c.docker())
	}
	if c.usesGVisor() {
		out = append(out, c.gvisor())
	}
	if c.usesWASM() {
		out = append(out, c.wasm())
	}
	return append(append(out, c.machinesNamed()...), c.remotesNamed()...)
}

// reapers remove what lost toolrunners left with the backends of OptIn.
func (c Config) reapers() []func(context.Context) (int, error) {
	out := c.remoteReapers()
	if c.usesDocker() {
		out = append(out, c.docker().Reap)
	}
	return out
}

func (c Config) docker() *docker.Backend {
	return docker.New(docker.Config{Host: c.DockerHost, Image: c.DockerImage, Pull: c.DockerPull, Network: c.DockerNetwork,
		User: c.DockerUser, Helper: c.DockerHelper})
}

// usesDocker reports whether the settings say something of containers.
func (c Config) usesDocker() bool {
	named := string(sandbox.Docker)
	return c.Sandbox == named || c.SandboxBackend == named || c.DockerHost != "" || c.DockerImage != ""
}
