package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Taken is a Base with its pack, which may be nil where it has none.
type Taken struct {
	Base Base
	Pack io.Reader
}

// Between reads two Bases of one working tree as the Result of what was done between them: Undo and Diff of it, since
// the commit of the first one, are those of that. Close removes the place that it is read in.
func (g *Git) Between(ctx context.Context, l *Local, before, after Taken) (_ *Result, err error) {
	dir, err := os.MkdirTemp(g.cfg.Temp, "inspan-between-")
	if err != nil {
		return nil, err
	}
	r := &Result{g: g, local: l, dir: filepath.Join(dir, "r"), ref: Ref{Name: baseBranch, ID: after.Base.Commit}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if _, err := g.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--", r.dir}}); err != nil {
		return nil, err
	}
	if !l.folder {
		objects, _ := l.Objects()
		r.env = []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(objects)}
	}
	for i, t := range []Taken{before, after} {
		if !fullID.MatchString(t.Base.Commit) {
			return nil, fmt.Errorf("state of %s: its commit has no id: %w", l.Root, ErrDamaged)
		}
		if t.Base.Shallow != "" {
			if err := os.WriteFile(filepath.Join(r.dir, "shallow"), []byte(t.Base.Shallow), 0o600); err != nil {
				return nil, err
			}
		}
		if !t.Base.Pack {
			continue
		}
		at := filepath.Join(dir, fmt.Sprint(i))
		if err := spool(at, t.Pack, g.cfg.Limits.Pack); err != nil {
			return nil, err
		}
		_, err := g.run(ctx, call{args: []string{"bundle", "unbundle", at}, gitDir: r.dir, env: r.env, bound: true})
		if err != nil {
			return nil, fmt.Errorf("state of %s: %w: %w", l.Root, ErrDamaged, err)
		}
	}
	return r, nil
}

// maxIgnored bounds the list of ignored files, in bytes.
const maxIgnored = 8 << 20

// Ignored lists what git ignores in the working tree, with slashes; a directory of which nothing is committed ends with
// one.
func (l *Local) Ignored(ctx context.Context) ([]string, error) {
	out, err := l.ask(ctx, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
	if err == nil && len(out) > maxIgnored {
		err = fmt.Errorf("the names of the ignored files of %s have more than %d bytes: %w", l.Root, maxIgnored, ErrTooLarge)
	}
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

// Committed lists the files of the working tree that git knows, with slashes.
func (l *Local) Committed(ctx context.Context) ([]string, error) {
	out, err := l.ask(ctx, "ls-files", "--cached", "-z")
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

// Hooks is where the hooks of the repository are, relative to the working tree, where that is in it and not in .git;
// else it is empty.
func (l *Local) Hooks(ctx context.Context) (string, error) {
	if l.folder {
		return "", nil
	}
	at := l.Root
	// ask overrides the setting: it is read from the files.
	for _, scope := range []string{"--worktree", "--local", "--global", "--system"} {
		out, err := l.run(ctx, []int{1, 128}, "config", scope, "--type=path", "--get", "core.hooksPath")
		if err != nil {
			return "", err
		}
		out = strings.TrimSuffix(out, "\n")
		if out == "" {
			continue
		}
		if !filepath.IsAbs(out) {
			out = filepath.Join(at, out)
		}
		rel, err := filepath.Rel(at, out)
		if err != nil || !filepath.IsLocal(rel) || rel == "." || rel == ".git" || strings.HasPrefix(rel, ".git/") {
			return "", nil
		}
		return filepath.ToSlash(rel), nil
	}
	return "", nil
}
