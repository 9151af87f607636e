package toolrunner

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/checks"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/runlog/runlogtest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/toolrunner/inner"
	"github.com/inspan/inspan/services/toolrunner/preview"
)

// bed is a toolrunner over ports in memory, with a run whose call c1-1 of the tool "bash" is allowed.
type bed struct {
	runlogtest.Log
	role *Role
	root string
	// cut is done once, before the role appends the first event of its type.
	cut struct {
		kind events.Kind
		do   func()
	}
	// work is what the tool does.
	work func(ctx context.Context, c tool.Call) (tool.Result, error)
}

const (
	runID  = "r1"
	callID = "c1-1"
)

// capture has the role take the files that calls make.
func (b *bed) capture() {
	b.Helper()
	keeper, err := capture.New(capture.Config{Store: b.Station.Artifacts(), Lists: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	cfg := b.role.cfg
	cfg.Artifacts = capture.NewCalls(keeper, cfg.Ledger, b.root, cfg.Jobs)
	if b.role, err = New(cfg); err != nil {
		b.Fatal(err)
	}
}

// before has something happen before the role appends the first event of a type.
func (b *bed) before(kind events.Kind, do func()) { b.cut.kind, b.cut.do = kind, do }

// cutIn is the role's journal.
type cutIn struct {
	kernel.Journal
	*bed
}

// Append implements kernel.Journal.
func (c cutIn) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if do := c.cut.do; do != nil && e.Kind == c.cut.kind {
		c.cut.do = nil
		do()
	}
	return c.Journal.Append(ctx, e)
}

// oneKey is a station whose key was never replaced.
type oneKey []byte

// Newest implements Keyring.
func (oneKey) Newest() int { return 0 }

// Key implements Keyring.
func (k oneKey) Key(context.Context, int) ([]byte, error) { return k, nil }

// Spec implements tool.Tool.
func (b *bed) Spec() tool.Spec {
	return tool.Spec{Name: "bash", Input: json.RawMessage(`{"type":"object"}`)}
}

// Run implements tool.Tool.
func (b *bed) Run(ctx context.Context, c tool.Call) (tool.Result, error) { return b.work(ctx, c) }

func newBed(t *testing.T, effect string) *bed {
	t.Helper()
	b := &bed{Log: runlogtest.New(t, runID), root: filepath.Join(t.TempDir(), "work")}
	b.work = func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: "done"}, nil }
	all, err := tool.NewRegistry(b)
	if err != nil {
		t.Fatal(err)
	}
	sandboxes, err := pool.NewOpener(pool.Config{Root: b.root, Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New(t.TempDir())}})
	if err != nil {
		t.Fatal(err)
	}
	st := b.Station
	cfg := Config{Ledger: b.Over(events.Toolrunner, cutIn{st.JournalOf(events.Toolrunner), b}), Timers: st.Timers(), Blobs: st.Blobs(), Leases: st.Leases(), Tools: Tools{All: all, Of: func(events.Agent) *tool.Registry { return all }},
		Sandboxes: sandboxes, Pool: pool.New(nil), Identity: Identity{Instance: "t1", Keys: oneKey("key")}, Mask: secret.Mask(secret.New("open sesame")),
		Output: func(run string, about streaming.About) *streaming.Output {
			var none *streaming.Feed
			return none.Output(run, about, nil)
		}}
	cfg.Ends = runlog.NewEnds(cfg.Ledger)
	cfg.Workspaces = workspace.Workspaces{Uses: workspace.NewUses(b.root), Attempts: &workspace.Attempts{}}
	cfg.Sessions, cfg.Files = provision.NewSessionFiles(b.root, st.KV(topology.SessionBucket), st.Blobs()), provision.NewRunFiles(b.root)
	cfg.Jobs = jobs.New(jobs.Config{Ledger: cfg.Ledger, Leases: cfg.Leases, Pool: cfg.Pool, Instance: cfg.Instance})
	cfg.Janitor = janitor.New(janitor.Config{Root: b.root, Ledger: cfg.Ledger, Leases: cfg.Leases, Uses: cfg.Workspaces.Uses, Working: cfg.Workspaces.Attempts.Working,
		EndJobs: cfg.Jobs.End, DropSandboxes: cfg.Pool.DropWorkspace, Now: time.Now})
	cfg.Artifacts = capture.NewCalls(nil, cfg.Ledger, b.root, cfg.Jobs)
	cfg.Git = gitcall.New(gitcall.Config{})
	cfg.Checks = checks.New(checks.Config{Ledger: cfg.Ledger, Ends: cfg.Ends, Blobs: cfg.Blobs, Workspaces: cfg.Workspaces,
		Sandboxes: sandboxes, Pool: cfg.Pool, Jobs: cfg.Jobs, Mask: cfg.Mask})
	cfg.Previews = preview.New(preview.Config{})
	cfg.Inner = inner.New(cfg.Ledger, cfg.Blobs, capture.Results{})
	if b.role, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	created := runtest.Created()
	created.Workspace = "run/" + runID
	ref := runtest.Ref("a", callID, "bash")
	b.Say(events.Planner, created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
	b.Say(events.Gatekeeper, runtest.Allowed("a"))
	b.Say(events.Executor, runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{}`)))
	b.Say(events.Gatekeeper, runtest.CallYes(ref, effect))
	return b
}

// The bed's call after each of the first stages.

func (b *bed) admitted() admitted {
	b.Helper()
	s := b.State()
	duty, err := b.role.admit.next(b.Context(), runID, callID, s)
	if err != nil || duty.Kind != call.Begin {
		b.Fatalf("got %+v, %v, want a call to begin", duty, err)
	}
	return admitted{state: s, duty: duty, deliveries: 1}
}

func (b *bed) acquired() acquired {
	b.Helper()
	a, err := b.role.acquire.acquire(b.Context(), b.admitted())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Release)
	return a
}

func (b *bed) started() *started {
	b.Helper()
	st, _, err := b.role.start.start(b.Context(), b.acquired())
	if err != nil || st == nil {
		b.Fatalf("got %v, %v, want a call that may be carried out", st, err)
	}
	return st
}
