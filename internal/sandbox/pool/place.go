package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/workspace/workdir"
)

// closePlace closes, in a directory of a person that a run works in itself, what no tool and no command may change or
// see. What is to be closed must be there: a name that is missing could be made. A sandbox that cannot keep it closed
// is not opened.
func (o *Opener) closePlace(cfg *sandbox.Config, mode sandbox.Mode, backend sandbox.Backend, rel string) error {
	place, ok, err := workdir.PlaceOf(o.cfg.Root, rel)
	if !ok || err != nil {
		return err
	}
	can := sandbox.Can(backend.Capabilities(), sandbox.IsolationDenied)
	files := sandbox.Can(backend.Capabilities(), sandbox.IsolationFiles)
	if o.Away(mode) || !can.Enforced || !files.Enforced {
		return fmt.Errorf("%w: the sandbox %s cannot keep %s read-only in %s: use bwrap, docker or gvisor, or leave --in-place out",
			sandbox.ErrNotEnforced, mode, strings.Join(place.ReadOnly, ", "), place.Dir)
	}
	for _, name := range place.ReadOnly {
		at := filepath.Join(place.Dir, filepath.FromSlash(name))
		there, err := present(at, []string{place.Dir})
		if err == nil && !there {
			if err = os.Mkdir(at, 0o755); err == nil {
				there, err = present(at, []string{place.Dir})
			}
		}
		if err != nil || !there {
			return fmt.Errorf("%w: keep %s read-only: %w", sandbox.ErrNotEnforced, at, err)
		}
		cfg.ReadOnly = append(cfg.ReadOnly, at)
	}
	for _, name := range place.Denied {
		cfg.Denied = append(cfg.Denied, filepath.Join(place.Dir, filepath.FromSlash(name)))
	}
	if below(o.cfg.Root, []string{place.Dir}) && !below(o.cfg.Root, cfg.Denied) { // with the files of other runs
		cfg.Denied = append(cfg.Denied, o.cfg.Root)
	}
	return nil
}

// cacheOf is the path, below that of the caches, of the one of a workspace. A directory of a person has one for all
// of its runs, and none where it would be in that directory: what is closed there can have nothing open in it.
func (o *Opener) cacheOf(dir workdir.Dir) (string, error) {
	place, ok, err := workdir.PlaceOf(o.cfg.Root, dir.Workspace)
	if !ok || err != nil {
		return dir.Workspace, err
	}
	if below(o.cfg.Cache, []string{place.Dir}) {
		return "", nil
	}
	sum := sha256.Sum256([]byte(place.Dir))
	return "places/" + hex.EncodeToString(sum[:16]), nil
}
