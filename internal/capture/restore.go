package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Restore brings what earlier steps of a run made on other machines into its workspace here, before the run's first call
// on this one (ART-9). On a machine that knows the run the files themselves are there, and are left as they are (ART-10).
// A file that is there is never written over, and one that has expired is passed by. It returns how many it wrote.
func (k *Keeper) Restore(ctx context.Context, s run.State, dir string, rules *events.ArtifactRules) (int, error) {
	if k.cfg.Store == nil || s.Artifacts.Len() == 0 {
		return 0, nil
	}
	select {
	case k.bringing <- struct{}{}:
		defer func() { <-k.bringing }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if d, err := k.begun(s.HarnessID); err != nil || d != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	written, room := 0, artifact.LimitsOf(rules).Run
	for _, a := range artifact.Latest(s) {
		if a.Path == "" || a.Kept != events.KeptInStore || artifact.CheckPath(a.Path) != "" || a.Size > artifact.MaxTransfer {
			continue
		}
		if _, err := root.Lstat(a.Path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if room -= a.Size; room < 0 {
			return written, fmt.Errorf("artifacts of earlier steps: they have more bytes than the limit of the run, %d", artifact.LimitsOf(rules).Run)
		}
		data, err := k.cfg.Store.Get(ctx, a.Run, a.Ref())
		if errors.Is(err, reactor.ErrNotFound) {
			continue
		}
		if err == nil {
			err = writeNew(root, a.Path, data)
		}
		if err != nil {
			return written, fmt.Errorf("bring artifact %s here: %w", a.ID, err)
		}
		written++
	}
	return written, nil
}

// writeNew makes a file that is not there. It appears whole or not at all, so that half of one is never taken for it.
func writeNew(root *os.Root, file string, data []byte) error {
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	half := file + ".part"
	if err := root.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Link(half, file)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil // somebody else brought it meanwhile
	}
	return errors.Join(err, root.Remove(half))
}

// Clean takes the files of a run that ended out of its workspace where they are in the store (ART-14). One that was
// changed since is left. It returns how many it took.
func (k *Keeper) Clean(s run.State, dir string) (int, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	taken := 0
	for _, a := range artifact.Latest(s) {
		if a.Path == "" || a.Kept != events.KeptInStore || a.Run != s.HarnessID {
			continue
		}
		data, _, err := read(root, a.Path, func(size int64) (string, string) {
			if size != a.Size {
				return events.LeftChanging, "it has another size"
			}
			return "", ""
		})
		if err != nil || digest(data) != a.SHA256 {
			continue
		}
		if err := root.Remove(a.Path); err != nil {
			return taken, fmt.Errorf("take artifact %s out of the workspace: %w", a.ID, err)
		}
		taken++
	}
	return taken, nil
}
