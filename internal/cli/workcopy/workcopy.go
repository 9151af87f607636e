// Package workcopy has runs work on a copy of the directory where a person stands.
//
// Promises: the person's working tree and repository are only read. The copy has what is committed and what is not, but
// for ignored files and files whose names say that they hold secrets. What the run makes of it is a branch that is kept
// with the station; the person takes it with inspan merge, and nothing else changes the person's files.
package workcopy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// BranchPrefix begins the names of the branches of runs that work on a copy; the id of the run follows, or that of its
// session.
const BranchPrefix = "inspan/"

// Copy is the working tree that a run is to have a copy of.
type Copy struct {
	repo *git.Local
	with []string
	base git.Base
	// beside is a folder for what git needs where there is no repository.
	beside string
}

// IsPath reports whether a text names a directory of this machine and not the address of a repository.
func IsPath(repo string) bool {
	if repo == "" || strings.Contains(repo, "://") {
		return false
	}
	if _, err := os.Stat(repo); err == nil {
		return true
	}
	return strings.HasPrefix(repo, "/") || strings.HasPrefix(repo, ".") || !strings.Contains(repo, ":")
}

// Git returns the git that reads the repositories of persons. The store of a station is no content of one.
func Git() (*git.Git, error) { return git.New(git.Config{Ignore: append(gitwork.Own(), "/.inspan/")}) }

// Find finds the repository around a directory. with are paths of files, as the person names them, that are copied
// although they are ignored or look like secrets. Its error is git.ErrNotRepository where there is none.
func Find(ctx context.Context, dir string, with []string) (*Copy, error) {
	g, err := Git()
	if err != nil {
		return nil, err
	}
	repo, err := g.Local(ctx, dir)
	if err != nil {
		return nil, err
	}
	return (&Copy{repo: repo}).named(with)
}

// IsProject reports whether a directory that is in no repository is one to work on: it has files, and is neither the
// person's home nor above it.
func IsProject(dir string) bool {
	at, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if home, err := os.UserHomeDir(); err == nil && trust.Below(at, home) || at == filepath.Clean(os.TempDir()) {
		return false
	}
	entries, err := os.ReadDir(at)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != ".inspan" })
}

// Folder is Find for a directory that is in no repository; Close removes what git needed for it.
func Folder(ctx context.Context, dir string, with []string) (_ *Copy, err error) {
	g, err := Git()
	if err != nil {
		return nil, err
	}
	c := &Copy{}
	if c.beside, err = os.MkdirTemp("", "inspan-folder-"); err != nil {
		return nil, err
	}
	if c.repo, err = g.Folder(ctx, dir, c.beside); err == nil {
		_, err = c.named(with)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close removes what was made for the copy beside it.
func (c *Copy) Close() {
	if c != nil && c.beside != "" {
		_ = os.RemoveAll(c.beside) // in the system's place for temporary files
	}
}

// named notes the files that a person names.
func (c *Copy) named(with []string) (*Copy, error) {
	repo := c.repo
	for _, name := range with {
		at, err := filepath.Abs(name)
		if err == nil {
			at, err = filepath.EvalSymlinks(at)
		}
		if err != nil {
			return nil, app.Usage("--with %s: %w", name, err)
		}
		rel, err := filepath.Rel(repo.Root, at)
		if info, statErr := os.Stat(at); err != nil || !filepath.IsLocal(rel) || statErr != nil || !info.Mode().IsRegular() {
			return nil, app.Usage("--with %s: want a file below %s", name, repo.Root)
		}
		c.with = append(c.with, filepath.ToSlash(rel))
	}
	return c, nil
}

// None reports whether an error of Find says that there is nothing to copy here.
func None(err error) bool {
	return errors.Is(err, git.ErrNotRepository) || errors.Is(err, git.ErrBare) || errors.Is(err, exec.ErrNotFound)
}

// Files lists the files that a person can name to the model: those of the copy, and those named with --with.
func (c *Copy) Files(ctx context.Context) ([]string, error) {
	files, err := c.repo.Files(ctx)
	if err != nil {
		return nil, err
	}
	files = append(files, c.with...)
	slices.Sort(files)
	return slices.Compact(files), nil
}

// Root is the top of the person's working tree.
func (c *Copy) Root() string { return c.repo.Root }

// Into takes the working tree as it is, keeps it below the workspace root of a station of this machine, and has a task
// work on it.
func (c *Copy) Into(ctx context.Context, root string, task *events.Task) error {
	address, base, err := gitwork.RegisterLocal(root, strings.ToLower(rand.Text()),
		func(pack io.Writer) (git.Base, error) {
			return c.repo.Base(ctx, pack, c.with, c.repo.IsFolder(), git.BaseLimits{})
		})
	if errors.Is(err, git.ErrTooLarge) && c.repo.IsFolder() {
		return app.Usage("copy of %s, which is in no git repository: %w (go to the folder of the project; a .gitignore leaves files out; --empty begins with nothing)",
			c.repo.Root, err)
	}
	if err != nil {
		return fmt.Errorf("copy of %s: %w", c.repo.Root, err)
	}
	c.base = base
	Aim(address, task)
	return nil
}

// Aim has a task work on what is kept at an address: on a branch of its own, or of its session, which is committed and
// pushed nowhere. Without an address it goes on in the copy that its session has.
func Aim(address string, task *events.Task) {
	yes, no := true, false
	name := "${run_id}"
	if task.Session != "" {
		name = "${session_id}"
	}
	task.Repo = address
	task.Git = &events.TaskGit{GitSettings: events.GitSettings{AutoBranch: &no, AutoCommit: &yes, Push: &no,
		WorkingBranch: BranchPrefix + name, Workspace: events.WorkspaceEphemeral}}
}

// Lines say what the run works on, and what was left out of it.
func (c *Copy) Lines(task events.Task) []string {
	b := c.base
	at := "without a commit yet"
	if c.repo.IsFolder() {
		at = "(in no git repository)"
	}
	if b.Head != "" {
		at = "at " + view.Clip(b.Head, 12)
	}
	switch {
	case c.repo.IsFolder():
		at += ", " + view.Plural(b.Changed, "file")
	case b.Changed == 1:
		at += " plus 1 changed file"
	case b.Changed > 1:
		at += fmt.Sprintf(" plus %d changed files", b.Changed)
	}
	id := cmp.Or(task.Session, task.ID)
	lines := []string{fmt.Sprintf("Works on a copy of %s %s; branch %s%s; get it with: inspan merge %s",
		view.Clip(b.Root, 400), at, BranchPrefix, id, id)}
	if len(b.Secret) > 0 {
		lines = append(lines, fmt.Sprintf("Left out, because the names say that they hold secrets: %s (--with FILE takes one)", listed(b.Secret)))
	}
	if len(b.Nested) > 0 {
		lines = append(lines, "Left out, because they are repositories of their own: "+listed(b.Nested))
	}
	if c.repo.LFS() {
		lines = append(lines, "Files of Git LFS are pointers in the copy, not their content: an agent cannot work on them.")
	}
	if doing := c.repo.Underway(); doing != "" {
		lines = append(lines, "A "+doing+" is not finished there: the copy has the files as they are now.")
	}
	return lines
}

// maxListed is how many names a line has.
const maxListed = 5

func listed(names []string) string {
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
		names = names[:maxListed]
	}
	var out []string
	for _, n := range names {
		out = append(out, view.Clip(n, 80))
	}
	return strings.Join(out, ", ") + more
}
