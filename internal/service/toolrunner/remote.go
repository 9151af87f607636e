package toolrunner

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/e2b"
	"github.com/inspan/inspan/internal/sandbox/kubernetes"
)

// remotes are the backends whose commands run on other machines.
func (c Config) remotes() []sandbox.Backend { return []sandbox.Backend{c.e2b(), c.kubernetes()} }

// remotesNamed are those that the settings name, or give what they need.
func (c Config) remotesNamed() []sandbox.Backend {
	var list []sandbox.Backend
	if c.names(sandbox.E2B) || !c.E2BKey.Empty() {
		list = append(list, c.e2b())
	}
	if c.names(sandbox.Kubernetes) || c.KubeImage != "" || c.KubeWarmPool != "" {
		list = append(list, c.kubernetes())
	}
	return list
}

// remoteReapers end machines that lost toolrunners left.
func (c Config) remoteReapers() []func(context.Context) (int, error) {
	var list []func(context.Context) (int, error)
	for _, b := range c.remotesNamed() {
		if r, ok := b.(interface {
			Reap(context.Context) (int, error)
		}); ok {
			list = append(list, r.Reap)
		}
	}
	return list
}

// names reports whether the station's own sandbox is of a mode.
func (c Config) names(mode sandbox.Mode) bool {
	return c.Sandbox == string(mode) || c.SandboxBackend == string(mode)
}

func (c Config) e2b() *e2b.Backend {
	return e2b.New(e2b.Config{Key: c.E2BKey, URL: c.E2BURL, SandboxURL: c.E2BSandboxURL, Template: c.E2BTemplate})
}

func (c Config) kubernetes() *kubernetes.Backend {
	return kubernetes.New(kubernetes.Config{URL: c.KubeURL, TokenFile: c.KubeTokenFile, CAFile: c.KubeCAFile,
		Namespace: c.KubeNamespace,
		Image:     c.KubeImage, RuntimeClass: c.KubeRuntime, WarmPool: c.KubeWarmPool, Enforces: c.KubeEnforces})
}
