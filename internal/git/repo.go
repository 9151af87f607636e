package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	maxConfig  = 1 << 20   // bytes of a repository's configuration
	maxPointer = 4 << 10   // bytes of HEAD and other files with one line
	maxEntries = 2_000_000 // files below .git
)

// Repo is the working tree of a repository. It is made of what is known of its files, what can be read of it, and what
// changes it.
type Repo struct {
	writer
	// prunes says that what the remote has not any more is forgotten with each fetch.
	prunes bool
}

// layout is where the files of a repository are.
type layout struct {
	// tree is the top of the working tree; gitDir its own part of the repository, common what all its trees share.
	tree, gitDir, common string
	format               string // of object ids: sha1 or sha256
	// lender, if set, is the directory of objects of another repository that this one may borrow from, and no other.
	lender string
	// reads is true where nothing is to be written into the repository.
	reads bool
}

// history reads the commits, refs and files of a repository and changes nothing.
type history struct {
	layout
	g *Git
}

// writer makes objects and moves refs, the index and the tree.
type writer struct{ history }

// Dir is the top of the working tree.
func (l *layout) Dir() string { return l.tree }

// Open opens the repository whose working tree's top is dir. It must hold a .git that is a directory: a file that
// points elsewhere is refused (ErrHostile), see Repo.Worktree for those that are known. Without one the error is
// ErrNotRepository.
func (g *Git) Open(ctx context.Context, dir string) (*Repo, error) { return g.openWith(ctx, dir, "") }

// openWith opens a repository that may borrow from one directory of objects.
func (g *Git) openWith(ctx context.Context, dir, lender string) (*Repo, error) {
	tree, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(tree, ".git")
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w (clone into it or init it)", tree, ErrNotRepository)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory and may point anywhere: %w (open a worktree through its main repository)", at, ErrHostile)
	}
	r := &Repo{writer: writer{history{g: g, layout: layout{tree: tree, gitDir: at, common: at, lender: lender}}}}
	return r, r.open(ctx)
}

// open checks the layout and reads the one thing that must be known of the configuration.
func (h *history) open(ctx context.Context) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := h.readable(ctx); err != nil {
		return err
	}
	text, err := readNoFollow(filepath.Join(h.common, "config"), maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if h.format = "sha1"; !bytes.Contains(bytes.ToLower(text), []byte("extensions")) {
		return nil // the name of a section can be written in no other way, and nothing else of it is used
	}
	// It reads standard input alone, follows no include and starts nothing.
	a, err := h.g.exec(ctx, call{args: []string{"config", "--file", "-", "--no-includes", "--null", "--get-regexp",
		`^extensions\.`}, stdin: bytes.NewReader(text), fine: []int{1}})
	if err != nil {
		return fmt.Errorf("%s: its configuration cannot be read: %w", h.tree, errors.Join(err, ErrHostile))
	}
	for entry := range strings.SplitSeq(a.out, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		switch {
		case key == "extensions.objectformat" && (value == "sha256" || value == "sha1"):
			h.format = value
		case key == "extensions.objectformat", key == "extensions.refstorage" && value != "files":
			return fmt.Errorf("%s: %s is %q, which is not supported: %w (clone it again)", h.tree, key, short(value), ErrHostile)
		}
	}
	return nil
}

// Init makes an empty repository in dir, which is made if it is not there. Nothing in it is taken from a template. What
// Config.Ignore names is left out by those who use git in the tree, too.
func (g *Git) Init(ctx context.Context, dir, branch string) (*Repo, error) {
	if err := CheckName(branch); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	tree, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(tree, ".git")); err == nil {
		return nil, fmt.Errorf("%s: %w (it is already a repository: open it)", tree, ErrNotEmpty)
	}
	if _, err := g.run(ctx, call{args: []string{"init", "--quiet", "--template=", "--initial-branch=" + branch, "--",
		tree}, tree: tree}); err != nil {
		return nil, err
	}
	// For those who use git in the tree. It is not read here.
	info := filepath.Join(tree, ".git", "info")
	if err := os.MkdirAll(info, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(info, "exclude"), []byte(strings.Join(append(slices.Clone(g.cfg.Ignore), ""),
		"\n")), 0o644); err != nil {
		return nil, err
	}
	return g.Open(ctx, tree)
}

// realDir is the absolute path of a directory, without links in it.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w (want a directory)", abs, ErrNotRepository)
	}
	return abs, err
}

// check refuses a layout by which git would read or write elsewhere. It is looked at before every command.
func (l *layout) check() error {
	for dir := l.gitDir; ; dir = l.common {
		if err := checkTop(dir); err != nil {
			return err
		}
		if dir == l.common {
			break
		}
	}
	if head, err := readNoFollow(filepath.Join(l.gitDir, "HEAD"), maxPointer); err != nil {
		return fmt.Errorf("%s: HEAD is unreadable: %w: %w", l.gitDir, err, ErrNotRepository)
	} else if ref, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref:"); ok &&
		!strings.HasPrefix(strings.TrimSpace(ref), "refs/heads/") {
		return fmt.Errorf("%s: HEAD names %q, which is not a branch: %w", l.gitDir, short(strings.TrimSpace(ref)), ErrHostile)
	}
	if err := l.branches(); err != nil {
		return err
	}
	if err := l.borrows(); err != nil {
		return err
	}
	n := 0
	for _, name := range []string{"objects", "refs", "logs", "worktrees", "rebase-merge", "rebase-apply", "sequencer"} {
		if err := noLinks(filepath.Join(l.common, name), &n); err != nil {
			return err
		}
	}
	return nil
}

// branches refuses a file by which git would look for refs elsewhere, whatever it is told.
func (l *layout) branches() error {
	at := filepath.Join(l.gitDir, "commondir")
	text, err := readNoFollow(at, maxPointer)
	if l.gitDir == l.common && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if there := strings.TrimSpace(string(text)); l.gitDir == l.common || there != "../.." {
		return fmt.Errorf("%s names %q as the directory of branches: %w (remove it)", at, short(there), ErrHostile)
	}
	return nil
}

// readable refuses pipes and the like where git reads files of rules in a tree: it would wait there for ever.
func (l *layout) readable(ctx context.Context) error {
	return filepath.WalkDir(l.tree, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || d.IsDir() && d.Name() == ".git":
			if d != nil && d.IsDir() {
				return fs.SkipDir // git does not read it either
			}
			return nil
		case (d.Name() == ".gitignore" || d.Name() == ".gitattributes") &&
			d.Type()&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeSocket|fs.ModeIrregular) != 0:
			return fmt.Errorf("%s is not a readable file: %w (remove it)", path, ErrHostile)
		}
		return nil
	})
}

// checkTop refuses links and strange files at the top of a git directory.
func checkTop(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", dir, ErrHostile)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is a link or a special file: %w (remove it)", filepath.Join(dir, e.Name()), ErrHostile)
		}
	}
	return nil
}

// noLinks refuses links and special files below a directory, which need not be there.
func noLinks(dir string, n *int) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch *n++; {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case *n > maxEntries:
			return fmt.Errorf("%s: more than %d files: %w (repack it)", dir, maxEntries, ErrTooLarge)
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or a special file: %w (remove it)", path, ErrHostile)
		}
		return nil
	})
}

// readNoFollow reads a regular file that is no link and at most so large.
func readNoFollow(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", path, errors.Join(err, ErrHostile))
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes: %w", path, limit, ErrTooLarge)
	}
	return b, err
}

func (h *history) run(ctx context.Context, args ...string) (string, error) {
	return h.do(ctx, call{args: args})
}

// line gives the first line of a command's output.
func (h *history) line(ctx context.Context, args ...string) (string, error) {
	return firstLine(h.run(ctx, args...))
}

func firstLine(out string, err error) (string, error) {
	first, _, _ := strings.Cut(out, "\n")
	return first, err
}

// do gives the output of a command in the repository that must succeed.
func (h *history) do(ctx context.Context, c call) (string, error) {
	a, err := h.exec(ctx, c)
	return a.out, err
}

// exec runs a command in the repository.
func (h *history) exec(ctx context.Context, c call) (answer, error) {
	c.repo = &h.layout
	return h.g.exec(ctx, c)
}
