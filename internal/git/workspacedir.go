package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/pattern"
)

// workspaceDir is the private directory of one call: home, configuration, what stands in for the repository's common
// directory, and the ways of a secret.
type workspaceDir struct {
	dir, cwd string
	env      []string
	repo     *layout
	far      bool // a remote is asked
	secrets  []string
	// way is how walls are raised; pin, if set, is the common directory that is shown as "git" behind them.
	way wall.Way
	pin string
	// host is where ssh connects to, and alias the name by which the key of that host is known; empty as the address
	// says.
	host, alias string
	closers     []func() error
	// credErr is why no credential could be given. It is written before what reads it has ended.
	credErr error
}

// settings are the whole configuration of every call. There are no programs in it.
const settings = `[core]
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	pager = cat
	editor = false
	commitGraph = false
	multiPackIndex = false
	protectNTFS = true
	protectHFS = true
	bigFileThreshold = 32m
	compression = 1
	askPass =
[safe]
	directory = *
[user]
	useConfigOnly = true
[credential]
	helper =
[protocol]
	version = 2
[transfer]
	fsckObjects = true
	unpackLimit = 1
[fetch]
	fsckObjects = true
	unpackLimit = 1
	recurseSubmodules = false
	writeCommitGraph = false
[fetch "fsck"]
	zeroPaddedFilemode = warn
	badTimezone = warn
	missingSpaceBeforeDate = warn
	missingSpaceBeforeEmail = warn
	missingEmail = warn
	badEmail = warn
	badName = warn
	missingNameBeforeEmail = warn
	zeroPaddedDate = warn
	gitmodulesParse = warn
	gitmodulesUrl = error
[fastimport]
	unpackLimit = 1
[pack]
	compression = 1
	useBitmaps = false
[submodule]
	recurse = false
[diff]
	ignoreSubmodules = all
	external =
[status]
	submoduleSummary = false
[push]
	default = nothing
	followTags = false
	recurseSubmodules = no
	gpgSign = false
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gc]
	auto = 0
	autoDetach = false
[maintenance]
	auto = false
[advice]
	detachedHead = false
[http]
	followRedirects = false
	lowSpeedLimit = 100
	lowSpeedTime = 60
`

// newWorkspaceDir makes the place of a call.
func (g *runner) newWorkspaceDir(ctx context.Context, c call) (_ *workspaceDir, err error) {
	dir, err := os.MkdirTemp(g.cfg.Temp, "inspan-git-")
	if err != nil {
		return nil, fmt.Errorf("make a private directory: %w", err)
	}
	p := &workspaceDir{dir: dir, cwd: dir, repo: c.repo, far: c.remote != nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if c.inTree() {
		way, none := g.isolation.find(ctx, g.cfg.Temp)
		if p.way = way; none != nil && ctx.Err() != nil {
			return nil, none
		}
	}
	config := settings
	for key, value := range map[string]string{"proxy": g.cfg.Proxy, "sslCAInfo": g.cfg.CAFile} {
		if value != "" {
			config += fmt.Sprintf("\t%s = \"%s\"\n", key, value)
		}
	}
	if c.remote != nil {
		there, err := p.reach(ctx, g, c.remote)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", c.remote.host, err)
		}
		config += there
	}
	if err := os.WriteFile(p.at("config"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	protocols := "none" // no protocol is called so
	if c.remote != nil {
		protocols = c.remote.scheme
	}
	p.env = []string{"PATH=" + systemPath, "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "TMPDIR=" + dir, "LANG=C", "LC_ALL=C",
		"TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + p.at("config"), "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ADVICE=0", "GIT_EDITOR=false",
		"GIT_PAGER=cat",
		"GIT_LITERAL_PATHSPECS=1", "GIT_ALLOW_PROTOCOL=" + protocols, "GIT_PROTOCOL_FROM_USER=0", "GIT_CEILING_DIRECTORIES=" +
			filepath.Dir(dir),
		"GIT_MERGE_AUTOEDIT=no", "GIT_FLUSH=0"}
	switch {
	case c.repo != nil:
		if err := p.stand(c.repo, g.cfg.Ignore); err != nil {
			return nil, err
		}
	case c.gitDir != "":
		p.env = append(p.env, "GIT_DIR="+c.gitDir)
	}
	if c.remote != nil {
		if err := p.credential(ctx, g, c.remote); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *workspaceDir) at(name string) string { return filepath.Join(p.dir, name) }

// shared are the parts of a common directory that hold content. All others, above all config, hooks and info, are ours.
func shared() []string {
	return []string{"objects", "refs", "logs", "packed-refs", "shallow", "worktrees"}
}

// stand makes what stands in for the common directory of a repository.
func (p *workspaceDir) stand(r *layout, ignore []string) error {
	if err := r.check(); err != nil {
		return err
	}
	common := p.at("common")
	if err := os.MkdirAll(filepath.Join(common, "info"), 0o700); err != nil {
		return err
	}
	if !r.reads {
		if err := r.mkdir("logs"); err != nil {
			return err
		}
	}
	for _, name := range shared() {
		if err := os.Symlink(filepath.Join(r.common, name), filepath.Join(common, name)); err != nil {
			return err
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogAllRefUpdates = true\n"
	if r.format == "sha256" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogAllRefUpdates = true\n[extensions]\n\tobjectFormat = sha256\n"
	}
	for name, text := range map[string]string{"config": config,
		"info/attributes": "* -filter !diff !merge !conflict-marker-size\n", "info/exclude": strings.Join(ignore,
			"\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(common, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	gitDir := r.gitDir
	if p.way != wall.None {
		own, err := filepath.Rel(r.common, r.gitDir)
		if err == nil {
			err = os.Mkdir(p.at("git"), 0o700)
		}
		if err != nil {
			return err
		}
		p.pin, gitDir = r.common, filepath.Join(p.at("git"), own)
	}
	p.cwd = r.tree
	p.env = append(p.env, "GIT_DIR="+gitDir, "GIT_COMMON_DIR="+common, "GIT_WORK_TREE="+r.tree, "PWD="+r.tree)
	if r.lender != "" {
		p.env = append(p.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+alternate(r.lender))
	}
	return nil
}

// settle carries over what git did to the list of shallow commits: it replaces or removes the link and not the file.
func (p *workspaceDir) settle() {
	if p.repo == nil || p.repo.reads {
		return
	}
	link := filepath.Join(p.at("common"), "shallow")
	info, err := os.Lstat(link)
	// Where it cannot be done, the next fetch asks for more than it must.
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = p.repo.inside(func(root *os.Root, top string) error { return root.Remove(filepath.Join(top, "shallow")) })
	case err == nil && info.Mode().IsRegular():
		if b, err := os.ReadFile(link); err == nil {
			_ = p.repo.inside(func(root *os.Root, top string) error {
				f, err := root.OpenFile(filepath.Join(top, "shallow"),
					os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
				if err != nil {
					return err
				}
				_, err = f.Write(b)
				return errors.Join(err, f.Close())
			})
		}
	}
}

func (p *workspaceDir) close() error {
	var all error
	for i := len(p.closers) - 1; i >= 0; i-- {
		all = errors.Join(all, p.closers[i]())
	}
	return errors.Join(all, os.RemoveAll(p.dir))
}

var userinfo = pattern.New(`://[^/@\s]+@`)

// hide takes secrets, and whatever stands where addresses have them, out of a text, and names the repository by its own
// name.
func (p *workspaceDir) hide(said string) string {
	for _, s := range p.secrets {
		said = strings.ReplaceAll(said, s, "***")
	}
	if p.pin != "" {
		said = strings.ReplaceAll(said, p.at("git"), p.pin)
	}
	return userinfo.ReplaceAllString(said, "://***@")
}
