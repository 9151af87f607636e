package service

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/e2b"
)

// remotes are the backends whose commands run on other machines.
func (c Config) remotes() []sandbox.Backend { return []sandbox.Backend{c.e2b()} }

// remoteReapers end machines that lost toolrunners left.
func (c Config) remoteReapers() []func(context.Context) (int, error) {
	if c.usesE2B() {
		return []func(context.Context) (int, error){c.e2b().Reap}
	}
	return nil
}

func (c Config) e2b() *e2b.Backend {
	return e2b.New(e2b.Config{Key: c.E2BKey, URL: c.E2BURL, SandboxURL: c.E2BSandboxURL, Template: c.E2BTemplate})
}

// usesE2B reports whether the settings say something of E2B.
func (c Config) usesE2B() bool {
	named := string(sandbox.E2B)
	return c.Sandbox == named || c.SandboxBackend == named || !c.E2BKey.Empty()
}
