package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// isolation knows whether git can be kept in its tree, which is tried once.
type isolation struct {
	mu    sync.Mutex
	tried bool
	way   wall.Way
	err   error
	// around, if set, is called by tests between the look at a repository and the start of git in it, and what it gives
	// after.
	around func(op string) (after func())
}

func (w *isolation) find(ctx context.Context, temp string) (wall.Way, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tried {
		return w.way, w.err
	}
	way, err := wall.Find(ctx, temp)
	if err != nil && ctx.Err() != nil {
		return wall.None, context.Cause(ctx) // nothing was learned
	}
	w.tried, w.way, w.err = true, way, err
	return way, err
}

// Walled reports whether a link, or a file that names another place, which a command makes in a tree while git works
// there can lead git out of the tree: nil means that it cannot, and an error that wraps wall.ErrNone says why it can.
// Git works in either case; what was there before it started is always looked at.
func (g *runner) Walled(ctx context.Context) error {
	_, err := g.isolation.find(ctx, g.cfg.Temp)
	return err
}

// inTree reports whether the call works where strangers write.
func (c call) inTree() bool { return c.repo != nil || c.tree != "" }

// start runs a git, behind a wall where it works in a tree and walls can be raised.
func (g *runner) start(ctx context.Context, c call, p *workspaceDir, proc local.Process) (sandbox.Exit, error) {
	if !c.inTree() {
		return local.Run(ctx, proc)
	}
	if g.isolation.around != nil {
		defer g.isolation.around(c.args[0])()
	}
	o := wall.Order{Private: append([]string{p.dir}, c.private...), Pin: p.pin}
	if p.pin != "" {
		o.At = p.at("git")
	}
	if c.repo != nil {
		o.Trees = c.repo.tops()
	}
	if c.tree != "" {
		o.Trees = append(o.Trees, c.tree)
	}
	// A remote that is a directory is written by a git of its own, which may have hooks.
	o.Open = c.remote != nil && c.remote.scheme == "file" && c.args[0] == "push"
	exit, err := p.way.Run(ctx, o, proc)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		err = fmt.Errorf("%w: %w (%s)", ErrHostile, err, leads)
	}
	return exit, err
}

// leads is the hint where a link or a file came in the way while git worked.
const leads = "end the command that changes the tree while git runs, remove its links from the repository, and retry"

// tops are the directories that hold all that strangers can write of a repository, none inside of another.
func (l *layout) tops() []string {
	top := filepath.Dir(l.common)
	switch {
	case within(l.tree, top):
		return []string{top}
	case within(top, l.tree):
		return []string{l.tree}
	}
	return []string{l.tree, top}
}

// inside calls f with the directory that holds the repository's own, which is not left by any link, and the name of
// that.
func (l *layout) inside(f func(root *os.Root, top string) error) error {
	root, err := os.OpenRoot(filepath.Dir(l.common))
	if err != nil {
		return err
	}
	return errors.Join(f(root, filepath.Base(l.common)), root.Close())
}

// mkdir makes a directory of the repository's own, if it is not there.
func (l *layout) mkdir(name string) error {
	return l.inside(func(root *os.Root, top string) error {
		if err := root.Mkdir(filepath.Join(top, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}
