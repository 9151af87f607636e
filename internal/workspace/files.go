package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// maxLooked bounds how many files and directories are looked at for one answer.
const maxLooked = 50_000

// own are directories that are not looked into for changes: what services write, and what git writes when it is asked
// how things stand.
var own = map[string]bool{".harness": true, ".git": true}

// Files says what there is of the files of a run, below the root of the workspaces of this machine. It makes and
// changes nothing.
func (w Workspaces) Files(ctx context.Context, root string, q events.FilesQuestion) (events.FilesAnswer, error) {
	if _, place := events.PlaceOf(q.Workspace); place {
		at, _, err := workdir.PlaceOf(root, q.Workspace)
		if err != nil {
			return events.FilesAnswer{Files: events.FilesGone}, nil //nolint:nilerr // it was moved, or is not known here
		}
		if _, err := os.Stat(at.Dir); err != nil {
			return events.FilesAnswer{Files: events.FilesGone}, nil //nolint:nilerr // as above
		}
		return events.FilesAnswer{Files: events.FilesThere, More: true}, nil // it is a person's: not looked through
	}
	if err := errors.Join(events.CheckWorkspace(q.Workspace), events.CheckID("run", q.Run)); err != nil {
		return events.FilesAnswer{}, err
	}
	if w.Trees != nil && w.Trees.Follow() {
		return w.Trees.files(ctx, q.Workspace)
	}
	all, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return w.missing(q), nil
	}
	if err != nil {
		return events.FilesAnswer{}, fmt.Errorf("workspaces: %w", err)
	}
	defer func() { _ = all.Close() }() // nothing is written through it
	info, err := all.Lstat(q.Workspace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.missing(q), nil
	case err != nil:
		return events.FilesAnswer{}, fmt.Errorf("workspace %s: %w", q.Workspace, err)
	case !info.IsDir():
		return events.FilesAnswer{}, fmt.Errorf("workspace %s: %w", q.Workspace, workdir.ErrLinked)
	}
	return changed(ctx, all, q)
}

// missing is the answer where there is no directory.
func (w Workspaces) missing(q events.FilesQuestion) events.FilesAnswer {
	if w.Uses != nil && expires(q.Workspace) && !w.Uses.noted(q.Workspace, q.Run) {
		return events.FilesAnswer{Files: events.FilesGone}
	}
	return events.FilesAnswer{Files: events.FilesNone}
}

// files is Files of a tree that follows its runs.
func (t *Trees) files(ctx context.Context, workspace string) (events.FilesAnswer, error) {
	s, err := t.cfg.Log.Latest(ctx, workspace)
	switch {
	case err != nil:
		return events.FilesAnswer{}, err
	case s.Sequence == 0:
		return events.FilesAnswer{Files: events.FilesNone}, nil
	case s.Snapshot != "":
		return events.FilesAnswer{Files: events.FilesSaved}, nil
	case s.Owner != "": // no call has changed files yet
		return events.FilesAnswer{Files: events.FilesNone}, nil
	}
	return events.FilesAnswer{Files: events.FilesGone}, nil
}

// noted reports whether a run is known to have worked in a workspace. The note goes with the workspace.
func (u *Uses) noted(workspace, run string) bool {
	_, err := os.Lstat(filepath.Join(u.dir(workspace), run))
	return err == nil
}

// changed looks for files that were written after a time. A directory was written where something was made or removed
// in it; it is named where no file in it was.
func changed(ctx context.Context, all *os.Root, q events.FilesQuestion) (events.FilesAnswer, error) {
	a := events.FilesAnswer{Files: events.FilesThere}
	at, err := all.OpenRoot(q.Workspace)
	if err != nil {
		return a, fmt.Errorf("workspace %s: %w", q.Workspace, err)
	}
	defer func() { _ = at.Close() }() // nothing is written through it
	files, dirs := 0, map[string]bool{}
	err = fs.WalkDir(at.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if files++; err != nil || ctx.Err() != nil || files > maxLooked {
			a.More = true // not all of it can be looked at
			return fs.SkipAll
		}
		if e.IsDir() && own[e.Name()] {
			return fs.SkipDir
		}
		info, err := e.Info()
		switch {
		case err != nil || !info.ModTime().After(q.Since):
		case e.IsDir():
			dirs[name] = true
		case len(a.Changed) == events.MaxFilesNamed:
			a.More = true
			return fs.SkipAll
		default:
			a.Changed = append(a.Changed, name)
		}
		return nil
	})
	for _, name := range a.Changed {
		delete(dirs, path.Dir(name))
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if len(a.Changed) == events.MaxFilesNamed {
			a.More = true
			break
		}
		a.Changed = append(a.Changed, name+"/")
	}
	return a, err
}
