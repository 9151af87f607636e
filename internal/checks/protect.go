package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/shell"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// protected are the paths that a command finds as they were in the commit that the run began with.
type protected struct {
	// patterns of events.Accept.Protect; scripts are the files that the command itself runs.
	patterns, scripts []string
}

// instead are files that a program reads in the place of others in their directory, or that change what those mean: an
// agent that may not edit a Makefile could add a GNUmakefile. They are protected with the files that they stand for.
var instead = map[string][]string{
	"GNUmakefile": {"makefile", "Makefile"},
	"makefile":    {"Makefile"},
	"go.work":     {"go.mod"},
	".npmrc":      {"package.json"},
	"pytest.ini":  {"pyproject.toml", "tox.ini", "setup.cfg"},
	".pytest.ini": {"pyproject.toml", "tox.ini", "setup.cfg"},
}

// has reports whether a path is one that a pattern protects, itself or with a directory above it, or one that would be
// read in the place of such a path.
func (p protected) has(name string) bool {
	dir, file := path.Split(name)
	return p.names(name) || slices.ContainsFunc(instead[file], func(other string) bool { return p.names(dir + other) })
}

// names reports whether a pattern matches a path or a directory above it.
func (p protected) names(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		for _, pattern := range p.patterns {
			if doublestar.MatchUnvalidated(pattern, at) {
				return true
			}
		}
	}
	return false
}

// leads reports whether a link of this name could give protected paths to files that are not: a path below the name
// matches a pattern, and what the link leads to need not.
func (p protected) leads(name string) bool {
	parts := strings.Split(name, "/")
	return slices.ContainsFunc(p.patterns, func(pattern string) bool {
		want := strings.Split(pattern, "/")
		if want[0] != "**" {
			return below(want, parts)
		}
		for i := range parts { // where ** stands for what is above the link, it does so at the other end, too
			if below(want[1:], parts[i:]) {
				return true
			}
		}
		return false
	})
}

// below reports whether a path below the given one can match a pattern.
func below(pattern, name []string) bool {
	switch {
	case len(pattern) == 0 || pattern[0] == "**":
		return len(pattern) > 0
	case len(name) == 0:
		return true
	}
	ok, _ := path.Match(pattern[0], name[0]) // a pattern without brackets and backslashes is sound
	return ok && below(pattern[1:], name[1:])
}

// scriptsOf are the scripts that a command runs by their path, such as ./check.sh: what they do is what decides.
func scriptsOf(c events.Check) []string {
	var all []string
	for _, script := range shell.Parse(c.Run).Runs {
		if script.Shell && c.From != events.FromClaim {
			all = append(all, path.Clean(script.Path))
		}
	}
	return all
}

// restore gives a copy the protected files of the commit that the run began with, and says which of them differed.
func (c *Checker) restore(ctx context.Context, s run.State, d acceptance.Duty, at string, t tree,
	e *acceptance.Evidence) error {
	p := protected{patterns: slices.Clone(d.Protect), scripts: scriptsOf(d.Check)}
	for i, pattern := range p.patterns {
		p.patterns[i] = strings.TrimSuffix(pattern, "/")
	}
	base := delivery.Base(s)
	switch {
	case len(p.patterns) == 0 && (len(p.scripts) == 0 || base == ""):
		return nil
	case base == "":
		return fmt.Errorf("%w: protect needs the commit that the run began with, and it began without one", ErrTree)
	case c.cfg.Git == nil:
		return fmt.Errorf("%w: protect needs git, which this toolrunner does not have", ErrTree)
	}
	dst, err := workdir.Open(c.cfg.Sandboxes.Root(), t.dir)
	if err != nil {
		return err
	}
	r := &restorer{dst: dst, protected: p, base: map[string]bool{}}
	want := func(name string) bool { return slices.Contains(p.scripts, name) || p.has(name) }
	err = c.cfg.Git.Files(ctx, filepath.Join(c.cfg.Sandboxes.Root(), filepath.FromSlash(at)), base, want, r.put)
	if err == nil {
		err = fs.WalkDir(dst.FS(), ".", r.remove)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("%w: protected files of commit %.12s: %w", ErrTree, base, err)
	}
	slices.Sort(r.changed)
	e.Base, e.Restored = base, r.changed[:min(len(r.changed), events.MaxRestored)]
	if more := len(r.changed) - len(e.Restored); more > 0 {
		e.Note = strings.TrimSpace(e.Note + fmt.Sprintf(" %d more protected paths were restored.", more))
	}
	return nil
}

// restorer writes files of a commit into a copy, and removes what stands in their places.
type restorer struct {
	protected
	dst     *os.Root
	base    map[string]bool
	changed []string
}

// put writes one file of the commit, through no link.
func (r *restorer) put(f gitwork.File) error {
	if !fs.ValidPath(f.Path) || strings.Contains("/"+f.Path+"/", "/.git/") {
		return fmt.Errorf("%q is no path", f.Path)
	}
	if f.Mode == "120000" && !staysIn(f.Path, string(f.Content)) {
		return nil // it leads out, and is in no copy; what the agent put in its place is removed
	}
	if r.base[f.Path] = true; r.same(f) {
		return nil
	}
	r.changed = append(r.changed, f.Path)
	for i, ch := range f.Path {
		if ch != '/' {
			continue
		}
		if err := r.directory(f.Path[:i]); err != nil {
			return err
		}
	}
	name := filepath.FromSlash(f.Path)
	if err := r.dst.RemoveAll(name); err != nil {
		return err
	}
	switch f.Mode {
	case "120000":
		return r.dst.Symlink(string(f.Content), name)
	case "100755":
		return r.dst.WriteFile(name, f.Content, 0o755)
	}
	return r.dst.WriteFile(name, f.Content, 0o644)
}

// directory makes sure that a path is a directory and no link to one.
func (r *restorer) directory(name string) error {
	name = filepath.FromSlash(name)
	if info, err := r.dst.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	return errors.Join(r.dst.RemoveAll(name), r.dst.Mkdir(name, 0o755))
}

// same reports whether a file is in the copy as it is in the commit.
func (r *restorer) same(f gitwork.File) bool {
	for i, ch := range f.Path {
		if ch != '/' {
			continue
		}
		if info, err := r.dst.Lstat(filepath.FromSlash(f.Path[:i])); err != nil || !info.IsDir() {
			return false
		}
	}
	name := filepath.FromSlash(f.Path)
	info, err := r.dst.Lstat(name)
	switch {
	case err != nil:
		return false
	case f.Mode == "120000":
		to, err := r.dst.Readlink(name)
		return err == nil && filepath.ToSlash(to) == string(f.Content)
	case !info.Mode().IsRegular() || info.Mode()&0o100 != 0 != (f.Mode == "100755") ||
		info.Size() != int64(len(f.Content)):
		return false
	}
	in, err := r.dst.Open(name)
	if err != nil {
		return false
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	return err == nil && bytes.Equal(b, f.Content)
}

// remove removes what has a protected path and is not in the commit, and links that could give one to other files.
func (r *restorer) remove(name string, e fs.DirEntry, err error) error {
	if err != nil || name == "." {
		return err
	}
	switch {
	case r.base[name]:
		return nil
	case e.IsDir() || !r.has(name) && (e.Type() != fs.ModeSymlink || !r.leads(name)):
		return nil
	}
	r.changed = append(r.changed, name)
	return r.dst.Remove(filepath.FromSlash(name))
}
