package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// Config of a Trees.
type Config struct {
	// Root is the absolute path of the workspace root.
	Root string
	// Log has the workspaces. Leases say which owners live, Blobs keeps packs.
	Log    *treelog.Log
	Leases kernel.Leases
	Blobs  kernel.Blobs
	// Snapshots keeps trees; nil where the root is one volume for all instances.
	Snapshots Snapshots
	// Instance is the owner that this process is; its lease must be renewed while it works.
	Instance string
	// Chain is how many packs a snapshot may have before a whole one is kept; 0 means 32.
	Chain int
	// AtSteps keeps trees at the ends of steps and runs only. The log names the calls in between, so that it can be
	// told what was lost with an owner.
	AtSteps bool
	// After is how long what no one uses stays: directories, and trees of runs; 0 means 24 h.
	After time.Duration
	// AtEnd takes the tree of a run away when the run ends. What a workflow's runs share stays for After: another may
	// follow.
	AtEnd bool
	// Over reports whether a run has ended. Nil: what the log says is believed, so that a tree stays where a run
	// that came in was not seen to end.
	Over func(ctx context.Context, run string) (bool, error)
	// Rescue keeps elsewhere what the repository of a tree has and no remote has. Where it does not say that all was
	// kept, the tree stays. Nil: trees with a repository stay.
	Rescue func(ctx context.Context, workspace, dir string) (bool, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// standard values of a Config.
const (
	standardChain = 32
	// StandardAfter is how long what no one uses stays where nothing else is said.
	StandardAfter = 24 * time.Hour
)

// Trees are the working trees of one instance.
type Trees struct {
	cfg Config
	mu  sync.Mutex
	// open by workspace, guarded by mu.
	open map[string]*tree
	// here are the runs that came into a tree and have not ended as far as is known, guarded by mu.
	here map[string]bool
}

// tree is one working tree as this instance knows it.
type tree struct {
	workspace string
	// turn holds a token while somebody reads or changes what is below it: others wait and can give up.
	turn chan struct{}
	// refs counts who wants the turn or has it, guarded by Trees.mu.
	refs int
	// held is what this instance claimed; nil for nothing.
	held *claim
}

// New checks a Config.
func New(cfg Config) (*Trees, error) {
	if cfg.Log == nil || cfg.Leases == nil || cfg.Instance == "" || cfg.Snapshots != nil && cfg.Blobs == nil {
		return nil, errors.New("workspaces need their log, leases, objects and an instance name")
	}
	if !filepath.IsAbs(cfg.Root) {
		return nil, fmt.Errorf("workspace root %q is not an absolute path", cfg.Root)
	}
	if cfg.Chain <= 0 {
		cfg.Chain = standardChain
	}
	if cfg.After <= 0 {
		cfg.After = StandardAfter
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Trees{cfg: cfg, open: make(map[string]*tree), here: make(map[string]bool)}, nil
}

// Follow reports whether trees move between machines.
func (t *Trees) Follow() bool { return t.cfg.Snapshots != nil }

// of returns the tree of a workspace with its turn taken; done gives it back.
func (t *Trees) of(ctx context.Context, workspace string) (tr *tree, done func(), err error) {
	t.mu.Lock()
	if tr = t.open[workspace]; tr == nil {
		tr = &tree{workspace: workspace, turn: make(chan struct{}, 1)}
		t.open[workspace] = tr
	}
	tr.refs++
	t.mu.Unlock()
	let := func(idle bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if tr.refs--; tr.refs == 0 && idle {
			delete(t.open, workspace)
		}
	}
	if err := tr.take(ctx); err != nil {
		let(false)
		return nil, nil, err
	}
	return tr, func() {
		let(tr.held == nil)
		tr.give()
	}, nil
}

func (tr *tree) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case tr.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (tr *tree) give() { <-tr.turn }

// claims is how often a claim is made anew where others append at the same time.
const claims = 4

// Enter lets a run work in a tree. Where a living instance holds it, it returns a *BusyError; where what was kept of it
// can not be restored, ErrDamaged. The visit must be left.
func (t *Trees) Enter(ctx context.Context, workspace, run string) (*Visit, error) {
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return nil, err
	}
	defer done()
	for range claims {
		err := t.claim(ctx, tr, run)
		if errors.Is(err, kernel.ErrExists) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c := tr.held
		c.visits++
		c.runs[run] = false
		t.mark(run, true)
		c.used = t.cfg.Now()
		return &Visit{t: t, tree: tr, claim: c, run: run}, nil
	}
	return nil, &BusyError{Workspace: workspace, Owner: "several at once", Run: run}
}

// claim makes sure that this instance owns a tree. It returns kernel.ErrExists where others changed its log
// meanwhile.
func (t *Trees) claim(ctx context.Context, tr *tree, run string) error {
	c := tr.held
	if c != nil {
		s, err := t.cfg.Log.Known(ctx, tr.workspace)
		if err != nil {
			return err
		}
		if c.ownedBy(t.cfg.Instance, s) {
			return t.welcome(ctx, tr, c, run)
		}
	}
	rec, err := t.cfg.Log.Latest(ctx, tr.workspace)
	if err != nil {
		return err
	}
	if rec.Owner != "" && rec.Owner != t.cfg.Instance {
		t.lose(tr)
		alive, err := t.cfg.Leases.Alive(ctx, rec.Owner)
		if err != nil {
			return fmt.Errorf("owner of workspace %s: %w", tr.workspace, err)
		}
		if alive {
			return &BusyError{Workspace: tr.workspace, Owner: rec.Owner, Run: rec.Run}
		}
	}
	// it was released here, and no one had it since
	same := c != nil && !c.lost && rec.Owner == "" && rec.Fence == c.rec.Fence
	rec, err = t.cfg.Log.Append(ctx, tr.workspace, rec.Sequence, &events.WorkspaceClaimedData{Event: "workspace_claimed",
		Workspace: tr.workspace, Owner: t.cfg.Instance, Run: run, Fence: rec.Fence + 1, Resumed: same})
	if err != nil {
		return err
	}
	if same {
		c.rec, c.sequence = rec.Workspace, rec.Sequence
		return nil
	}
	t.lose(tr)
	c, err = t.settle(ctx, rec)
	if err != nil {
		return err
	}
	if rec.Lost && t.cfg.Snapshots != nil {
		c.news = lostNews(rec.Workspace)
	}
	tr.held = c
	return nil
}

// welcome appends that one more run works in the tree of a claim. It returns kernel.ErrExists where the
// claim is to be made anew.
func (t *Trees) welcome(ctx context.Context, tr *tree, c *claim, run string) error {
	if len(c.rec.Runs) >= events.MaxWorkspaceRuns || slices.Contains(c.rec.Runs, run) {
		return nil
	}
	err := t.append(ctx, tr, c, &events.WorkspaceEnteredData{Event: "workspace_entered", Fence: c.rec.Fence, Run: run})
	if errors.Is(err, ErrLost) {
		return fmt.Errorf("workspace %s: %w", tr.workspace, kernel.ErrExists)
	}
	return err
}

// Holds reports whether a run works in a tree of this instance, as far as is known without asking.
func (t *Trees) Holds(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.here[run]
}

func (t *Trees) mark(run string, here bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if here {
		t.here[run] = true
	} else {
		delete(t.here, run)
	}
}

// lose forgets a claim. What is there goes when the last visit has left.
func (t *Trees) lose(tr *tree) {
	c := tr.held
	if c == nil {
		return
	}
	c.lost, tr.held = true, nil
	for run := range c.runs {
		t.mark(run, false)
	}
	if c.visits == 0 {
		c.remove()
	}
}

// settle makes the place of a new claim, with what was kept of the tree. Where that is damaged the claim is given up.
func (t *Trees) settle(ctx context.Context, s treelog.State) (*claim, error) {
	rec := s.Workspace
	c := &claim{rec: rec, sequence: s.Sequence, runs: map[string]bool{}, left: make(chan struct{}), used: t.cfg.Now()}
	if t.cfg.Snapshots == nil {
		c.dir = filepath.Join(t.cfg.Root, filepath.FromSlash(rec.Workspace))
		return c, nil
	}
	n, err := name(rec.Workspace)
	if err != nil {
		return nil, err
	}
	c.base = filepath.Join(t.cfg.Root, treesDir, n, workdirName(rec.Fence, t.cfg.Instance))
	c.dir = filepath.Join(c.base, treeDir)
	if err = c.fill(ctx, t.cfg.Snapshots, t.cfg.Blobs); err == nil {
		return c, nil
	}
	c.remove()
	if errors.Is(err, ErrDamaged) {
		_, free := t.cfg.Log.Append(ctx, rec.Workspace, s.Sequence, &events.WorkspaceReleasedData{Event: "workspace_released",
			Fence: rec.Fence})
		err = errors.Join(err, free)
	}
	return nil, fmt.Errorf("restore workspace %s: %w", rec.Workspace, err)
}
