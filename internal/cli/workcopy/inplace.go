package workcopy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of what is closed in a directory that a run works in itself. Above them the run is refused.
const (
	maxWalked = 500_000
	maxSecret = 512
)

// closedNames can be changed by no tool and no command of such a run, also where they are not there yet: what git and
// this program read there may start programs.
var closedNames = []string{".git", ".inspan"}

// Visit is a run in the directory of a person itself, until Done.
type Visit struct {
	copy  *Copy
	kept  Place
	claim *claim
}

// InPlace has a task work in the directory itself. What it has now is kept for an undo, and the directory is registered
// below the workspace root of a station of this machine. over reports whether a run that was left there has ended.
func (c *Copy) InPlace(ctx context.Context, root string, task *events.Task, over func(Place) (bool, error)) (_ *Visit,
	err error) {
	if err := c.mayEnter(root); err != nil {
		return nil, err
	}
	v := &Visit{copy: c, kept: Place{Dir: c.repo.Root, Root: root, Run: task.ID, Session: task.Session, PID: os.Getpid(),
		At: time.Now().UTC()}}
	if v.claim, err = take(v.kept, over); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.leave())
		}
	}()
	closed, err := c.closed(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range closedNames {
		if err := os.Mkdir(filepath.Join(c.repo.Root, name), 0o755); err == nil {
			v.kept.Made = append(v.kept.Made, name)
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if v.kept.Ignored, err = c.repo.Ignored(ctx); err != nil {
		return nil, err
	}
	base, err := v.kept.save(ctx, c.repo, beforeName, c.with)
	if err != nil {
		return nil, err
	}
	c.base, v.kept.Before = base, base
	if err := v.kept.note(); err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	if err := workdir.SavePlace(root, id, closed); err != nil {
		return nil, err
	}
	task.Place = id
	return v, nil
}

// mayEnter refuses a directory in which no run may work.
func (c *Copy) mayEnter(root string) error {
	at := c.repo.Root
	if home, err := os.UserHomeDir(); err == nil && trust.Below(at, home) {
		return app.Usage("--in-place: %s is your home or above it: go to the folder of a project", at)
	}
	if doing := c.repo.Underway(); doing != "" {
		return app.Usage("--in-place: a %s is not finished in %s: finish it, or git %s --abort; without --in-place the run works on a copy of the files as they are",
			doing, at, doing)
	}
	if real, err := filepath.EvalSymlinks(root); err == nil && trust.Below(at, real) &&
		!trust.Below(filepath.Join(at, ".inspan"), real) {
		return app.Usage("--in-place: the workspaces of the station are in %s itself, at %s: start it with another --workspace", at, real)
	}
	return nil
}

// closed lists what is closed in the directory. Files whose names say that they hold secrets and that are not committed
// cannot be seen, but for those that the person named.
func (c *Copy) closed(ctx context.Context) (p workdir.Place, err error) {
	p = workdir.Place{Dir: c.repo.Root, ReadOnly: []string{".git"}, Denied: []string{".inspan"}}
	hooks, err := c.repo.Hooks(ctx)
	if err != nil {
		return p, err
	}
	if hooks != "" {
		p.ReadOnly = append(p.ReadOnly, hooks)
	}
	committed, err := c.repo.Committed(ctx)
	if err != nil {
		return p, err
	}
	known := map[string]bool{}
	for _, name := range append(committed, c.with...) {
		known[name] = true
	}
	seen := 0
	err = fs.WalkDir(os.DirFS(c.repo.Root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("look for files that hold secrets: %w", err)
		}
		if seen++; seen > maxWalked {
			return app.Usage("--in-place: %s has more than %d files, too many to look for secrets in: work on a copy",
				c.repo.Root,
				maxWalked)
		}
		switch {
		case d.IsDir() && slices.Contains(closedNames, name):
			return fs.SkipDir
		case d.Name() == ".git" && name != ".git": // of a repository in the tree
			p.ReadOnly = append(p.ReadOnly, name)
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && git.Secret(name) && !known[name]:
			p.Denied = append(p.Denied, name)
		}
		if len(p.Denied)+len(p.ReadOnly) > maxSecret {
			return app.Usage("--in-place: %s has more than %d files whose names say that they hold secrets, and repositories: work on a copy",
				c.repo.Root, maxSecret)
		}
		return nil
	})
	return p, err
}

// Lines say where the run works.
func (v *Visit) Lines() []string {
	id := v.kept.Run
	lines := []string{fmt.Sprintf("Works in %s itself, not on a copy; .git and .inspan are closed to it. Take it back with: inspan undo %s",
		view.Clip(v.kept.Dir, 400), id)}
	if len(v.kept.Before.Secret) > 0 {
		lines = append(lines, "Closed too, because the names say that they hold secrets: "+listed(v.kept.Before.Secret)+
			" (--with FILE opens one)")
	}
	return lines
}

// Done keeps what the directory has now, and lets others in. ended is false where the run may still go on: then it can
// only be undone with all that was changed since.
func (v *Visit) Done(ctx context.Context, ended bool) (notes []string, err error) {
	if v == nil {
		return nil, nil
	}
	if !ended {
		return nil, v.claim.detach()
	}
	after, err := v.kept.save(ctx, v.copy.repo, afterName, v.copy.with)
	if err == nil {
		v.kept.After = &after
		err = v.kept.note()
	}
	if fresh := slices.DeleteFunc(after.Nested, func(n string) bool {
		return slices.Contains(v.kept.Before.Nested, n)
	}); len(fresh) > 0 {
		notes = append(notes, "The run made repositories in the tree, whose settings and hooks may start programs: "+listed(fresh)+
			". Look at them before you use git there.")
	}
	return notes, errors.Join(err, v.leave())
}

// leave lets others in.
func (v *Visit) leave() error {
	v.kept.tidy()
	return v.claim.release()
}
