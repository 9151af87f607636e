package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Restore brings what earlier steps of a run made on other machines into its workspace here, before the run's first
// call on this one (ART-9). On a machine that knows the run the files themselves are there, and are left as they are
// (ART-10). A file that is there is never written over, and one that has expired is passed by. It returns how many it
// wrote.
func (k *Keeper) Restore(ctx context.Context, s run.State, dir string, rules *events.ArtifactRules) (int, error) {
	if k.cfg.Store == nil || s.Artifacts.Len() == 0 {
		return 0, nil
	}
	return k.bring(ctx, s.HarnessID, dir, func(root *os.Root) (int, error) { return k.restore(ctx, s, root, rules) })
}

// bring has write put files into the workspace of a run, one run at a time; once the files of the workspace were listed
// it puts none.
func (k *Keeper) bring(ctx context.Context, runID, dir string, write func(root *os.Root) (int, error)) (int, error) {
	select {
	case k.bringing <- struct{}{}:
		defer func() { <-k.bringing }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if d, err := k.begun(runID); err != nil || d != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	return write(root)
}

func (k *Keeper) restore(ctx context.Context, s run.State, root *os.Root, rules *events.ArtifactRules) (int, error) {
	written, room := 0, artifact.LimitsOf(rules).Run
	for _, a := range artifact.Latest(s) {
		if a.Path == "" || a.Kept != events.StoredInBucket || artifact.CheckPath(a.Path) != "" ||
			a.Size > artifact.MaxTransfer {
			continue
		}
		if _, err := root.Lstat(a.Path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if room -= a.Size; room < 0 {
			return written, fmt.Errorf("artifacts of earlier steps: they have more bytes than the limit of the run, %d",
				artifact.LimitsOf(rules).Run)
		}
		data, err := k.cfg.Store.Get(ctx, a.Run, a.Ref())
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err == nil {
			err = Write(root, a.Path, data, false)
		}
		if err != nil {
			return written, fmt.Errorf("copy artifact %s into the workspace: %w", a.ID, err)
		}
		written++
	}
	return written, nil
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
		if a.Path == "" || a.Kept != events.StoredInBucket || a.Run != s.HarnessID {
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
			return taken, fmt.Errorf("remove artifact %s from the workspace: %w", a.ID, err)
		}
		taken++
	}
	return taken, nil
}
