package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// bind is one mount of a container. The engine mounts by path, and what lies in a directory that commands write can be
// replaced by a link between a look at it and its mount. So each is opened once, kept open, and compared from inside
// with what came to be mounted, before anything runs there.
type bind struct {
	source, target string
	readOnly       bool
	// root is the outermost directory that commands write and that holds target; target itself where there is none.
	root string
	file *os.File
	dev  uint64
	ino  uint64
}

// prepare lists the mounts and opens them.
func (b *instance) prepare() error {
	if err := os.Mkdir(b.Private("tmp/agent"), 0o700); err != nil {
		return err
	}
	if err := b.give("home", "tmp", "tmp/agent"); err != nil {
		return err
	}
	cfg := b.Config()
	open := append([]string{cfg.Workspace}, cfg.Writable...)
	b.binds = []bind{{source: b.Private("home"), target: homeInside}, {source: b.Private("tmp"), target: "/tmp"}}
	b.binds = append(b.binds, shown(cfg, open)...)
	helper, err := b.b.helper()
	if err != nil {
		return err
	}
	b.binds = append(b.binds, bind{source: helper, target: within.Path, readOnly: true})
	if cfg.Egress != nil {
		if err := os.Mkdir(b.Private("door"), 0o700); err != nil {
			return err
		}
		if err := b.give("door"); err != nil {
			return err
		}
		b.binds = append(b.binds, bind{source: b.Private("door"), target: within.EgressDir, readOnly: true})
	}
	denied, err := b.denials()
	if err != nil {
		return err
	}
	b.binds = append(slices.DeleteFunc(b.binds, func(m bind) bool { // what is shown and denied is denied
		return slices.ContainsFunc(denied, func(d bind) bool { return d.target == m.target })
	}), denied...)
	for i := range b.binds {
		if err := b.binds[i].anchor(open); err != nil {
			return err
		}
	}
	return b.places()
}

// give makes private directories those of the user of commands, where that is another.
func (b *instance) give(names ...string) error {
	var uid, gid int
	if _, err := fmt.Sscanf(b.user, "%d:%d", &uid, &gid); err != nil || uid == os.Getuid() {
		return err
	}
	for _, name := range names {
		if err := os.Chown(b.Private(name), uid, gid); err != nil {
			return fmt.Errorf("%w: the user of commands: %w", sandbox.ErrUnavailable, err)
		}
	}
	return nil
}

// shown orders what the Config shows: the deeper path wins because the engine mounts it later, and where one is named
// twice, the workspace wins over Writable and Writable over ReadOnly. The directories between a writable one and a path
// in it that is closed are mounted onto themselves: what is a mount cannot be renamed, and so what is below cannot be
// moved out of its place.
func shown(cfg sandbox.Config, open []string) []bind {
	list := []bind{{source: cfg.Workspace, target: cfg.Workspace}}
	add := func(b bind) {
		if !slices.ContainsFunc(list, func(other bind) bool { return other.target == b.target }) {
			b.source = b.target
			list = append(list, b)
		}
	}
	for _, path := range cfg.Writable {
		add(bind{target: path})
	}
	for _, path := range cfg.ReadOnly {
		add(bind{target: path, readOnly: true})
	}
	for _, path := range slices.Concat(cfg.ReadOnly, cfg.Denied) {
		for _, above := range open {
			if !strings.HasPrefix(path, above+"/") {
				continue
			}
			for dir := filepath.Dir(path); len(dir) > len(above); dir = filepath.Dir(dir) {
				if info, err := os.Lstat(dir); err == nil && info.IsDir() { // else nothing is to be kept in its place
					add(bind{target: dir})
				}
			}
		}
	}
	return list
}

// anchor opens what is to be mounted: through no link from the outermost directory on that commands write.
func (m *bind) anchor(open []string) error {
	m.root = m.target
	for _, dir := range open {
		if strings.HasPrefix(m.target, dir+"/") && len(dir) < len(m.root) {
			m.root = dir
		}
	}
	fd, err := -1, error(nil)
	if m.root == m.target || m.source != m.target { // that of a cover is the sandbox's own
		fd, err = unix.Open(m.source, unix.O_PATH|unix.O_CLOEXEC, 0)
	} else {
		fd, err = local.Beneath(m.root, strings.TrimPrefix(m.target, m.root+"/"))
	}
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("path to show inside: %s is, or leads through, a symbolic link in a directory that commands can write: name the target of the link: %w", m.target, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %s is in a directory that commands can write, and mounting it safely needs Linux 5.6 or newer",
			sandbox.ErrNotEnforced, m.target)
	case err != nil:
		return fmt.Errorf("path to show inside: %s: %w", m.source, err)
	}
	m.file = os.NewFile(uintptr(fd), m.source)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("path to show inside: %s: %w", m.source, err)
	}
	m.dev, m.ino = uint64(st.Dev), st.Ino
	return nil
}

// check is what the helper has to find.
func (m *bind) check() within.Check {
	return within.Check{Path: m.target, Root: m.root, Dev: m.dev, Ino: m.ino, ReadOnly: m.readOnly}
}

// denials cover the denied paths with something empty; see local.Covered.
func (b *instance) denials() ([]bind, error) {
	cfg := b.Config()
	paths := cfg.Denied
	if strings.HasPrefix(b.user, "0:") { // who could read those of the image
		paths = append(slices.Clone(paths), "/etc/shadow", "/etc/gshadow")
	}
	if len(paths) == 0 {
		return nil, nil
	}
	file, dir := b.Private("denied"), b.Private("denied.d")
	if err := os.WriteFile(file, nil, 0); err != nil {
		return nil, fmt.Errorf("make the cover of denied files: %w", err)
	}
	if err := os.Mkdir(dir, 0); err != nil {
		return nil, fmt.Errorf("make the cover of denied directories: %w", err)
	}
	var list []bind
	seen := func(at string) bool { return !hidden(cfg, at) } // what only this machine has is not there
	err := local.Covered(paths, seen, func(at string, isDir bool) {
		source := file
		if isDir {
			source = dir
		}
		if !slices.ContainsFunc(list, func(other bind) bool { return other.target == at }) {
			list = append(list, bind{source: source, target: at, readOnly: true})
		}
	})
	return list, err
}

// hidden reports whether a path is one of this machine that a container has in its own form: /tmp and HOME. Any other
// may be one of the image too.
func hidden(cfg sandbox.Config, path string) bool {
	below := func(roots ...string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
	}
	return below("/tmp", homeInside) && !below(slices.Concat([]string{cfg.Workspace}, cfg.ReadOnly, cfg.Writable)...)
}

// places makes what is mounted on below /tmp, which is the sandbox's own: the engine would make it as root.
func (b *instance) places() error {
	targets := slices.Clone(b.binds)
	sort.Slice(targets, func(i, j int) bool { return len(targets[i].target) < len(targets[j].target) })
	for _, m := range targets {
		rest, ok := strings.CutPrefix(m.target, "/tmp/")
		if !ok || slices.ContainsFunc(targets, func(o bind) bool { return o.target != "/tmp" && strings.HasPrefix(m.target, o.target+"/") }) {
			continue
		}
		at := b.Private(filepath.Join("tmp", rest))
		info, err := m.file.Stat()
		if err == nil && info.IsDir() {
			err = os.MkdirAll(at, 0o755)
		} else if err == nil {
			if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
				err = os.WriteFile(at, nil, 0o600)
			}
		}
		if err != nil {
			return fmt.Errorf("make the mount point of %s: %w", m.target, err)
		}
	}
	return nil
}
