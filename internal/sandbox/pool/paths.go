package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// ErrNotShown means that an agent asks for a path that its station shows to no sandbox.
var ErrNotShown = errors.New("the station does not allow this path in sandboxes")

// paths adds what an agent says of files. It may close what is open, and open only what the station shows anyway: the
// workspace, and what an operator has named.
func paths(cfg *sandbox.Config, want events.Sandbox) error {
	open, readable := append(slices.Clone(cfg.Writable), cfg.Workspace), slices.Clone(cfg.ReadOnly)
	cfg.ReadOnly, cfg.Writable = slices.Clone(cfg.ReadOnly), slices.Clone(cfg.Writable)
	for _, name := range want.ReadOnly {
		at := absolute(cfg.Workspace, name)
		all := slices.Concat(open, readable)
		if !below(at, all) {
			return fmt.Errorf("read_only %q: %w: an operator can add it to INSPAN_SANDBOX_READ_ONLY", name, ErrNotShown)
		}
		there, err := present(at, all)
		if err != nil {
			return fmt.Errorf("read_only %q: %w", name, err)
		}
		if there && at != cfg.Workspace {
			cfg.ReadOnly = append(cfg.ReadOnly, at)
		}
		if at == cfg.Workspace {
			return fmt.Errorf("read_only %q: %w: the whole workspace cannot be read-only, name paths in it", name,
				sandbox.ErrNotEnforced)
		}
	}
	for _, name := range want.ReadWrite {
		at := absolute(cfg.Workspace, name)
		if !below(at, open) {
			return fmt.Errorf("read_write %q: %w for writing: use paths in the workspace", name, ErrNotShown)
		}
		there, err := present(at, open)
		if err != nil {
			return fmt.Errorf("read_write %q: %w", name, err)
		}
		if there && at != cfg.Workspace {
			cfg.Writable = append(cfg.Writable, at)
		}
	}
	for _, name := range want.Denied {
		cfg.Denied = append(cfg.Denied, absolute(cfg.Workspace, name))
	}
	return nil
}

// absolute joins a path to the workspace; ~ is the home of the service's user, so that ~/.ssh is the real one.
func absolute(workspace, name string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(workspace, name)
}

// below reports whether a path is one of some or in it.
func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// present reports whether a path that is below one of some directories is there, without a link on the way from that
// directory: a link could show what is not to be shown.
func present(path string, dirs []string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, dir := range dirs {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !below(path, []string{dir}) {
			continue
		}
		// The way to the directory itself may hold links: an operator chose it.
		if from, err := filepath.EvalSymlinks(dir); err == nil && real == filepath.Join(from, rel) {
			return true, nil
		}
	}
	return false, fmt.Errorf("%w: it is, or leads through, a symbolic link: name the target of the link", ErrNotShown)
}
