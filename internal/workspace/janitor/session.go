package janitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// leftDir, below the workspace root, has the files of deleted sessions whose work could not be kept elsewhere.
const leftDir = ".left"

// busyTries is how often the files of a deleted session wait for another toolrunner that holds them.
const busyTries = 120

const (
	// sweepAgain and sweepTries bound how long the files of a session wait that is not deleted yet as far as is known
	// here.
	sweepAgain = 500 * time.Millisecond
	sweepTries = 10
)

// DeleteSession removes the files of a session that was deleted, as a message asks for.
func (j *Janitor) DeleteSession(ctx context.Context, m kernel.Message) error {
	id, verb, ok := events.ParseSession(m.Subject())
	if !ok || verb != "sweep" || j.cfg.Sessions == nil {
		return kernel.Refuse("bad_subject", "publish on station.{station}.session.{session}.sweep",
			"nothing is known of the subject %q", m.Subject())
	}
	b, err := j.cfg.Sessions.Get(ctx, "session."+id)
	var e events.Session
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return err
	}
	if e.Status != events.SessionDeleted {
		if m.Deliveries() < sweepTries {
			return &kernel.RetryAfter{After: sweepAgain}
		}
		return kernel.Refuse("session_lives", "delete it first: inspan session delete "+id, "session %q is not deleted", id)
	}
	unlock, err := j.cfg.Files.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	j.cfg.DropSandboxes("session/" + id)
	return j.vacate(ctx, m, e)
}

// vacate takes away what is left of a session that was deleted: its tree, what its runs published, and its files. What
// no remote has is published first, in a scope of its own, where it stays for some time.
func (j *Janitor) vacate(ctx context.Context, m kernel.Message, e events.Session) error {
	at, scope := "session/"+e.ID, events.DeletedScope(e)
	if j.cfg.Git != nil {
		if err := j.cfg.Git.Retire(ctx, at, scope); err != nil {
			return err
		}
	}
	if j.cfg.Trees != nil {
		if err := j.vacateTree(ctx, m, at, scope); err != nil {
			return err
		}
	}
	return j.Clear(ctx, workdir.Dir{Workspace: at, Path: at}, scope)
}

// vacateTree keeps what the repository of a tree has, which may have to be restored for it, and then forgets the tree.
func (j *Janitor) vacateTree(ctx context.Context, m kernel.Message, at, scope string) error {
	has, err := j.cfg.Trees.Repository(ctx, at)
	if err != nil {
		return err
	}
	if has {
		v, err := j.cfg.Trees.Enter(ctx, at, "sweep")
		busy, isBusy := errors.AsType[*workspace.BusyError](err)
		switch {
		case isBusy && m.Deliveries() < busyTries:
			return &kernel.RetryAfter{After: sweepAgain}
		case isBusy:
			return kernel.Refuse("workspace_busy", "stop the run, or wait for it, and delete the session again",
				"the files of %s are held by %s for run %s", at, busy.Owner, busy.Run)
		case errors.Is(err, workspace.ErrDamaged):
			return kernel.Refuse("workspace_damaged",
				"restore the object store of the station from its archive and delete the session again",
				"the work in %s cannot be kept: %v", at, err)
		case err != nil:
			return err
		}
		err = j.Clear(ctx, workdir.Dir{Workspace: at, Path: v.Path()}, scope)
		v.Leave()
		if err != nil {
			return err
		}
	}
	return j.cfg.Trees.Cleanup().Forget(ctx, at)
}

// Clear removes the files of a session once what no remote has of its repository is kept in a scope. Where not all of
// the work can be kept so, they are put aside.
func (j *Janitor) Clear(ctx context.Context, at workdir.Dir, scope string) error {
	whole, err := j.workSaved(ctx, at.Path, scope)
	if err != nil {
		return err
	}
	if !whole {
		if err := aside(j.cfg.Root, at.Path, scope); err != nil {
			return fmt.Errorf("put the files of %s aside: %w", at.Workspace, err)
		}
	}
	return j.remove(at)
}

// maxAside is how many directories of one session are put aside.
const maxAside = 100

// aside moves a workspace to where no run works, as one of a name.
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
		return gitwork.MoveClone(root, path, leftDir+"/"+free)
	}
}
