// Package all hosts the five roles of a station in one process, as inspan up does.
//
// Promises: each role is made by the same wiring as in a program of its own, from its part of one configuration.
package all

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/executor"
	"github.com/inspan/inspan/internal/service/gatekeeper"
	"github.com/inspan/inspan/internal/service/models"
	"github.com/inspan/inspan/internal/service/persister"
	"github.com/inspan/inspan/internal/service/planner"
	"github.com/inspan/inspan/internal/service/toolrunner"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Ports of a station, and what stands in the place of what the settings name.
type Ports struct {
	service.Ports
	// Models answers the agents' requests; nil means the configured providers.
	Models models.Models
	// Tools replaces the built-in ones; nil leaves them.
	Tools *tool.Registry
	// The others are as in toolrunner.Deps.
	Snapshots    workspace.Snapshots
	Machine      string
	Sandboxes    *pool.Opener
	Git          *git.Git
	Repositories toolrunner.Repositories
	Egress       *egress.Proxy
}

// Host runs roles in this process.
type Host struct {
	*service.Host
	cfg   service.Config
	ports Ports
	tools *toolbox.Toolbox
	found *pool.Opener // the sandboxes of this machine, once Sandboxes looked for them
}

// NewHost checks what all roles need. extra tools stand beside the built-in ones.
func NewHost(cfg service.Config, ports Ports, log zerolog.Logger, metrics *service.Metrics,
	extra ...tool.Tool) (*Host, error) {
	var err error
	if cfg.Masked, err = service.Secrets(&cfg); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, ports: ports}
	if ports.Tools != nil {
		h.tools, err = toolrunner.Pinned(cfg.Calls, ports.Tools)
	} else {
		h.tools, err = toolrunner.Tools(cfg.Calls, extra...)
	}
	if err != nil {
		return nil, err
	}
	h.Host, err = service.NewHost(cfg.Base, ports.Ports, log, metrics)
	return h, err
}

// Sandboxes looks for the sandboxes of this machine, which its toolrunner then need not, and returns the mode of its
// default. It is called before Run and As.
func (h *Host) Sandboxes(ctx context.Context) (mode sandbox.Mode, err error) {
	h.found, mode, err = Sandboxes(ctx, h.cfg)
	return mode, err
}

// As is that of service.Host.
func (h *Host) As(ports service.Ports) *Host {
	other := *h
	other.Host = h.Host.As(ports)
	return &other
}

// Run runs one role until ctx ends and its work is done.
func (h *Host) Run(ctx context.Context, role events.Service) error {
	w, err := h.wire(role)
	if err != nil {
		return err
	}
	return h.Host.Run(ctx, w)
}

func (h *Host) wire(role events.Service) (service.Wiring, error) {
	c := h.cfg
	switch role {
	case events.Planner:
		return planner.Wire(planner.Config{Base: c.Base, Planning: c.Planning}), nil
	case events.Gatekeeper:
		return gatekeeper.Wire(gatekeeper.Config{Base: c.Base, Gates: c.Gates, Approvals: c.Approvals}, h.tools), nil
	case events.Executor:
		return executor.Wire(executor.Config{Base: c.Base, Models: c.Models, Live: c.Live}, h.tools, h.ports.Models), nil
	case events.Toolrunner:
		return toolrunner.Wire(Toolrunner(c), toolrunner.Deps{Tools: h.tools, Snapshots: h.ports.Snapshots,
			Machine:   h.ports.Machine,
			Sandboxes: h.ports.Sandboxes, Found: h.found, Git: h.ports.Git, Repositories: h.ports.Repositories,
			Egress: h.ports.Egress})
	case events.Persister:
		return persister.Wire(persister.Config{Base: c.Base, Archives: c.Archives, Capture: c.Capture}), nil
	}
	return service.Wiring{}, fmt.Errorf("there is no role %q", role)
}

// Toolrunner is the toolrunner's part of a configuration.
func Toolrunner(c service.Config) toolrunner.Config {
	return toolrunner.Config{Base: c.Base, Approvals: c.Approvals, Live: c.Live, Workspaces: c.Workspaces,
		Capture: c.Capture, Sandboxes: c.Sandboxes,
		Calls: c.Calls, Docker: c.Docker, Remote: c.Remote, MicroVM: c.MicroVM, Interpreted: c.Interpreted,
		GitWork: c.GitWork}
}

// Sandboxes picks the sandboxes of this machine, as the toolrunner of a station would.
func Sandboxes(ctx context.Context, cfg service.Config) (*pool.Opener, sandbox.Mode, error) {
	return toolrunner.Sandboxes(ctx, Toolrunner(cfg))
}

// Program is one role as a program of its own that is given the settings and the tools of all of them; the programs in
// cmd are given their own alone.
func Program(role events.Service, cfg *service.Config, extra ...tool.Tool) service.Program {
	p := service.Program{Role: role, Config: cfg, Base: &cfg.Base, Wire: func() (service.Wiring, error) {
		tools, err := toolrunner.Tools(cfg.Calls, extra...)
		if err != nil {
			return service.Wiring{}, err
		}
		return (&Host{cfg: *cfg, tools: tools}).wire(role)
	}}
	if role == events.Planner {
		p.Prepare = func(ctx context.Context, ports service.Ports, log zerolog.Logger) error {
			return service.RegisterAgents(ctx, ports.Config, cfg.Planning, log)
		}
	}
	return p
}
