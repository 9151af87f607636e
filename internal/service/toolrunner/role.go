package toolrunner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/checks"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/starlark"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/tool"
	role "github.com/inspan/inspan/services/toolrunner"
	"github.com/inspan/inspan/services/toolrunner/inner"
	"github.com/inspan/inspan/services/toolrunner/preview"
)

// fits reports with an error that a document does not fit a JSON Schema.
func fits(schema json.RawMessage, document []byte) error {
	s, err := tool.NewSchema(schema)
	if err != nil {
		return err
	}
	return s.Check(document)
}

// runnerParts is what a toolrunner works with besides its ports.
type runnerParts struct {
	opener   *pool.Opener
	trees    *workspace.Trees
	uses     *workspace.Uses
	keeper   *capture.Keeper
	desk     *gitwork.Desk
	checked  checks.Repositories
	rescue   func(ctx context.Context, scope, dir string) (bool, error)
	sessions kernel.KV
	egress   *egress.Proxy
	live     *streaming.Feed
	secrets  []secret.Value
	servers  live.Limits
}

// newToolrunner puts the role together: cfg has its ports, p what works in sandboxes and workspaces.
func newToolrunner(cfg role.Config, p runnerParts) (*role.Role, error) {
	over := func(ctx context.Context, runID string) bool {
		s, err := cfg.Ledger.Fresh(ctx, runID)
		return err == nil && s.Status.Ended()
	}
	root, attempts := p.opener.Root(), &workspace.Attempts{}
	cfg.Sandboxes, cfg.Pool = p.opener.WithEgress(p.egress), pool.New(over)
	servers := live.New(p.servers, func(run, at string) { jobs.Touched(p.trees, run, at) })
	cfg.Jobs = jobs.New(jobs.Config{Ledger: cfg.Ledger, Leases: cfg.Leases, Trees: p.trees, Pool: cfg.Pool,
		Keep: p.opener.Keep(), Servers: servers, Live: p.live,
		Instance: cfg.Instance, Secrets: p.secrets})
	cfg.Workspaces = workspace.Workspaces{Trees: p.trees, Uses: p.uses, Attempts: attempts}
	cfg.Sessions, cfg.Files = provision.NewSessionFiles(root, p.sessions, cfg.Blobs), provision.NewRunFiles(root)
	cfg.Janitor = janitor.New(janitor.Config{Ledger: cfg.Ledger, Leases: cfg.Leases, Sessions: p.sessions, Root: root,
		Cache: p.opener.Cache(), Trees: p.trees, Uses: p.uses,
		Git: p.desk, Rescue: p.rescue, Files: cfg.Sessions, Working: attempts.Working, EndJobs: cfg.Jobs.End,
		DropSandboxes: func(workspace string) {
			servers.DropWorkspace(workspace)
			cfg.Pool.DropWorkspace(workspace)
		},
		Instance: cfg.Instance, Now: time.Now})
	cfg.Artifacts = capture.NewCalls(p.keeper, cfg.Ledger, root, cfg.Jobs)
	cfg.Git = gitcall.New(gitcall.Config{Desk: p.desk, Ledger: cfg.Ledger, Sandboxes: cfg.Sandboxes, Trees: p.trees,
		Again: cfg.Artifacts.Again})
	cfg.Mask = secret.Mask(p.secrets...)
	cfg.Checks = checks.New(checks.Config{Ledger: cfg.Ledger, Ends: cfg.Ends, Blobs: cfg.Blobs,
		Workspaces: cfg.Workspaces, Sandboxes: cfg.Sandboxes, Pool: cfg.Pool, Jobs: cfg.Jobs,
		Git: p.checked, Fits: fits, Eval: starlark.Once, Mask: cfg.Mask})
	cfg.Previews = preview.New(preview.Config{Ledger: cfg.Ledger, Blobs: cfg.Blobs, Workspaces: cfg.Workspaces,
		Root: root, Find: cfg.Tools.Find, Git: cfg.Git, Mask: cfg.Mask})
	cfg.Inner = inner.New(cfg.Ledger, cfg.Blobs,
		capture.Results{Blobs: cfg.Blobs, Mask: cfg.Mask, Instance: cfg.Instance})
	cfg.Output = func(run string, about streaming.About) *streaming.Output {
		return p.live.Output(run, about, nil, p.secrets...)
	}
	return role.New(cfg)
}
