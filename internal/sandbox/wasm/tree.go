package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/local"
)

// alias is another name of the workspace, for programs that are built with paths in them.
const alias = "/workspace"

// maxLinks is the most symbolic links on the way to a file.
const maxLinks = 40

// tree is what the programs of a sandbox see: directories of the machine under their own names, and nothing between
// them.
//
// Each is opened once. From there a path is walked one name at a time, relative to the open directory before it, and
// the kernel is told not to follow links: where a name is one, it is read and the walk begins again from the root of
// the tree. So neither a link nor a race leads out of what is shown. The path that was walked is also that by which
// rules are looked up; it cannot become another while it is walked, because what a rule names, and all above it, cannot
// be renamed.
type tree struct {
	workspace string
	mounts    []mount
	// rules are the writable and read-only paths, the longest first. denied hides, whatever the rules say.
	rules    []rule
	denied   []string
	programs func() ([]string, error)
	quota    *quota
}

// mount is a directory that is shown, or one file in it.
type mount struct {
	at   string // its path, clean
	dir  *os.File
	only string // the name of the one file in dir that is shown; empty for all
}

type rule struct {
	path     string
	writable bool
}

// openTree opens what a sandbox shows. Links on the way there are the operator's and are followed.
func openTree(b *local.Sandbox, programs func() ([]string, error)) (*tree, error) {
	cfg := b.Config()
	t := &tree{workspace: cfg.Workspace, programs: programs}
	if cfg.Limits.Disk > 0 {
		t.quota = &quota{limit: cfg.Limits.Disk, roots: []string{cfg.Workspace, b.Private("home"), b.Private("tmp")}}
		t.quota.used = t.quota.count()
	}
	for _, at := range cfg.ReadOnly {
		t.rules = append(t.rules, rule{path: at})
	}
	for _, at := range slices.Concat(cfg.Writable, []string{cfg.Workspace, b.Private("home"), b.Private("tmp")}) {
		t.rules = slices.DeleteFunc(t.rules, func(r rule) bool { return r.path == at })
		t.rules = append(t.rules, rule{path: at, writable: true})
	}
	sort.SliceStable(t.rules, func(i, j int) bool { return len(t.rules[i].path) < len(t.rules[j].path) })
	for _, r := range t.rules {
		if t.within(r.path) != nil {
			if err := t.plain(r.path); err != nil {
				return nil, errors.Join(err, t.close())
			}
			continue // it is shown with what is above it
		}
		m, err := openMount(r.path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("path to show inside: %w", err), t.close())
		}
		t.mounts = append(t.mounts, m)
	}
	slices.Reverse(t.rules)
	t.deny(cfg.Denied)
	return t, nil
}

func openMount(at string) (mount, error) {
	info, err := os.Stat(at)
	if err != nil {
		return mount{}, err
	}
	if info.IsDir() {
		dir, err := os.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY, 0)
		return mount{at: at, dir: dir}, err
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return mount{}, err
	}
	dir, err := os.OpenFile(filepath.Dir(real), os.O_RDONLY|unix.O_DIRECTORY, 0)
	return mount{at: at, dir: dir, only: filepath.Base(real)}, err
}

// plain checks that a path in what is shown already can be walked without a link: its rule would be another's
// otherwise.
func (t *tree) plain(at string) error {
	p, errno := t.resolve(at, false)
	if errno != 0 {
		return fmt.Errorf("path to show inside %s: %w", at, errno)
	}
	defer p.close()
	if p.abs != at || p.isLink() {
		return fmt.Errorf("path to show inside %s: it leads through a symbolic link: name the target of the link", at)
	}
	return nil
}

// deny hides paths, by each name that the tree has for them. One above all that is shown hides nothing.
func (t *tree) deny(paths []string) {
	for _, at := range paths {
		names := []string{at}
		if real, err := filepath.EvalSymlinks(at); err == nil {
			names = append(names, real)
			for _, m := range t.mounts {
				root, err := filepath.EvalSymlinks(m.at)
				if rest, ok := strings.CutPrefix(real, root); err == nil && ok && (rest == "" || rest[0] == '/') {
					names = append(names, m.at+rest)
				}
			}
		}
		for _, name := range names {
			if t.within(name) != nil {
				t.denied = append(t.denied, name)
			}
		}
	}
}

// close closes the directories; it may be called again.
func (t *tree) close() error {
	var all []error
	for _, m := range t.mounts {
		if err := m.dir.Close(); !errors.Is(err, fs.ErrClosed) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// below reports whether a clean absolute path is another, or below it.
func below(p, above string) bool {
	return p == above || above == "/" || strings.HasPrefix(p, above) && p[len(above)] == '/'
}

// within returns the mount that a path is in.
func (t *tree) within(abs string) *mount {
	for i := range t.mounts {
		if below(abs, t.mounts[i].at) {
			return &t.mounts[i]
		}
	}
	return nil
}

func (t *tree) hidden(abs string) bool {
	return slices.ContainsFunc(t.denied, func(d string) bool { return below(abs, d) })
}

func (t *tree) writable(abs string) bool {
	for _, r := range t.rules {
		if below(abs, r.path) {
			return r.writable
		}
	}
	return false
}

// pinned reports whether a path has to stay where it is, because a rule names it or something below it.
func (t *tree) pinned(abs string) bool {
	return slices.ContainsFunc(t.rules, func(r rule) bool { return below(r.path, abs) }) ||
		slices.ContainsFunc(t.denied, func(d string) bool { return below(d, abs) })
}

// made returns the names in a directory that only the tree has, such as its root.
func (t *tree) made(abs string) (names []string, ok bool) {
	if abs == "/" {
		names, ok = append(names, "bin", "dev"), true
	}
	for _, m := range t.mounts {
		if rest, found := strings.CutPrefix(m.at, strings.TrimSuffix(abs, "/")+"/"); found && rest != "" {
			name, _, _ := strings.Cut(rest, "/")
			names, ok = append(names, name), true
		}
	}
	slices.Sort(names)
	return slices.Compact(names), ok
}

// clean makes a path of the root's absolute.
func (t *tree) clean(name string) string {
	abs := path.Join("/", name)
	if rest, ok := strings.CutPrefix(abs, alias); ok && (rest == "" || rest[0] == '/') && t.within(abs) == nil {
		return t.workspace + rest
	}
	return abs
}
