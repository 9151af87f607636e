package service

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
)

// optIn are the backends that are reached only where a station or an agent file names them. Making them asks nobody
// anything.
func (c Config) optIn() []sandbox.Backend { return []sandbox.Backend{c.docker(), c.gvisor()} }

func (c Config) gvisor() sandbox.Backend {
	return gvisor.New(gvisor.Config{Program: c.GVisor, Platform: c.GVisorPlatform})
}

// OptIn returns the backends that the settings name, or give what they need.
func (c Config) OptIn() []sandbox.Backend {
	if c.usesDocker() {
		return []sandbox.Backend{c.docker()}
	}
	return nil
}

// reapers remove what lost toolrunners left with the backends of OptIn.
func (c Config) reapers() []func(context.Context) (int, error) {
	if c.usesDocker() {
		return []func(context.Context) (int, error){c.docker().Reap}
	}
	return nil
}

func (c Config) docker() *docker.Backend {
	return docker.New(docker.Config{Host: c.DockerHost, Image: c.DockerImage, Pull: c.DockerPull, Network: c.DockerNetwork, User: c.DockerUser, Helper: c.DockerHelper})
}

// usesDocker reports whether the settings say something of containers.
func (c Config) usesDocker() bool {
	named := string(sandbox.Docker)
	return c.Sandbox == named || c.SandboxBackend == named || c.DockerHost != "" || c.DockerImage != ""
}
