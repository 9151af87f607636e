package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// homeInside is HOME in the sandbox, tmpInside is TMPDIR.
	homeInside = "/home/agent"
	tmpInside  = "/tmp/agent"
	// copyMax is the size up to which a file of /etc is copied into the root; a larger one is mounted.
	copyMax = 1 << 20
)

// etcMade are small files made for the sandbox instead of the machine's own. The user inside is 0, of gVisor's kernel
// and without any capability: so the files that it makes belong to the service's user outside.
var etcMade = map[string]string{
	"passwd":   "root:x:0:0:agent:" + homeInside + ":/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"group":    "root:x:0:\nnogroup:x:65534:\n",
	"hosts":    "127.0.0.1 localhost inspan\n::1 localhost\n",
	"hostname": "inspan\n",
}

// view makes the root of a sandbox and returns what is mounted over it, the outer paths first.
func (b *instance) view() ([]mount, error) {
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "var", "usr", "etc", homeInside} {
		if err := os.MkdirAll(b.inRoot(dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.Symlink("../tmp", b.inRoot("/var/tmp")); err != nil {
		return nil, err
	}
	list := []mount{
		{"/proc", "proc", "proc", nil}, {"/dev/shm", "tmpfs", "tmpfs", []string{"nosuid", "nodev"}},
		bind("/usr", "/usr", false), bind(b.Private("tmp"), "/tmp", true), bind(b.Private("home"), homeInside, true),
	}
	for _, name := range bwrap.RootLinks() {
		info, err := os.Lstat(name)
		switch {
		case err != nil: // not on this system
		case info.Mode()&fs.ModeSymlink == 0:
			list = append(list, bind(name, name, false))
		default:
			link, err := os.Readlink(name)
			if err != nil {
				return nil, err
			}
			if err := os.Symlink(link, b.inRoot(name)); err != nil {
				return nil, err
			}
		}
	}
	etc, err := b.etc()
	if err != nil {
		return nil, fmt.Errorf("make /etc: %w", err)
	}
	places, err := b.places()
	if err != nil {
		return nil, err
	}
	denied, err := b.denied()
	return append(append(append(list, etc...), places...), denied...), err
}

// inRoot is the path outside of one in the sandbox's root.
func (b *instance) inRoot(path string) string { return filepath.Join(b.Private("root"), path) }

func bind(from, to string, writable bool) mount {
	mode := "ro"
	if writable {
		mode = "rw"
	}
	return mount{to, "bind", from, []string{"rbind", mode, "nosuid", "nodev"}}
}

// etc writes what is small into the root, and mounts the rest.
func (b *instance) etc() (list []mount, err error) {
	for name, text := range etcMade {
		if err := os.WriteFile(b.inRoot("/etc/"+name), []byte(text), 0o444); err != nil {
			return nil, err
		}
	}
	shown := bwrap.EtcShown()
	if b.Config().Network {
		shown = append(shown, "/etc/resolv.conf")
	}
	for _, name := range shown {
		info, err := os.Stat(name)
		switch {
		case err != nil: // not on this system
		case info.Mode().IsRegular() && info.Size() <= copyMax:
			text, err := os.ReadFile(name)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(b.inRoot(name)), 0o755)
			}
			if err == nil {
				err = os.WriteFile(b.inRoot(name), text, 0o444)
			}
			if err != nil {
				return nil, err
			}
		default:
			list = append(list, bind(name, name, false))
		}
	}
	return list, nil
}

// open are the directories that commands write.
func (b *instance) open() []string {
	return append([]string{b.Config().Workspace}, b.Config().Writable...)
}

// places mounts what the Config names. What lies in a directory that commands write is found through no link, each time
// that a command begins.
func (b *instance) places() (list []mount, err error) {
	var handles bwrap.Handles
	defer handles.Close()
	for _, p := range bwrap.Places(b.Config()) {
		file, err := handles.Hold(p.Path, b.open())
		switch {
		case p.Optional && err != nil:
			continue
		case err != nil:
			return nil, err
		case file == nil:
			list = append(list, bind(p.Path, p.Path, p.Writable))
			continue
		case os.Geteuid() != 0:
			return nil, fmt.Errorf("%w: %s is in a directory that commands can write, and under gVisor only root can mount it safely: use bwrap", sandbox.ErrNotEnforced, p.Path)
		}
		at := b.Private(fmt.Sprintf("held-%d", len(b.held)))
		info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		if err == nil && info.IsDir() {
			err = os.Mkdir(at, 0o700)
		} else if err == nil {
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("path to show inside: %w", err)
		}
		b.held[p.Path] = at
		list = append(list, bind(at, p.Path, p.Writable))
	}
	return list, nil
}

// denied covers the denied paths, and what they lead to where they are links. A path that is not there needs nothing:
// what a command makes at its place is the command's own.
func (b *instance) denied() (list []mount, err error) {
	file, dir := b.Private("denied"), b.Private("denied.d")
	if len(b.Config().Denied) == 0 {
		return nil, nil
	}
	if err := errors.Join(os.WriteFile(file, nil, 0), os.Mkdir(dir, 0)); err != nil {
		return nil, fmt.Errorf("make the cover of denied paths: %w", err)
	}
	for _, path := range b.Config().Denied {
		at, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("denied path: %w", err)
		}
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return nil, fmt.Errorf("denied path: %w", err)
		case !b.sees(at): // it is not there
		case info.IsDir():
			list = append(list, bind(dir, at, false))
		default:
			list = append(list, bind(file, at, false))
		}
	}
	return list, nil
}

// sees reports whether something of the machine, or something made for the sandbox, stands at a path inside.
func (b *instance) sees(path string) bool {
	if _, made := etcMade[strings.TrimPrefix(path, "/etc/")]; made {
		return true
	}
	return bwrap.Shown(b.Config(), path)
}

// makePrivate makes the directories that the sandbox needs besides HOME and TMPDIR.
func makePrivate(inner *local.Sandbox) error {
	for _, name := range []string{"tmp/agent", "root", "runsc"} {
		if err := os.Mkdir(inner.Private(name), 0o700); err != nil {
			return err
		}
	}
	return os.Chmod(inner.Private("root"), 0o755) // it is what commands see as /
}
