package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// When the trees of a scene are kept; empty where workspaces do not follow their runs.
const (
	atCalls = "call"
	atSteps = "step"
)

// smallTrees is the small world with workspaces that follow their run.
func smallTrees(first, second, when string) Scene {
	s := small(first, second)
	s.Follow = when
	return s
}

// trees draws whether workspaces follow their runs.
func (s *Scene) trees(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x7eee5))
	if rng.IntN(4) > 0 {
		return
	}
	s.Follow = []string{atCalls, atCalls, atSteps}[rng.IntN(3)]
	s.Clean = rng.IntN(3) == 0
}

// files are what a working tree holds, by path.
type files map[string]string

// forest is the outside world of working trees: machines with directories, and what snapshots were taken of them.
type forest struct {
	// shots by id: what the tree was. They are for the audit alone, restored is what packs say.
	shots map[string]files
	// sights are what calls found when they began.
	sights []files
}

// machine is where the processes of one name run: their workspace root outlives them.
func (w *world) machine(t *testing.T, name string) (root string, sandboxes *pool.Opener) {
	root = filepath.Join(t.TempDir(), name)
	cfg := pool.Config{Root: root, Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: rooms{}}}
	sandboxes, err := pool.NewOpener(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return root, sandboxes
}

// follow sets where the workspaces of a service's machine are, and what it needs where they follow their runs.
func (p *proc) follow(cfg *service.Config, ports *all.Ports, l *life) {
	s := p.w.play.Scene
	if cfg.Workspace = p.root; s.Follow == "" {
		return
	}
	cfg.WorkspaceMode, cfg.WorkspaceSnapshot = "follow", s.Follow
	cfg.CleanupOnComplete, cfg.Drain = s.Clean, drainTime
	ports.TreeLog, ports.Trees = journal{l, events.WorkspaceAggregate}, kv{l, treeKV, p.w.st.KV(treeKV)}
	ports.Snapshots = keepers{l}
}

// drainTime is how long a service may take to end in order.
const drainTime = 20 * time.Second

// treeKV names the rows of working trees in stories.
const treeKV = "trees"

// rooms are sandboxes that have files and no commands.
type rooms struct{}

func (rooms) Mode() sandbox.Mode                 { return sandbox.Host }
func (rooms) Probe(context.Context) error        { return nil }
func (rooms) Capabilities() []sandbox.Capability { return nil }
func (rooms) Open(_ context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	return room{id: cfg.ID, dir: cfg.Workspace}, nil
}

var errNoCommands = errors.New("there are no commands in a play")

type room struct{ id, dir string }

func (r room) ID() string         { return r.id }
func (room) Mode() sandbox.Mode   { return sandbox.Host }
func (r room) Workspace() string  { return r.dir }
func (r room) at(p string) string { return filepath.Join(r.dir, filepath.FromSlash(p)) }

func (room) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) { return nil, errNoCommands }

func (room) Processes(context.Context) ([]sandbox.ProcessInfo, error) { return nil, nil }
func (room) Kill(context.Context, int) error                          { return sandbox.ErrNoProcess }
func (r room) ReadFile(p string) ([]byte, error)                      { return os.ReadFile(r.at(p)) }

func (r room) WriteFile(p string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(r.at(p)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.at(p), data, 0o600)
}

func (r room) Stat(p string) (fs.FileInfo, error) { return os.Stat(r.at(p)) }
func (r room) Remove(p string) error              { return os.Remove(r.at(p)) }
func (r room) Rename(from, to string) error       { return os.Rename(r.at(from), r.at(to)) }
func (r room) FS() fs.FS                          { return os.DirFS(r.dir) }
func (room) Destroy(context.Context) error        { return nil }

// filesOf reads a tree. What people may read below .harness is not part of it.
func filesOf(tree fs.FS) (files, error) {
	all := files{}
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p == ".harness":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		b, err := fs.ReadFile(tree, p)
		all[p] = string(b)
		return err
	})
	return all, err
}

// keepers take snapshots of trees on the machine of a life.
type keepers struct{ l *life }

func (k keepers) Keep(_ context.Context, tree, _ string) (workspace.Keeper, error) {
	return keeper{k.l, tree}, nil
}

type keeper struct {
	l    *life
	tree string
}

// pack is what a snapshot has beside its parent.
type pack struct {
	ID, Parent string
	Set        files
	Gone       []string
}

// Snapshot implements workspace.Keeper. It reads the tree twice, as one who looks whether it changed meanwhile.
func (k keeper) Snapshot(ctx context.Context, parent string) (workspace.Shot, error) {
	tree := os.DirFS(k.tree)
	first, err := filesOf(tree)
	if err != nil {
		return workspace.Shot{}, err
	}
	switch v := k.l.step(ctx, opWorld, false, "snapshot of %d files", len(first)); {
	case ctx.Err() != nil:
		return workspace.Shot{}, context.Cause(ctx)
	case v == before || v == after || v == died:
		return workspace.Shot{}, errDied
	case v != made:
		return workspace.Shot{}, errTrouble
	}
	now, err := filesOf(tree)
	if err != nil {
		return workspace.Shot{}, err
	}
	id := now.id()
	if id != first.id() {
		return workspace.Shot{}, workspace.ErrChanging
	}
	w := k.l.p.w
	if id == parent {
		return workspace.Shot{ID: id, Parent: parent, Files: len(now)}, nil
	}
	p := pack{ID: id, Parent: parent, Set: files{}}
	old := w.tools.forest.shots[parent]
	for _, path := range rank(now) {
		if before, there := old[path]; !there || before != now[path] {
			p.Set[path] = now[path]
		}
	}
	for _, path := range rank(old) {
		if _, there := now[path]; !there {
			p.Gone = append(p.Gone, path)
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return workspace.Shot{}, err
	}
	w.tools.forest.shots[id] = now
	w.tale.counts["snapshots"]++
	return workspace.Shot{ID: id, Parent: parent, Pack: io.NopCloser(bytes.NewReader(b)), Files: len(now), Bytes: int64(len(b))}, nil
}

func (f files) id() string {
	h := sha256.New()
	for _, p := range rank(f) {
		fmt.Fprintf(h, "%q %q\n", p, f[p])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Restore implements workspace.Keeper.
func (k keeper) Restore(_ context.Context, id string, packs ...io.Reader) error {
	tree, last := files{}, ""
	for _, r := range packs {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var p pack
		if json.Unmarshal(b, &p) != nil || p.Parent != last {
			return fmt.Errorf("%w: a pack of %q does not follow %q", workspace.ErrDamaged, p.ID, last)
		}
		for path, text := range p.Set {
			tree[path] = text
		}
		for _, path := range p.Gone {
			delete(tree, path)
		}
		last = p.ID
	}
	if last != id || tree.id() != id {
		return fmt.Errorf("%w: the packs are not snapshot %q", workspace.ErrDamaged, id)
	}
	for _, path := range rank(tree) {
		if err := (room{dir: k.tree}).WriteFile(path, []byte(tree[path])); err != nil {
			return err
		}
	}
	k.l.p.w.tale.counts["trees restored"]++
	return nil
}

// sightOf notes what a call finds in its workspace when it begins, and changes a first file there where it may.
func (d double) sightOf(c tool.Call, n int) (string, error) {
	if d.b.w.play.Scene.Follow == "" {
		return "", nil
	}
	found, err := filesOf(c.Env.Sandbox.FS())
	if err != nil {
		return "", err
	}
	f := &d.b.forest
	f.sights = append(f.sights, found)
	if classOf(d.name) != tool.Read {
		if err := c.Env.Sandbox.WriteFile(fmt.Sprintf("begun/%d-%d", n, d.b.attempts[n]), []byte("begun")); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(" sight %d", len(f.sights)-1), nil
}

// writes leaves in the workspace what a call did.
func (d double) writes(c tool.Call, n, effect int) error {
	switch s := d.b.w.play.Scene; {
	case classOf(d.name) == tool.Read:
		return nil
	case s.branches():
		d.b.cloneOf(c.Env.Sandbox.ID()).Work[fileOf(n)] = fmt.Sprintf("effect %d", effect)
		return nil
	case s.Follow == "":
		return nil
	}
	return c.Env.Sandbox.WriteFile(fileOf(n), []byte(fmt.Sprintf("effect %d", effect)))
}

// fileOf is the file that the call whose argument is n leaves in its workspace.
func fileOf(n int) string { return fmt.Sprintf("done/%d", n) }

// sightIn is the number of the sight that a result tells of.
func sightIn(output string) (n int, ok bool) {
	_, text, found := strings.Cut(output, " sight ")
	if !found {
		return 0, false
	}
	_, err := fmt.Sscanf(text, "%d", &n)
	return n, err == nil
}

// recordsBehind is how far behind a read of a store is: only looks at rows are.
func (w *world) recordsBehind(in mem.Store) int {
	if in == mem.KVStore {
		return w.behind
	}
	return 0
}

// lingers lets some time pass once all is done, in which workspaces are given back. It is false where it did already.
func (w *world) lingers() bool {
	if w.play.Scene.Follow == "" || w.lingered {
		return false
	}
	w.lingered = true
	w.wait(2 * time.Second)
	return true
}
