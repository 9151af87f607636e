package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// leftDir, below the workspace root, has the files of deleted sessions whose work could not be kept elsewhere.
const leftDir = ".left"

// busyTries is how often the files of a deleted session wait for another toolrunner that holds them.
const busyTries = 120

// vacate takes away what is left of a session that was deleted: its tree, what its runs published, and its files. What no remote has
// is published first, in a scope of its own, where it stays for some time.
func (r *Role) vacate(ctx context.Context, m kernel.Message, e events.Session) error {
	at, scope := "session/"+e.ID, events.DeletedScope(e)
	if r.cfg.Git != nil {
		if err := r.cfg.Git.Retire(ctx, at, scope); err != nil {
			return err
		}
	}
	if r.cfg.Trees != nil {
		if err := r.vacateTree(ctx, m, at, scope); err != nil {
			return err
		}
	}
	return r.clear(ctx, place{Dir: workdir.Dir{Workspace: at, Path: at}}, scope)
}

// vacateTree keeps what the repository of a tree has, which may have to be restored for it, and then forgets the tree.
func (r *Role) vacateTree(ctx context.Context, m kernel.Message, at, scope string) error {
	has, err := r.cfg.Trees.Repository(ctx, at)
	if err != nil {
		return err
	}
	if has {
		v, err := r.cfg.Trees.Enter(ctx, at, "sweep")
		busy, isBusy := errors.AsType[*workspace.BusyError](err)
		switch {
		case isBusy && m.Deliveries() < busyTries:
			return &kernel.Later{After: sweepAgain}
		case isBusy:
			return kernel.Refuse("workspace_busy", "stop the run, or wait for it, and delete the session again", "the files of %s are held by %s for run %s", at, busy.Owner, busy.Run)
		case errors.Is(err, workspace.ErrDamaged):
			return kernel.Refuse("workspace_damaged", "restore the object store of the station from its archive and delete the session again", "the work in %s can not be kept: %v", at, err)
		case err != nil:
			return err
		}
		err = r.clear(ctx, place{Dir: workdir.Dir{Workspace: at, Path: v.Path()}}, scope)
		v.Leave()
		if err != nil {
			return err
		}
	}
	return r.cfg.Trees.Forget(ctx, at)
}

// clear removes the files of a session once what no remote has of its repository is kept in a scope. Where not all of the work can be
// kept so, they are put aside.
func (r *Role) clear(ctx context.Context, p place, scope string) error {
	dir := filepath.Join(r.cfg.Sandboxes.Root(), filepath.FromSlash(p.Path))
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	whole := errors.Is(err, fs.ErrNotExist)
	if !whole && r.cfg.Rescue != nil {
		if whole, err = r.cfg.Rescue(ctx, scope, dir); err != nil {
			return fmt.Errorf("keep the work in %s: %w", p.Workspace, err)
		}
	}
	if !whole {
		if err := aside(r.cfg.Sandboxes.Root(), p.Path, scope); err != nil {
			return fmt.Errorf("put the files of %s aside: %w", p.Workspace, err)
		}
	}
	return sweep(r.cfg.Sandboxes, p.Dir)
}

const (
	// sweepAgain and sweepTries bound how long the files of a session wait that is not deleted yet as far as is known here.
	sweepAgain = 500 * time.Millisecond
	sweepTries = 10
)

// Input implements kernel.Role: the files of a session that was deleted go.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	id, verb, ok := events.ParseSession(m.Subject())
	if !ok || verb != "sweep" || r.cfg.Sessions == nil {
		return kernel.Refuse("bad_subject", "publish on station.{station}.session.{session}.sweep", "nothing is known of the subject %q", m.Subject())
	}
	b, err := r.cfg.Sessions.Get(ctx, "session."+id)
	var e events.Session
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return err
	}
	if e.Status != events.SessionDeleted {
		if m.Deliveries() < sweepTries {
			return &kernel.Later{After: sweepAgain}
		}
		return kernel.Refuse("session_lives", "delete it first: inspan session delete "+id, "session %q is not deleted", id)
	}
	unlock, err := r.sessions.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r.pool.DropWorkspace("session/" + id)
	return r.vacate(ctx, m, e)
}

// sweep takes a workspace and its cache away.
func sweep(o *pool.Opener, p workdir.Dir) error {
	for dir, path := range map[string]string{o.Root(): p.Path, o.Cache(): p.Workspace} {
		if dir == "" {
			continue
		}
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sweep %s: %w", p.Workspace, err)
		}
		err = root.RemoveAll(path)
		if err = errors.Join(err, root.Close()); err != nil {
			return fmt.Errorf("sweep %s: %w", p.Workspace, err)
		}
	}
	return gitwork.Forget(o.Root(), p.Path)
}

// maxAside is how many directories of one session are put aside.
const maxAside = 100

// aside moves a workspace to where nobody works, as one of a name.
func aside(root, path, name string) error {
	left := filepath.Join(root, leftDir)
	if err := os.MkdirAll(left, 0o700); err != nil {
		return err
	}
	to := strings.ReplaceAll(name, "/", "=")
	for n := 1; ; n++ {
		free := fmt.Sprintf("%s.%d", to, n)
		if _, err := os.Lstat(filepath.Join(left, free)); err == nil && n < maxAside {
			continue
		}
		if err := os.Rename(filepath.Join(root, filepath.FromSlash(path)), filepath.Join(left, free)); err != nil {
			return err
		}
		return gitwork.MoveLoan(root, path, leftDir+"/"+free)
	}
}
