// Package toolrunner makes the toolrunner of a station from its settings: sandboxes, tools, git work, the egress proxy,
// workspaces, and what is cleaned up beside the role.
package toolrunner

import (
	"cmp"
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/checks"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/runtime/work"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/served"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	role "github.com/inspan/inspan/services/toolrunner"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Approvals
	service.Live
	service.Workspaces
	service.Capture
	service.Sandboxes
	service.Calls
	service.Docker
	service.Remote
	service.MicroVM
	service.Interpreted
	service.GitWork
}

// Repositories are those of checks.Config.
type Repositories = checks.Repositories

// Deps stand in the place of what the settings name. Each may be nil.
type Deps struct {
	// Tools are those that calls run, with what is pinned of MCP servers.
	Tools *toolbox.Toolbox
	// Snapshots keeps working trees that follow their runs; nil means with git.
	Snapshots workspace.Snapshots
	// Machine names the machine that tools run on, for other toolrunners; empty means the name that it has.
	Machine string
	// Sandboxes takes the place of those of this machine; nil means these.
	Sandboxes *pool.Opener
	// Found are those of this machine, where the process has looked for them before; nil has them looked for.
	Found *pool.Opener
	// Git runs git for runs; nil means the program of this machine, as it is configured.
	Git *git.Git
	// Repositories are those that acceptance checks read; nil means with git.
	Repositories Repositories
	// Egress is the proxy for agents that may reach something; nil means that of this machine.
	Egress *egress.Proxy
}

// Program is the toolrunner as a program of its own.
func Program() service.Program {
	var cfg Config
	return service.Program{Role: events.Toolrunner, Config: &cfg, Base: &cfg.Base, Wire: func() (service.Wiring,
		error) {
		return Wire(cfg, Deps{})
	}}
}

// Tools are the built-in tools and more of this process, with what is pinned of MCP servers.
func Tools(cfg service.Calls, more ...tool.Tool) (*toolbox.Toolbox, error) {
	registry, err := tool.NewRegistry(append(append(tools.Builtin(),
		tools.Prometheus(tools.PrometheusConfig{URL: cfg.PrometheusURL, Token: cfg.PrometheusToken})), more...)...)
	if err != nil {
		return nil, err
	}
	return Pinned(cfg, registry)
}

// Pinned adds what is pinned of MCP servers to tools.
func Pinned(cfg service.Calls, registry *tool.Registry) (*toolbox.Toolbox, error) {
	_, secrets, err := cfg.ServerSecrets()
	return mcp.New(registry, secrets), err
}

// Wire makes the toolrunner.
func Wire(cfg Config, deps Deps) (w service.Wiring, err error) {
	if deps.Tools == nil {
		if deps.Tools, err = Tools(cfg.Calls); err != nil {
			return w, err
		}
	}
	return service.Wiring{Role: events.Toolrunner,
		Start: func(ctx context.Context, in *service.Instance) (service.Work, error) {
			return (&wiring{cfg: cfg, deps: deps, in: in}).start(ctx)
		}}, nil
}

// wiring is one toolrunner that is made.
type wiring struct {
	cfg  Config
	deps Deps
	in   *service.Instance
}

// start makes the role, and says what goes on beside it.
func (h *wiring) start(ctx context.Context) (work service.Work, err error) {
	trees, err := h.trees(ctx, h.in.Ledger, h.in.Name)
	if err != nil {
		return work, err
	}
	r, err := h.role(ctx, trees)
	if err != nil {
		return work, err
	}
	beside, err := h.expiring(h.in.Log)
	if err != nil {
		return work, err
	}
	work.Role = r
	work.Around = func(run service.Run) service.Run {
		run = beside(h.runJanitor(r, trees, minding(r, h.in.Log, h.cleaning(r, h.in.Log, run))))
		if h.deps.Sandboxes == nil {
			run = reaper{log: h.in.Log, every: reapEvery, more: h.cfg.reapers()}.during(run)
		}
		return run
	}
	all := h.hosts(h.in.Name)
	if all != nil {
		work.Checks = append(work.Checks, all.alone)
	}
	work.Outside = func(run service.Run) service.Run { return h.in.Leased(all.during(run)) }
	return work, nil
}

func (h *wiring) role(ctx context.Context, trees *workspace.Trees) (*role.Role, error) {
	ends, err := h.in.Ends(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := h.in.StationKeys(ctx, h.cfg.StationKey)
	if err != nil {
		return nil, err
	}
	sandboxes := cmp.Or(h.deps.Sandboxes, h.deps.Found)
	if sandboxes == nil {
		if sandboxes, _, err = Sandboxes(ctx, h.cfg); err != nil {
			return nil, err
		}
	}
	if h.deps.Sandboxes == nil {
		mode := sandboxes.Mode(events.Sandbox{})
		h.in.Log.Info().Str("sandbox", string(mode)).Str("workspace", h.cfg.Workspace).Msg("tools run here")
	}
	masked := h.in.Masked
	more, named, err := h.cfg.ServerSecrets()
	if err != nil {
		return nil, err
	}
	desk, gitKeys, err := h.desk()
	if err != nil {
		return nil, fmt.Errorf("git work: %w", err)
	}
	h.tellIsolation(ctx, desk)
	checked := h.deps.Repositories
	if checked == nil && desk != nil {
		checked = desk
	}
	masked = append(append(append([]secret.Value(nil), masked...), more...), gitKeys...)
	out, err := h.egress()
	if err != nil {
		return nil, err
	}
	feed, err := h.in.Feed(ctx, h.cfg.Live)
	if err != nil {
		return nil, err
	}
	masked = append(masked, keys.Secrets()...)
	keeper, err := h.keeper(masked)
	if err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	p := h.in.Ports
	tools := h.deps.Tools.WithServed(served.Tools(p.ServedTools, served.Times{})).
		WithRuntimes(func(a events.Agent) tool.Tool { return work.Tool(a, named) })
	identity := role.Identity{Instance: h.in.Name, Keys: keys}
	if h.deps.Sandboxes == nil {
		identity.Reap = reaper{log: h.in.Log}.processes
	}
	r, err := newToolrunner(role.Config{Ledger: h.in.Ledger, Timers: p.Timers, Blobs: p.Blobs, Leases: p.Leases,
		Ends: ends, Tools: role.Tools{All: tools.Base(), Of: tools.For},
		Judges: role.Judges{Hooks: h.in.Asker}, Identity: identity},
		runnerParts{opener: sandboxes, trees: trees, uses: h.uses(trees), keeper: keeper, desk: desk, checked: checked,
			rescue:   h.rescue(desk),
			sessions: p.Sessions, egress: out, live: feed, secrets: masked,
			servers: live.Limits{Idle: h.cfg.MCPKeep, Most: h.cfg.MCPMost, Bytes: h.cfg.MCPIdleBytes}})
	if err != nil {
		return nil, err
	}
	h.in.Answers(events.Toolrunner, func(question []byte) any { return r.FilesAsked(ctx, question) })
	h.in.SubscribeRepublished(ctx, r.Republished)
	return r, h.in.OnEnd(ctx, r.Ended)
}
